"""A stable sort of columns by time in bounded memory.

Rows are distributed over files by ranges of time, each small enough to be sorted in memory; then the ranges are sorted
one after the other, and each column is put into the new order on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.external.files import ColumnFile

Array = npt.NDArray[Any]
Files = dict[str, ColumnFile]
Convert = Callable[[str, Array], Array]  # takes the name and some values of a column

ROWS = "rows"  # the column of positions in the input
_PER_ROW = 24  # bytes: times, their order, and what sorting needs besides
_SAMPLE = 1 << 16  # times that ranges are chosen by
_MOST_RANGES = 256  # of one distribution: each has a file for each column


def sort_by_time(files: Files, folder: Path, memory: int, convert: Convert, report: Callable[[int], object]) -> Files:
    """New files with the rows in the order of time, rows of equal time in the order of the input.

    Args:
        files: The columns, with their times as `t`; they are removed. A column `rows` of positions is added.
        folder: An empty folder for the new files and for those in between.
        convert: Applied to the sorted values of each column.
        report: Is called with the number of sorted rows.
    """
    return _Sort(folder, memory, convert, report).run(files)


class _Sort:
    def __init__(self, folder: Path, memory: int, convert: Convert, report: Callable[[int], object]) -> None:
        self._folder, self._memory, self._convert, self._report = folder, memory, convert, report
        self._made = 0

    def run(self, files: Files) -> Files:
        found = {name: file.like(self._folder / f"{name}.npy") for name, file in files.items()}
        found[ROWS] = ColumnFile(self._folder / f"{ROWS}.npy", np.int64)
        self._sort(files, found)
        return found

    def _sort(self, files: Files, found: Files) -> None:
        """Append the sorted rows to `found`."""
        rows = files["t"].rows
        most = max(self._memory // (_PER_ROW + 2 * max(file.row_bytes for file in found.values())), 1)
        if rows <= most:
            self._sort_in_memory(files, found)
        elif (bounds := self._bounds(files["t"], most)) is None:
            self._copy(files, found, most)
        else:
            for part in self._distribute(files, bounds, most):
                self._sort(part, found)
            return
        for file in files.values():
            file.remove()
        self._report(found["t"].rows)

    def _sort_in_memory(self, files: Files, found: Files) -> None:
        t = files["t"].read(0, files["t"].rows)
        order = np.argsort(t, kind="stable")
        found["t"].append(t[order])
        del t
        for name, column in found.items():
            if name == ROWS and name not in files:
                column.append(order)
            elif name != "t":
                file = files[name]
                column.append(self._convert(name, file.read(0, file.rows)[order]))

    def _copy(self, files: Files, found: Files, most: int) -> None:
        """Append rows of one time, which need no sorting."""
        for first, count in steps(files["t"].rows, most):
            for name, column in found.items():
                if name == ROWS and name not in files:
                    column.append(np.arange(first, first + count))
                else:
                    column.append(self._convert(name, files[name].read(first, count)))

    def _bounds(self, t: ColumnFile, most: int) -> Array | None:
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

    def _distribute(self, files: Files, bounds: Array, most: int) -> list[Files]:
        """Files for each range of time, with the rows in their order; the given files are removed."""
        parts = [self._new_files(files) for _ in range(len(bounds) + 1)]
        for first, count in steps(files["t"].rows, max(most // 2, 1)):
            t = files["t"].read(first, count)
            place = np.searchsorted(bounds, t, side="right").astype(np.uint16)
            order = np.argsort(place, kind="stable")
            ends = np.cumsum(np.bincount(place, minlength=len(parts)))
            for name in parts[0]:
                if name == ROWS and name not in files:
                    values = order + first
                else:
                    values = (t if name == "t" else files[name].read(first, count))[order]
                for part, begin, end in zip(parts, np.append(0, ends), ends, strict=False):
                    part[name].append(values[begin:end])
        for file in files.values():
            file.remove()
        return parts

    def _new_files(self, files: Files) -> Files:
        self._made += 1
        made = {name: file.like(self._folder / f"part-{self._made}-{name}.npy") for name, file in files.items()}
        if ROWS not in made:
            made[ROWS] = ColumnFile(self._folder / f"part-{self._made}-{ROWS}.npy", np.int64)
        return made


def steps(rows: int, size: int) -> Iterator[tuple[int, int]]:
    """Consecutive blocks of at most `size` rows: the first row and the number of rows of each."""
    for first in range(0, rows, size):
        yield first, min(size, rows - first)
