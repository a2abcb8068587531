"""A stable sort of columns by time in bounded memory.

Rows are distributed over columns by ranges of time, each small enough to be sorted in memory; then the ranges are
sorted one after the other, and each column is put into the new order on its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.columns import Column, Store, steps

Array = npt.NDArray[Any]
Columns = dict[str, Column]
Convert = Callable[[str, Array], Array]  # takes the name and some values of a column

ROWS = "rows"  # the column of positions in the input
_PER_ROW = 24  # bytes: times, their order, and what sorting needs besides
_SAMPLE = 1 << 16  # times that ranges are chosen by
_MOST_RANGES = 256  # of one distribution: each has a file for each column


def sort_by_time(
    columns: Columns, store: Store, memory: int, convert: Convert, report: Callable[[int], object]
) -> Columns:
    """New columns with the rows in the order of time, rows of equal time in the order of the input.

    Args:
        columns: With their times as `t`; they are removed. A column `rows` of positions is added.
        store: Where the new columns are, and those in between.
        convert: Applied to the sorted values of each column.
        report: Is called with the number of sorted rows.
    """
    return _Sort(store, memory, convert, report).run(columns)


class _Sort:
    def __init__(self, store: Store, memory: int, convert: Convert, report: Callable[[int], object]) -> None:
        self._store, self._memory, self._convert, self._report = store, memory, convert, report
        self._made = 0

    def run(self, columns: Columns) -> Columns:
        found = self._new_columns(columns)
        self._sort(columns, found)
        return found

    def _sort(self, columns: Columns, found: Columns) -> None:
        """Append the sorted rows to `found`."""
        rows = columns["t"].rows
        most = max(self._memory // (_PER_ROW + 2 * max(_row_bytes(column) for column in found.values())), 1)
        if rows <= most:
            self._sort_in_memory(columns, found)
        elif (bounds := self._bounds(columns["t"], most)) is None:
            self._copy(columns, found, most)
        else:
            for part in self._distribute(columns, bounds, most):
                self._sort(part, found)
            return
        for column in columns.values():
            column.discard()
        self._report(found["t"].rows)

    def _sort_in_memory(self, columns: Columns, found: Columns) -> None:
        order = np.argsort(columns["t"].read(0, columns["t"].rows), kind="stable")
        for name, column in columns.items():
            found[name].append(self._convert(name, column.read(0, column.rows)[order]))
            column.discard()
        if ROWS not in columns:
            found[ROWS].append(order)

    def _copy(self, columns: Columns, found: Columns, most: int) -> None:
        """Append rows of one time, which need no sorting."""
        for first, count in steps(columns["t"].rows, most):
            for name, column in found.items():
                if name == ROWS and name not in columns:
                    column.append(np.arange(first, first + count))
                else:
                    column.append(self._convert(name, columns[name].read(first, count)))

    def _bounds(self, t: Column, most: int) -> Array | None:
        """Where ranges of time begin, but for the first; None if all times are equal."""
        every = max(t.rows // _SAMPLE, 1)
        sample, low, high = [], None, None
        for first, count in steps(t.rows, most):
            block = t.read(first, count)
            sample.append(block[-first % every :: every])
            low = block.min() if low is None else min(low, block.min())
            high = block.max() if high is None else max(high, block.max())
        if low == high:
            return None
        times = np.sort(np.concatenate(sample))
        ranges = min(2 * (t.rows // most + 1), _MOST_RANGES)
        bounds = np.unique(times[np.arange(1, ranges) * len(times) // ranges])
        bounds = bounds[bounds > low]
        return bounds if len(bounds) else np.array([high])

    def _distribute(self, columns: Columns, bounds: Array, most: int) -> list[Columns]:
        """Columns for each range of time, with the rows in their order; the given ones are removed."""
        parts = [self._new_columns(columns) for _ in range(len(bounds) + 1)]
        for first, count in steps(columns["t"].rows, max(most // 2, 1)):
            t = columns["t"].read(first, count)
            place = np.searchsorted(bounds, t, side="right").astype(np.uint16)
            order = np.argsort(place, kind="stable")
            ends = np.cumsum(np.bincount(place, minlength=len(parts)))
            for name in parts[0]:
                if name == ROWS and name not in columns:
                    values = order + first
                else:
                    values = (t if name == "t" else columns[name].read(first, count))[order]
                for part, begin, end in zip(parts, np.append(0, ends), ends, strict=False):
                    part[name].append(values[begin:end])
        for column in columns.values():
            column.discard()
        return parts

    def _new_columns(self, columns: Columns) -> Columns:
        self._made += 1
        kinds = {name: (column.dtype, column.width) for name, column in columns.items()}
        kinds[ROWS] = (np.dtype(np.int64), None)
        return {name: self._store.create(f"part-{self._made}-{name}", *kind) for name, kind in kinds.items()}


def _row_bytes(column: Column) -> int:
    return column.dtype.itemsize * (column.width or 1)
