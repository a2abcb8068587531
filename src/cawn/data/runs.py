"""Rows that may not fit into memory, sorted by a key: first in runs that do, then range by range of the keys."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cawn.checks import Array
from cawn.data.columns import Store, steps

Result = TypeVar("Result")
ColumnType = tuple[Any, ...]  # its dtype and, if rows have several numbers, their number
Sort = Callable[[Array], tuple[Array, Array]]  # keys in ascending order, equal ones as they were, and where each was

_SAMPLES = 1 << 12  # of the keys of a run, one in at most so many is sampled


class Group(NamedTuple):
    """A range of keys, as a part of each run."""

    first: Any
    last: Any  # after the last one
    at: int  # rows before
    bounds: Array  # [runs, 2]

    @property
    def size(self) -> int:
        return int((self.bounds[:, 1] - self.bounds[:, 0]).sum())


class Runs:
    """Rows sorted in runs; a context, which removes them.

    Args:
        store: Where they are.
        types: Those of the columns, the first of which are the keys.
        run, group: The most rows of a run and of a group.
        num_runs: About how many there will be.
    """

    def __init__(self, store: Store, types: list[ColumnType], run: int, group: int, num_runs: int, sort: Sort) -> None:
        self.run, self.group, self._sort = run, group, sort
        self._every = min(max(group // (4 * num_runs), 1), _SAMPLES)
        self._columns = [store.create(f"run-{i}", *of) for i, of in enumerate(types)]
        self._samples: list[Array] = []
        self._starts = [0]

    @property
    def size(self) -> int:
        """The number of rows."""
        return self._starts[-1]

    def numbered(self, rows: Iterable[Iterable[Array]]) -> Iterator[tuple[int, list[Array]]]:
        """The runs that rows are divided into: the number and the columns of each."""
        for columns in rows:
            columns = list(columns)
            for first in range(0, len(columns[0]), self.run):
                some = [column[first : first + self.run] for column in columns]
                self._starts.append(self.size + len(some[0]))
                self._samples.append(some[0][:0])
                yield len(self._samples) - 1, some

    def write(self, number: int, columns: list[Array]) -> int:
        """Sort a run and write it; returns the number of rows up to its end."""
        keys, order = self._sort(columns[0])
        self._samples[number] = keys[:: self._every].copy()
        for held, values in zip(self._columns, [keys, *(column[order] for column in columns[1:])], strict=True):
            held.replace(self._starts[number], values)
        return self._starts[number + 1]

    def groups(self, first: Any, last: Any) -> Iterator[Group]:
        """Ranges of keys, all from `first` to `last`, with rows that fit into memory, or else a single one."""
        samples = np.sort(np.concatenate(self._samples)) if self._samples else np.empty(0, np.int64)
        cuts = samples[:: max(self.group // (4 * self._every), 1)]
        single = cuts[1:][cuts[1:] == cuts[:-1]]
        after = np.nextafter(single, np.inf) if single.dtype.kind == "f" else single + 1
        inner = np.unique(np.concatenate([cuts, after]))
        inner, runs = inner[(inner > first) & (inner < last)], range(len(self._samples))
        ends = [self._starts[:-1], *([self._find(run, cut) for run in runs] for cut in inner), self._starts[1:]]
        keys = [first, *inner.tolist(), last]
        for i, (low, high) in enumerate(pairwise(ends)):
            bounds = np.array([low, high], np.int64).T
            yield Group(keys[i], keys[i + 1], int(bounds[:, 0].sum() - np.sum(self._starts[:-1])), bounds)

    def _find(self, run: int, key: Any) -> int:
        """The position of the first row of a run that has at least this key."""
        start, stop = self._starts[run : run + 2]
        first = max(int(np.searchsorted(self._samples[run], key)) - 1, 0) * self._every + start
        keys = self._columns[0].read(first, min(self._every + 1, stop - first))
        return first + int(np.searchsorted(keys, key))

    def parts(self, group: Group) -> Iterator[Group]:
        """The group itself; one that does not fit into memory, which has a single key, in parts that do."""
        if group.size <= self.group:
            yield group
            return
        for first, last in group.bounds.tolist():
            for at, rows in steps(last - first, self.group):
                yield group._replace(bounds=np.array([[first + at, first + at + rows]]))

    def read(self, group: Group) -> list[Array]:
        """The columns of a group; rows of equal keys are in order."""
        bounds = group.bounds.tolist() or [(0, 0)]
        return [np.concatenate([held.read(first, last - first) for first, last in bounds]) for held in self._columns]

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *_: object) -> None:
        for column in self._columns:
            column.discard()


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
