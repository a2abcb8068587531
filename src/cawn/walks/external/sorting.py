"""Sorting rows by a key where there are more than fit into memory: sorted runs on disk, merged a block at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.array_files import ArrayFile

Array = npt.NDArray[Any]

_PER_ROW = 16 + 16 + 12 + 16  # bytes: one run that is filled; one that is sorted, its order, and the result
_BLOCK = 1 << 18  # rows of a run that are read at once
LEAST = 1 << 12  # rows of a run


class BackgroundTask:
    """Runs one task at a time in a background thread, while the caller prepares the next."""

    _last: Future[None] | None = None

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)

    def submit(self, work: Callable[..., None], *arguments: Any) -> None:
        """Wait for the task before it, then start this one."""
        self.wait()
        self._last = self._pool.submit(work, *arguments)

    def wait(self) -> None:
        """Wait until the last task is done."""
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def __enter__(self) -> BackgroundTask:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            if kind is None:
                self.wait()
        finally:
            self._pool.shutdown(cancel_futures=True)


class _Run:
    """Sorted rows in two files, which are read once, from the first on."""

    def __init__(self, files: tuple[ArrayFile, ArrayFile], block: int) -> None:
        self._files, self._block, self._at = files, block, 0
        self.keys, self._values = (np.empty(0, file.dtype) for file in files)  # rows that were read and not yet taken

    def fill(self) -> bool:
        """Read on if all rows were taken; False at the end."""
        if len(self.keys) == 0:
            count = min(self._block, self._files[0].shape[0] - self._at)
            self.keys, self._values = (file.read(self._at, count) for file in self._files)
            self._at += count
        return len(self.keys) > 0

    def take(self, count: Any) -> tuple[Array, Array]:
        """The next rows, of those that were read."""
        taken = self.keys[:count], self._values[:count]
        self.keys, self._values = self.keys[count:], self._values[count:]
        return taken


class KeySorter:
    """Sorts rows (key, value) by key; rows of equal keys keep their order. A context, which removes its files.

    Args:
        folder: For temporary files.
        dtype: Of the values, at most eight bytes; keys are int64.
        memory: Bytes that may be used.
        size: The number of rows, at most.
    """

    def __init__(self, folder: Path, dtype: npt.DTypeLike, memory: int, size: int) -> None:
        self._folder, self._types, self._memory = folder, (np.dtype(np.int64), np.dtype(dtype)), memory
        self._run_size = max(min(memory // _PER_ROW, size), LEAST)
        self._files: list[tuple[ArrayFile, ArrayFile]] = []
        self._filled, self._used = self._new_run(), 0
        self._background = BackgroundTask()

    def _new_run(self) -> list[Array]:
        return [np.empty(self._run_size, dtype) for dtype in self._types]

    def add(self, keys: Array, values: Array) -> None:
        """Add rows."""
        for first in range(0, len(keys), self._run_size):
            self._add([keys[first : first + self._run_size], values[first : first + self._run_size]])

    def _add(self, rows: list[Array]) -> None:
        while len(rows[0]):
            count = min(self._run_size - self._used, len(rows[0]))
            for column, values in zip(self._filled, rows, strict=True):
                column[self._used : self._used + count] = values[:count]
            self._used += count
            rows = [values[count:] for values in rows]
            if self._used == self._run_size:
                self._end_run()

    def _end_run(self) -> None:
        """Sort the rows so far and write them, while further ones are added."""
        self._background.wait()
        paths = [self._folder / f"{name}-{len(self._files)}.npy" for name in ("sorted_keys", "sorted_values")]
        keys, values = (ArrayFile(path, (self._used,), of) for path, of in zip(paths, self._types, strict=True))
        self._files.append((keys, values))
        self._background.submit(_write_sorted, (keys, values), [column[: self._used] for column in self._filled])
        self._filled, self._used = self._new_run(), 0

    def merged(self) -> Iterator[tuple[Array, Array]]:
        """All rows in order, in blocks: keys and values."""
        if self._files and self._used:
            self._end_run()
        self._background.wait()
        rows, self._filled = [column[: self._used] for column in self._filled], []
        if not self._files:
            order = np.argsort(rows[0], kind="stable")
            for first in range(0, len(order), _BLOCK):
                some = order[first : first + _BLOCK]
                yield rows[0][some], rows[1][some]
            return
        del rows
        block = max(min(self._memory // (2 * _PER_ROW * len(self._files)), _BLOCK), 1)
        yield from _merged([_Run(files, block) for files in self._files])

    def __enter__(self) -> KeySorter:
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            self._background.__exit__(*error)
        finally:
            for file in (file for files in self._files for file in files):
                file.discard()


def _write_sorted(files: tuple[ArrayFile, ArrayFile], rows: list[Array]) -> None:
    order = np.argsort(rows[0], kind="stable")
    for file, values in zip(files, rows, strict=True):
        file.write(values[order])


def _merged(runs: list[_Run]) -> Iterator[tuple[Array, Array]]:
    """The rows of sorted runs in order; of equal keys, those of earlier runs first."""
    while left := [run for run in runs if run.fill()]:
        pivot = min(run.keys[-1] for run in left)
        before = [np.searchsorted(run.keys, pivot) for run in left]  # a run may go on with the pivot itself
        if sum(before):
            taken = [run.take(count) for run, count in zip(left, before, strict=True)]
            keys, values = (np.concatenate(column) for column in zip(*taken, strict=True))
            order = np.argsort(keys, kind="stable")  # quick for sorted pieces
            yield keys[order], values[order]
            continue
        for run in left:
            while run.fill() and (count := np.searchsorted(run.keys, pivot, side="right")):
                yield run.take(count)
