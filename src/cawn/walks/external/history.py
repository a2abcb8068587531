"""The per-node lists that walks are sampled from, built in pieces.

Three passes: the entries of each list are counted; then they are written in time order, but grouped by ranges of lists,
each range to the part of the file where its lists belong; then one range after the other is read, sorted into its lists
and written back, with the running sums.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.data.array_files import ArrayFile, blocks, write_array
from cawn.data.events import Events
from cawn.errors import QueryError
from cawn.kernels.cpu.index import (
    continue_logsums,
    count_entries,
    entries_by_group,
    fill_logsums,
    group_nodes,
    place_entries,
)
from cawn.kernels.threads import num_threads
from cawn.progress import ShowProgress
from cawn.walks.external.sorting import BackgroundTask

Array = npt.NDArray[Any]

_BLOCK = 1 << 20  # events that are read at once
_GROUP = 1 << 21  # entries that are sorted at once, if memory allows for more
_PER_NODE = 8 + 8 + 8 + 4  # bytes: starts, newest, count, group
_PER_EVENT = 2 * (16 + 2 * 24)  # bytes of a block: columns and entries, one being read while one is written
_PER_ENTRY = 2 * 24 + 8  # bytes of a group: entries before and after sorting, sums
_LEAST = 1 << 10  # events of a block


def memory_limit_error(what: str, count: int, of: str, needed: int, memory: int) -> QueryError:
    """The error for a memory limit that is too low; says how much is missing."""
    missing = (needed - memory) / 2**20
    return QueryError(f"{what} {count:,} {of} needs {missing:,.0f} MiB more than the memory limit; give more memory")


class _Group(NamedTuple):
    """The lists of a range of nodes."""

    first: int  # node
    last: int  # the node after the last
    start: int  # entry
    stop: int


class HistoryFiles:
    """Writes the arrays of a `History`."""

    def __init__(
        self, events: Events, alphas: Array, folder: Path, memory: int, threads: int | None, report: ShowProgress
    ) -> None:
        self._events, self._alphas, self._folder, self._report = events, alphas, folder, report
        self._threads = num_threads(threads)
        left = memory - _PER_NODE * events.num_nodes
        self._block = min(_BLOCK, left // (2 * _PER_EVENT))
        self._group = min(_GROUP, left // (self._threads * _PER_ENTRY))
        if self._block < _LEAST:
            needed = _PER_NODE * events.num_nodes + 2 * _LEAST * _PER_EVENT
            raise memory_limit_error("an index of", events.num_nodes, "nodes", needed, memory)

    def write(self) -> list[str]:
        """Write all arrays; returns their names."""
        starts = self._count()
        size, path = int(starts[-1]), self._folder
        write_array(path / "history.starts.npy", starts)
        write_array(path / "history.alphas.npy", self._alphas)
        with ExitStack() as stack:
            create = partial(_created, stack, path)
            time = create("history.time", (size,), self._events.t.dtype)
            hop = create("history.hop", (size, 3), np.int32)
            logsum = create("history.logsum", (len(self._alphas), size), np.float64)
            owner = create("owner", (size,), np.int32)
            groups = self._distribute(starts, owner, time, hop)
            self._sort(groups, starts, owner, time, hop, logsum)
        (path / "owner.npy").unlink()
        return [f"history.{name}" for name in ("starts", "time", "hop", "logsum", "alphas")]

    def _count(self) -> Array:
        """Where each node's list starts."""
        events = self._events
        starts = np.zeros(events.num_nodes + 1, np.int64)
        with self._report("counting links", len(events)) as show:
            for first, (src, dst) in blocks(self._block, events.src, events.dst):
                count_entries(src, dst, starts[1:])
                show(first + len(src))
        return np.cumsum(starts, out=starts)

    def _distribute(self, starts: Array, owner: ArrayFile, time: ArrayFile, hop: ArrayFile) -> list[_Group]:
        """Write the entries of each group to the part of the files where its lists belong, in time order."""
        events, num_nodes = self._events, self._events.num_nodes
        group = np.empty(num_nodes, np.int32)
        num_groups = group_nodes(starts, self._group, group)
        bounds = np.searchsorted(group, np.arange(num_groups + 1))
        at = starts[bounds[:-1]].copy()
        newest, count = np.empty(num_nodes, events.t.dtype), np.zeros((num_nodes, 2), np.int32)

        def write(ends: Array, of_owner: Array, of_time: Array, of_hop: Array) -> None:
            begins = np.append(0, ends[:-1])
            for g in np.flatnonzero(ends > begins).tolist():
                some = slice(begins[g], ends[g])
                owner.write(of_owner[some], int(at[g]))
                time.write(of_time[some], int(at[g]))
                hop.write(of_hop[some], 3 * int(at[g]))
            at[:] += ends - begins

        with self._report("distributing links", len(events)) as show, BackgroundTask() as background:
            for first, (src, dst, t) in blocks(self._block, events.src, events.dst, events.t):
                size = 2 * len(src)
                ends, of_owner = np.empty(num_groups, np.int64), np.empty(size, np.int32)
                of_time, of_hop = np.empty(size, t.dtype), np.empty((size, 3), np.int32)
                entries_by_group(src, dst, t, first, group, newest, count, ends, of_owner, of_time, of_hop)
                background.submit(write, ends, of_owner, of_time, of_hop)
                show(first + len(src))
        return [_Group(*bounds[g : g + 2].tolist(), *starts[bounds[g : g + 2]].tolist()) for g in range(num_groups)]

    def _sort(
        self, groups: list[_Group], starts: Array, owner: ArrayFile, time: ArrayFile, hop: ArrayFile, logsum: ArrayFile
    ) -> None:
        """Sort the entries of each group into its lists, and compute their running sums."""
        size, done = int(starts[-1]), 0

        def sort(found: _Group) -> int:
            if found.stop - found.start > self._group:  # one list, which is in order already
                self._continue(found, time, logsum, size)
            else:
                lists = starts[found.first : found.last + 1] - found.start
                of_time = time.read(found.start, found.stop - found.start)
                entries = _placed(lists[:-1].copy(), found, of_time, owner, hop)
                time.write(entries[0], found.start)
                hop.write(entries[1], 3 * found.start)
                for a, alpha in enumerate(self._alphas):
                    sums = np.empty(found.stop - found.start)
                    fill_logsums(lists, entries[0], alpha, sums, 0, len(lists) - 1)
                    logsum.write(sums, a * size + found.start)
            return found.stop - found.start

        with self._report("sorting links", size) as show, ThreadPoolExecutor(self._threads) as pool:
            for entries in pool.map(sort, groups):
                done += entries
                show(done)

    def _continue(self, found: _Group, time: ArrayFile, logsum: ArrayFile, size: int) -> None:
        """The running sums of one list, a part at a time."""
        P, before = [0.0] * len(self._alphas), np.zeros(1, time.dtype)
        for first in range(found.start, found.stop, self._group):
            some = time.read(first, min(self._group, found.stop - first))
            inside = np.zeros(len(some), np.bool_)
            for a, alpha in enumerate(self._alphas):
                sums = np.empty(len(some))
                P[a] = continue_logsums(inside, some, before, alpha, P[a], sums)
                logsum.write(sums, a * size + first)
            before = some[-1:].copy()


def _placed(at: Array, found: _Group, of_time: Array, owner: ArrayFile, hop: ArrayFile) -> tuple[Array, Array]:
    """The times and hops of a group in the order of its lists."""
    size = len(of_time)
    of_owner, of_hop = owner.read(found.start, size), hop.read(3 * found.start, 3 * size).reshape(-1, 3)
    out = np.empty(size, of_time.dtype), np.empty((size, 3), np.int32)
    place_entries(of_owner, of_time, of_hop, found.first, at, *out)
    return out


def _created(stack: ExitStack, folder: Path, name: str, shape: tuple[int, ...], dtype: Any) -> ArrayFile:
    return stack.enter_context(ArrayFile(folder / f"{name}.npy", shape, dtype))
