"""A stable sort of columns by time in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

from cawn.checks import Array
from cawn.data.columns import Column, GrowingArray, Store, steps
from cawn.data.runs import Runs

Columns = dict[str, Column]
Convert = Callable[[str, Array], Array]  # takes the name and some values of a column

ROWS = "rows"  # the column of positions in the input
_PER_ROW = 24  # bytes: times, their order, and what sorting needs besides


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
