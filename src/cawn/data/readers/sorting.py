"""A stable sort of columns by time in bounded memory.

Rows are sorted in runs that fit into memory. Then ranges of time, small enough as well, are merged one after the other:
what the runs have of a range is put into one order, each column on its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from cawn.checks import Array
from cawn.data.columns import Column, Store, steps

Columns = dict[str, Column]
Part = tuple[int, int]  # of the rows: the first one, and how many
Convert = Callable[[str, Array], Array]  # takes the name and some values of a column

ROWS = "rows"  # the column of positions in the input
_PER_ROW = 24  # bytes: times, their order, and what sorting needs besides


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
    kinds: dict[str, tuple[Any, ...]] = {name: (column.dtype, *column.row_shape) for name, column in columns.items()}
    kinds[ROWS] = (np.dtype(np.int64),)
    row_bytes = max(dtype.itemsize * math.prod(shape) for dtype, *shape in kinds.values())
    most = max(memory // (_PER_ROW + 2 * row_bytes), 1)
    runs = list(steps(columns["t"].rows, most))
    times = np.empty(0, np.int64)
    if len(runs) > 1:
        sorted_runs = {name: store.create(f"run-{name}", *kind) for name, kind in kinds.items()}
        times = _sort_runs(columns, sorted_runs, runs, most)
        columns = sorted_runs
    found = {name: store.create(f"sorted-{name}", *kind) for name, kind in kinds.items()}
    for order, parts in _ranges(columns["t"], runs, times, most):
        for name, column in found.items():
            column.append(convert(name, _read(columns, name, parts, order)))
            if len(runs) == 1 and name in columns:
                columns[name].discard()
        report(found["t"].rows)
    _discard(columns)
    return found


def _sort_runs(columns: Columns, sorted_runs: Columns, runs: list[Part], most: int) -> Array:
    """Sort each run; returns times between which there are fewer than `most` rows. The given columns are removed."""
    every = max(most // (4 * len(runs)), 1)
    sample = []
    for run in runs:
        t = columns["t"].read(*run)
        order = np.argsort(t, kind="stable")
        sample.append(t[order[every - 1 :: every]])
        for name, column in sorted_runs.items():
            column.append(_read(columns, name, [run], order))
    _discard(columns)
    return np.unique(np.sort(np.concatenate(sample))[:: max(most // every - len(runs), 1)])


def _read(columns: Columns, name: str, parts: list[Part], order: Any) -> Array:
    """Parts of a column, in an order; the positions of rows that are in the order of the input are not stored."""
    if name not in columns:
        return np.asarray(order + parts[0][0] if parts[0][0] else order)
    found = [columns[name].read(*part) for part in parts]
    return np.asarray((found[0] if len(found) == 1 else np.concatenate(found))[order])


def _ranges(t: Column, runs: list[Part], times: Array, most: int) -> Iterator[tuple[Any, list[Part]]]:
    """Which rows of the runs come next, at most `most` of them, and in which order.

    Fewer than `most` are between two of the `times`; any number may be at one of them, in the order of the runs.
    """
    cuts = []
    for first, count in runs:
        run = t.read(first, count)
        sides = [np.searchsorted(run, times, side) for side in ("left", "right")]
        cuts.append(first + np.concatenate([[0], np.stack(sides, axis=1).ravel(), [count]]))
    for i, (low, high) in enumerate(pairwise(np.stack(cuts, axis=1).tolist())):
        parts = [(lo, hi - lo) for lo, hi in zip(low, high, strict=True) if lo < hi]
        if i % 2:
            yield from ((slice(None), [(lo + at, rows)]) for lo, count in parts for at, rows in steps(count, most))
        elif parts:
            yield np.argsort(_read({"t": t}, "t", parts, slice(None)), kind="stable"), parts


def _discard(columns: Columns) -> None:
    for column in columns.values():
        column.discard()
