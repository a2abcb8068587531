"""Entries of lists that do not fit into memory, sorted by row or key in temporary files."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cawn.checks import Array
from cawn.data.columns import ArrayFile
from cawn.files import temporary_name
from cawn.index.kernels.building import sort_keys

Result = TypeVar("Result")
ColumnType = tuple[tuple[int, ...], Any]  # the shape of no rows, and the type

_SAMPLES = 1 << 12  # of the keys of a run, one in at most so many is sampled


class Group(NamedTuple):
    """A range of rows or keys, as a part of each run."""

    first: int
    last: int  # after the last one
    at: int  # entries before
    bounds: Array  # [runs, 2]

    @property
    def size(self) -> int:
        return int((self.bounds[:, 1] - self.bounds[:, 0]).sum())


class Runs:
    """Entries in temporary files, sorted in runs; a context, which removes the files.

    Args:
        types: Those of the columns; the first one is sorted.
        run, group: The most entries of a run and of a group.
        num_runs: About how many there will be.
    """

    def __init__(self, folder: Path, types: list[ColumnType], run: int, group: int, num_runs: int) -> None:
        self.run, self.group = run, group
        self._every = min(max(group // (4 * num_runs), 1), _SAMPLES)
        self._files = [ArrayFile(folder / temporary_name(), *of) for of in types]
        self._samples: list[Array] = []
        self._starts = [0]

    @property
    def size(self) -> int:
        """The number of entries."""
        return self._starts[-1]

    def numbered(self, entries: Iterable[Iterable[Array]]) -> Iterator[tuple[int, list[Array]]]:
        """The runs that entries are divided into: the number and the columns of each."""
        for columns in entries:
            columns = list(columns)
            for first in range(0, len(columns[0]), self.run):
                some = [column[first : first + self.run] for column in columns]
                self._starts.append(self.size + len(some[0]))
                self._samples.append(np.empty(0, np.int64))
                yield len(self._samples) - 1, some

    def write(self, number: int, columns: list[Array]) -> int:
        """Sort a run and write it; returns the number of entries up to its end."""
        keys, order = sort_keys(columns[0])
        self._samples[number] = keys[:: self._every]
        for file, values in zip(self._files, [keys, *(column[order] for column in columns[1:])], strict=True):
            file.replace(self._starts[number], values)
        return self._starts[number + 1]

    def groups(self, last: int) -> list[Group]:
        """Ranges of rows or keys, up to `last`, with entries that fit into memory, or else a single one."""
        samples = np.sort(np.concatenate([np.empty(0, np.int64), *self._samples]))
        cuts = samples[:: max(self.group // (4 * self._every), 1)]
        single = cuts[1:][cuts[1:] == cuts[:-1]]
        firsts = np.unique(np.concatenate([[0], cuts, single + 1]))
        firsts = np.append(firsts[firsts < last], last)
        bounds = np.array([[self._find(run, first) for first in firsts] for run in range(len(self._samples))], np.int64)
        bounds = bounds.reshape(-1, len(firsts))
        at = bounds.sum(axis=0) - np.sum(self._starts[:-1])
        return [
            Group(int(firsts[g]), int(firsts[g + 1]), int(at[g]), bounds[:, g : g + 2]) for g in range(len(firsts) - 1)
        ]

    def _find(self, run: int, key: int) -> int:
        """The position of the first entry of a run that has at least this key."""
        start, stop = self._starts[run : run + 2]
        first = max(int(np.searchsorted(self._samples[run], key)) - 1, 0) * self._every + start
        keys = self._files[0].read(first, min(self._every + 1, stop - first))
        return first + int(np.searchsorted(keys, key))

    def read(self, group: Group) -> list[Array]:
        """The columns of a group; entries of equal keys are in order."""
        bounds = group.bounds.tolist() or [(0, 0)]
        return [np.concatenate([file.read(first, last - first) for first, last in bounds]) for file in self._files]

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.discard()


def in_order(work: Callable[..., Result], tasks: Iterable[tuple[Any, ...]], threads: int) -> Iterator[Result]:
    """The results of tasks in their order, computed on several threads; at most `threads` tasks are held at once."""
    with ThreadPoolExecutor(threads) as pool:
        waiting = deque[Future[Result]]()
        try:
            for task in tasks:
                if len(waiting) == threads:
                    yield waiting.popleft().result()
                waiting.append(pool.submit(work, *task))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
