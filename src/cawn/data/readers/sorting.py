"""A stable sort of columns by time in bounded memory.

Rows are distributed over columns by ranges of time, each small enough to be sorted in memory; then the ranges are
sorted one after the other, and each column is put into the new order on its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cawn.checks import Array
from cawn.data.columns import Column, Store, steps

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
    sort = _Sort(store, memory, convert, report)
    found = sort.new_columns(columns)
    sort.sort(columns, found)
    return found


@dataclass
class _Sort:
    store: Store
    memory: int
    convert: Convert
    report: Callable[[int], object]
    made: int = 0

    def sort(self, columns: Columns, found: Columns) -> None:
        """Append the sorted rows to `found`."""
        rows = columns["t"].rows
        row_bytes = max(column.dtype.itemsize * (column.width or 1) for column in found.values())
        most = max(self.memory // (_PER_ROW + 2 * row_bytes), 1)
        if rows <= most:
            order = np.argsort(columns["t"].read(0, rows), kind="stable")
            for name, column in found.items():
                if name in columns:
                    column.append(self.convert(name, columns[name].read(0, rows)[order]))
                    columns[name].discard()
                else:
                    column.append(order)
        elif (bounds := _bounds(columns["t"], most)) is None:
            for first, count in steps(rows, most):
                for name, column in found.items():
                    column.append(self.convert(name, _read(columns, name, first, count)))
            _discard(columns)
        else:
            for part in self._distribute(columns, bounds, most):
                self.sort(part, found)
        self.report(found["t"].rows)

    def _distribute(self, columns: Columns, bounds: Array, most: int) -> list[Columns]:
        """Columns for each range of time, with the rows in their order; the given ones are removed."""
        parts = [self.new_columns(columns) for _ in range(len(bounds) + 1)]
        for first, count in steps(columns["t"].rows, max(most // 2, 1)):
            place = np.searchsorted(bounds, columns["t"].read(first, count), side="right").astype(np.uint16)
            order = np.argsort(place, kind="stable")
            ends = np.cumsum(np.bincount(place, minlength=len(parts)))
            for name in parts[0]:
                values = _read(columns, name, first, count)[order]
                for part, begin, end in zip(parts, np.append(0, ends), ends, strict=False):
                    part[name].append(values[begin:end])
        _discard(columns)
        return parts

    def new_columns(self, columns: Columns) -> Columns:
        self.made += 1
        kinds = {name: (column.dtype, column.width) for name, column in columns.items()}
        kinds[ROWS] = (np.dtype(np.int64), None)
        return {name: self.store.create(f"part-{self.made}-{name}", *kind) for name, kind in kinds.items()}


def _read(columns: Columns, name: str, first: int, count: int) -> Array:
    """Some values of a column; the positions of rows that are in the order of the input are not stored."""
    return columns[name].read(first, count) if name in columns else np.arange(first, first + count)


def _discard(columns: Columns) -> None:
    for column in columns.values():
        column.discard()


def _bounds(t: Column, most: int) -> Array | None:
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
