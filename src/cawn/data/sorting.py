"""Rows that may not fit into memory, sorted by a key: first in runs that do, then range by range of the keys."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cawn.checks import Array
from cawn.data.columns import Column, GrowingArray, Store, steps

Result = TypeVar("Result")
ColumnType = tuple[Any, ...]  # its dtype and, if rows have several numbers, their number
Sort = Callable[[Array], tuple[Array, Array]]  # keys in ascending order, equal ones as they were, and where each was

Columns = dict[str, Column]
Convert = Callable[[str, Array], Array]  # takes the name and some values of a column

ROWS = "rows"  # the column of positions in the input
_PER_ROW = 24  # bytes: times, their order, and what sorting needs besides
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


def sort_by_time(
    columns: Columns, store: Store, memory: int, convert: Convert, report: Callable[[int], object]
) -> Columns:
    """New columns with the rows in the order of time, rows of equal time in the order of the input.

    Args:
        columns: With their times as `t`; they are removed. A column `rows` of positions is added.
        convert: Applied to the sorted values of each column.
    """
    columns = {"t": columns["t"]} | columns
    kinds: dict[str, tuple[Any, ...]] = {name: (column.dtype, *column.row_shape) for name, column in columns.items()}
    kinds[ROWS] = (np.dtype(np.int64),)
    row_bytes = [dtype.itemsize * math.prod(shape) for dtype, *shape in kinds.values()]
    most, count, t = max(memory // (_PER_ROW + 2 * sum(row_bytes)), 1), columns["t"].rows, columns["t"]
    found = {name: store.create(f"sorted-{name}", *kind) for name, kind in kinds.items()}
    if isinstance(t, GrowingArray) or memory >= count * (_PER_ROW + 2 * max(row_bytes)):  # a column after the other
        _, order = _sort(t.read(0, count))
        for name, column in found.items():
            column.append(convert(name, columns[name].read(0, count)[order] if name in columns else order))
            if name in columns:
                columns[name].discard()
        report(count)
        return found
    with Runs(store, list(kinds.values()), most, most, -(-count // most), _sort) as runs:
        for first, rows in steps(count, most):
            piece = [*(column.read(first, rows) for column in columns.values()), np.arange(first, first + rows)]
            for run in runs.numbered([piece]):
                runs.write(*run)
        for column in columns.values():
            column.discard()
        all_times = (-np.inf, np.inf) if t.dtype.kind == "f" else (-(2**63), 2**63 - 1)
        for part in chain.from_iterable(map(runs.parts, runs.groups(*all_times))):
            values = runs.read(part)
            _, order = _sort(values[0])
            for (name, column), each in zip(found.items(), values, strict=True):
                column.append(convert(name, each[order]))
            report(found["t"].rows)
    return found


def _sort(t: Array) -> tuple[Array, Array]:
    order = np.argsort(t, kind="stable")
    return t[order], order
