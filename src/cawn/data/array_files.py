"""Arrays in .npy files that are written and read in blocks, so that memory holds only the blocks in use."""

from __future__ import annotations

import io
import math
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.errors import StorageError

Array = npt.NDArray[Any]

_MOST = 1 << 30  # bytes of one system call, which takes less than 2**31


class ArrayFile:
    """A .npy file of a known shape whose parts are written and read in any order, by several threads.

    Positions count the numbers of the array in C order.
    """

    def __init__(self, path: Path, shape: Sequence[int], dtype: npt.DTypeLike) -> None:
        """Create the file; numbers that are never written are 0."""
        self.path, self.shape, self.dtype = path, tuple(map(int, shape)), np.dtype(dtype)
        header = npy_header(self.shape, self.dtype)
        with open(path, "xb") as file:
            file.write(header)
            file.truncate(len(header) + math.prod(self.shape) * self.dtype.itemsize)
        self._offset, self._descriptor = len(header), os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))

    def write(self, values: Array, at: int = 0) -> None:
        """Write numbers from position `at` on."""
        write_at(self._descriptor, np.ascontiguousarray(values, self.dtype), self._offset + at * self.dtype.itemsize)

    def read(self, at: int, count: int) -> Array:
        """A new array of `count` numbers from position `at` on."""
        found = np.empty(count, self.dtype)
        read_at(self._descriptor, found, self._offset + at * self.dtype.itemsize, self.path)
        return found

    def shorten(self, rows: int) -> None:
        """Keep only the first rows."""
        self.shape = (rows, *self.shape[1:])
        header = npy_header(self.shape, self.dtype)
        assert len(header) == self._offset
        os.pwrite(self._descriptor, header, 0)
        os.ftruncate(self._descriptor, self._offset + math.prod(self.shape) * self.dtype.itemsize)

    def discard(self) -> None:
        """Close and remove the file."""
        self._release()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Flush the file to disk and close it."""
        if self._descriptor >= 0:
            try:
                os.fsync(self._descriptor)
            finally:
                self._release()

    def _release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> ArrayFile:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self.close() if kind is None else self._release()

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self._release()


def npy_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """The header of a .npy file. NumPy leaves room for any number of rows, so its length does not depend on it."""
    content = io.BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(content, described)
    return content.getvalue()


def write_at(descriptor: int, values: Array, place: int) -> None:
    """Write a contiguous array to an open file, from byte `place` on."""
    content = values.reshape(-1).view(np.uint8).data
    while len(content):
        written = os.pwrite(descriptor, content[:_MOST], place)
        content, place = content[written:], place + written


def read_at(descriptor: int, values: Array, place: int, path: Path) -> None:
    """Fill a contiguous array from an open file, from byte `place` on."""
    content = values.reshape(-1).view(np.uint8).data
    while len(content):
        size = os.preadv(descriptor, [content[:_MOST]], place)
        if size == 0:
            raise StorageError(f"{path}: ended early; was it changed by another process?")
        content, place = content[size:], place + size


def write_array(path: Path, array: Array) -> None:
    """Write an array to a new file."""
    with ArrayFile(path, array.shape, array.dtype) as file:
        file.write(array)


def blocks(size: int, *arrays: Array | None) -> Iterator[tuple[int, list[Any]]]:
    """Consecutive blocks of `size` rows of arrays of one length: the first row of each, and views of the arrays.

    The pages of memory-mapped arrays are released after each block, and read again from the file if they are used
    again.
    """
    length = next(len(array) for array in arrays if array is not None)
    for first in range(0, length, size):
        views = [None if array is None else array[first : first + size] for array in arrays]
        yield first, views
        for view in views:
            if view is not None:
                release_pages(view)


def release_pages(array: Array) -> None:
    """Release the resident pages of an array that is memory-mapped and was not written to; others are left alone."""
    held: Any = array
    while isinstance(held, np.ndarray) and not isinstance(held, np.memmap):
        held = held.base
    if not isinstance(held, np.memmap) or held.mode not in ("r", "c") or array.nbytes == 0:
        return
    owner: Any = held
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if not isinstance(owner, mmap.mmap) or not hasattr(owner, "madvise"):
        return
    place = array.ctypes.data - np.frombuffer(owner, np.uint8).ctypes.data
    first = place // mmap.PAGESIZE * mmap.PAGESIZE
    owner.madvise(mmap.MADV_DONTNEED, first, place + array.nbytes - first)
