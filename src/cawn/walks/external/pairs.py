"""The link times of each pair, and the transitions between consecutive partners of a node, built in pieces.

These are the arrays of `Rates` and `Sequences`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.array_files import ArrayFile, blocks, write_array
from cawn.data.events import Events
from cawn.data.ties import hash_rows
from cawn.devices import release_freed_memory
from cawn.kernels.cpu.index import continue_counts, continue_logsums, transitions
from cawn.kernels.cpu.ties import link_keys
from cawn.kernels.threads import num_threads
from cawn.progress import ShowProgress
from cawn.walks.external.sorting import LEAST, KeySorter
from cawn.walks.rates import STORED_NAMES
from cawn.walks.sequences import SCALE, STORED

Array = npt.NDArray[Any]
Keys = Callable[[Array, Array], Array]  # of sources and destinations

_BLOCK = 1 << 19  # links that are read at once
_SHARE = 0.8  # of the memory, for sorting; the rest is lost to fragments
_PER_LINK = 256  # bytes of a block
_PER_NODE = 8 + 8 + 8 + 4  # bytes: starts, colours, sums, last partner
_KEYS: dict[str, Keys] = {
    "pairs": lambda src, dst: np.minimum(src, dst) << 32 | np.maximum(src, dst),
    "ways": lambda src, dst: src << 32 | dst,
    "sources": lambda src, _: src,
    "destinations": lambda _, dst: dst,
}


class SortedLists:
    """Writes lists of times in the order of their keys, with running sums; a context.

    Args:
        folder: Where the files are.
        size: The number of entries.
        names: The file of each array: keys, starts, time, logsum, sum; those that are not named are not written.
        alphas: The decays of `logsum`.
        scale: Time after which an entry counts 1 / e in `sum`.
    """

    def __init__(
        self,
        folder: Path,
        size: int,
        dtype: Any,
        names: dict[str, str],
        *,
        alphas: Array | tuple[()] = (),
        scale: float = 1.0,
        threads: int = 1,
    ) -> None:
        shapes: dict[str, tuple[tuple[int, ...], Any]] = {
            "keys": ((size,), np.int64),
            "starts": ((size + 1,), np.int64),
            "time": ((size,), dtype),
            "logsum": ((len(alphas), size), np.float64),
            "sum": ((size,), np.float64),
        }
        self._stack = ExitStack()
        self._files = {
            kind: self._stack.enter_context(ArrayFile(folder / f"{name}.npy", *shapes[kind]))
            for kind, name in names.items()
        }
        self._pool = self._stack.enter_context(ThreadPoolExecutor(threads))
        self._size, self._alphas, self._scale = size, alphas, scale
        self._lists = self._at = 0  # written so far
        self._key, self._time, self._sum = -1, np.zeros(1, dtype), 0.0  # of the last entry
        self._P = [0.0] * len(alphas)

    def add(self, keys: Array, time: Array) -> None:
        """Write the next entries; keys are at least 0 and ascend."""
        first = np.append(keys[:1] != self._key, keys[1:] != keys[:-1])
        starts = np.flatnonzero(first)
        self._write("keys", keys[starts], self._lists)
        self._write("starts", starts + self._at, self._lists)
        self._write("time", time, self._at)
        tasks = list(enumerate(self._alphas)) if "logsum" in self._files else []
        list(self._pool.map(lambda task: self._add_logsums(first, time, *task), tasks))
        if "sum" in self._files:
            sums = np.empty(len(time))
            self._sum = continue_counts(first, time, self._time, self._scale, self._sum, sums)
            self._write("sum", sums, self._at)
        self._lists, self._at = self._lists + len(starts), self._at + len(keys)
        self._key, self._time = int(keys[-1]), time[-1:].copy()

    def _add_logsums(self, first: Array, time: Array, a: int, alpha: float) -> None:
        sums = np.empty(len(time))
        self._P[a] = continue_logsums(first, time, self._time, alpha, self._P[a], sums)
        self._write("logsum", sums, a * self._size + self._at)

    def _write(self, kind: str, values: Array, at: int) -> None:
        if kind in self._files:
            self._files[kind].write(values, at)

    def __enter__(self) -> SortedLists:
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        if kind is None:
            self._write("starts", np.array([self._size]), self._lists)
            for name, rows in (("keys", self._lists), ("starts", self._lists + 1)):
                if name in self._files:
                    self._files[name].shorten(rows)
        self._stack.__exit__(kind, *error)


class PairFiles:
    """Writes the arrays of `Rates` and `Sequences`; those of the `History` must be in the same folder already.

    Args:
        memory: Bytes that may be used.
    """

    def __init__(
        self,
        events: Events,
        alphas: Array,
        unit: float,
        folder: Path,
        memory: int,
        threads: int | None,
        report: ShowProgress,
    ) -> None:
        self._events, self._alphas, self._scale = events, alphas, SCALE * unit
        self._folder, self._threads, self._report = folder, num_threads(threads), report
        self._block = max(min(_BLOCK, memory // (4 * _PER_LINK)), LEAST)
        self._memory = int(_SHARE * (memory - self._block * _PER_LINK - _PER_NODE * events.num_nodes))

    def write_rates(self, *, directed: bool, with_sums: bool) -> list[str]:
        """Write the decayed counts; with `with_sums`, also `sequences.pair_sum`. Returns their names."""
        events, written = self._events, []
        for kind in STORED_NAMES if directed else STORED_NAMES[:1]:
            names = {field: f"rates.{kind}.{field}" for field in ("keys", "starts", "time", "logsum")}
            names |= {"sum": "sequences.pair_sum"} if kind == "pairs" and with_sums else {}
            with self._sorter(events.t.dtype, len(events)) as sorter:
                with self._report(f"reading {_WORDS[kind]}", len(events)) as show:
                    for first, (src, dst, t) in blocks(self._block, events.src, events.dst, events.t):
                        sorter.add(_KEYS[kind](src.astype(np.int64), dst.astype(np.int64)), t)
                        show(first + len(src))
                self._write_lists(sorter, len(events), names, _WORDS[kind], alphas=self._alphas)
            write_array(self._folder / f"rates.{kind}.alphas.npy", self._alphas)
            written += [*names.values(), f"rates.{kind}.alphas"]
        return written

    def write_sequences(self, *, attributes: bool) -> list[str]:
        """Write the arrays of `Sequences`, but for the sums of pairs; returns the names of all."""
        starts = np.load(self._folder / "history.starts.npy")
        write_array(self._folder / "sequences.starts.npy", starts)
        self._write_activity(starts)
        size, active = int(starts[-1]), int(np.count_nonzero(np.diff(starts)))
        del starts
        with self._sorter(np.int32, size) as sorter:
            for owner, partner, _ in self._entries(attributes, "reading partners"):
                sorter.add(owner, partner.astype(np.int32))
            self._write_partners(sorter, size)
        for name in ("next", "from"):
            names = {field: f"sequences.{name}_{field}" for field in ("keys", "starts", "time", "sum")}
            counts = np.zeros(self._events.num_nodes + 1, np.int64) if name == "from" else None
            with self._sorter(self._events.t.dtype, size - active) as sorter:
                for pairs, when in self._transitions(attributes, f"reading partners ({name})"):
                    before, after = pairs.T
                    if counts is None:
                        sorter.add(before << 32 | after, when)
                    else:
                        sorter.add(before, when)
                        np.add.at(counts, before + 1, 1)
                if counts is not None:
                    del names["keys"], names["starts"]
                    write_array(self._folder / "sequences.from_starts.npy", np.cumsum(counts))
                self._write_lists(sorter, size - active, names, f"partners ({name})", scale=self._scale)
        self._write_all_sums()
        return [f"sequences.{name}" for name in STORED]

    def _sorter(self, dtype: Any, size: int) -> KeySorter:
        release_freed_memory()
        return KeySorter(self._folder, dtype, self._memory, size)

    def _write_lists(self, sorter: KeySorter, size: int, names: dict[str, str], words: str, **sums: Any) -> None:
        """Write sorted rows as lists."""
        done, dtype = 0, self._events.t.dtype
        sums = {"scale": self._scale, "threads": self._threads} | sums
        with (
            self._report(f"sorting {words}", size) as show,
            SortedLists(self._folder, size, dtype, names, **sums) as to,
        ):
            for keys, time in sorter.merged():
                to.add(keys, time)
                done += len(keys)
                show(done)

    def _write_activity(self, starts: Array) -> None:
        """The times and decayed counts of each node's links, and the first times of all nodes."""
        time = np.load(self._folder / "history.time.npy", mmap_mode="c")
        first_times, before, count = [np.empty(0, time.dtype)], np.zeros(1, time.dtype), 0.0
        with (
            ArrayFile(self._folder / "sequences.time.npy", time.shape, time.dtype) as to_time,
            ArrayFile(self._folder / "sequences.activity.npy", time.shape, np.float64) as to_activity,
        ):
            for at, (some,) in blocks(self._block, time):
                lists = starts[np.searchsorted(starts, at) : np.searchsorted(starts, at + len(some))] - at
                first, sums = np.zeros(len(some), np.bool_), np.empty(len(some))
                first[lists] = True
                count = continue_counts(first, some, before, self._scale, count, sums)
                to_time.write(some, at)
                to_activity.write(sums, at)
                first_times.append(some[first])
                before = some[-1:].copy()
        write_array(self._folder / "sequences.first_time.npy", np.sort(np.concatenate(first_times)))

    def _write_partners(self, sorter: KeySorter, size: int) -> None:
        done = 0
        with (
            self._report("sorting partners", size) as show,
            ArrayFile(self._folder / "sequences.partner.npy", (size,), np.int32) as file,
        ):
            for _, partner in sorter.merged():
                file.write(partner, done)
                done += len(partner)
                show(done)

    def _write_all_sums(self) -> None:
        """The decayed count of all links at the time of each."""
        t, count = self._events.t, 0.0
        before = np.zeros(1, t.dtype)
        with ArrayFile(self._folder / "sequences.all_sum.npy", t.shape, np.float64) as file:
            for at, (some,) in blocks(self._block, t):
                sums = np.empty(len(some))
                count = continue_counts(np.zeros(len(some), np.bool_), some, before, self._scale, count, sums)
                file.write(sums, at)
                before = some[-1:].copy()

    def _transitions(self, attributes: bool, title: str) -> Iterator[tuple[Array, Array]]:
        """Partners of a node in two consecutive links [n, 2], and the time of the later one [n], in time order."""
        last = np.full(self._events.num_nodes, -1, np.int32)
        for owner, partner, time in self._entries(attributes, title):
            pairs, when = np.empty((len(owner), 2), np.int64), np.empty(len(owner), time.dtype)
            count = transitions(owner, partner, time, last, pairs, when)
            yield pairs[:count], when[:count]

    def _entries(self, attributes: bool, title: str) -> Iterator[tuple[Array, Array, Array]]:
        """Each link as seen by its source, then by its destination, in canonical order: node, partner and time."""
        done = 0
        with self._report(title, len(self._events)) as show:
            for src, dst, t in canonical_links(self._events, self._block, attributes=attributes):
                once = np.stack([np.ones(len(src), np.bool_), src != dst], axis=1).ravel()
                owner, partner = (np.stack(ends, axis=1).ravel()[once] for ends in ((src, dst), (dst, src)))
                yield owner, partner, np.repeat(t, 2)[once]
                done += len(src)
                show(done)


_WORDS = {"pairs": "pairs", "ways": "directed pairs", "sources": "sources", "destinations": "destinations"}


def canonical_links(events: Events, block: int, *, attributes: bool) -> Iterator[tuple[Array, Array, Array]]:
    """All links in the order of `in_canonical_order(..., equal_by_rows=True)`, in blocks that split no tie."""
    msg, x = (events.msg, events.x) if attributes else (None, None)
    colours = hash_rows(x, events.num_nodes)
    sums, moment = np.zeros_like(colours), 0
    for first, last in _whole_ties(events.t, block):
        _, (src, dst, t, values) = next(blocks(last - first, *_part(events, msg, slice(first, last))))
        src, dst, t = src.astype(np.int64), dst.astype(np.int64), t.copy()
        moments = moment + np.cumsum(np.append(False, t[1:] != t[:-1]))
        keys = np.empty(len(t), np.uint64)
        link_keys(src, dst, moments.view(np.uint64), hash_rows(values, len(t)), colours, sums, keys)
        order = np.lexsort((keys, moments))
        yield src[order], dst[order], t[order]
        moment = int(moments[-1]) + 1


def _part(events: Events, msg: Array | None, part: slice) -> list[Array | None]:
    return [None if column is None else column[part] for column in (events.src, events.dst, events.t, msg)]


def _whole_ties(t: Array, block: int) -> Iterator[tuple[int, int]]:
    """Ranges of about `block` links that end where the time changes."""
    first = 0
    while first < len(t):
        last = min(first + block, len(t))
        if last < len(t):
            begin = int(np.searchsorted(t, t[last]))  # of the links at the time of the next one
            last = begin if begin > first else int(np.searchsorted(t, t[last], side="right"))
        yield first, last
        first = last
