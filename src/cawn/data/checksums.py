"""A fast checksum of files: any damage is noticed when they are opened, at the speed at which they can be read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.kernels.jit import njit
from cawn.kernels.rng import mix64
from cawn.kernels.threads import num_threads

_CHUNK = 1 << 22  # bytes that are read at once
_WORDS, _SUMS = np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x9E3779B185EBCA87)  # the multipliers of XXH64
_LEFT, _RIGHT = np.uint64(31), np.uint64(33)

Stamp = list[Any]  # size and checksum of a file


def stamps_of(paths: Iterable[Path]) -> list[Stamp | None]:
    """Size and checksum of each file; None for those that cannot be read. Every byte is read, on all cores."""
    with ThreadPoolExecutor(num_threads(None)) as pool:
        files = [(path, _size(path)) for path in paths]
        chunks = [
            [pool.submit(_checksum_of_chunk, path, first) for first in range(0, size, _CHUNK)] for path, size in files
        ]
        found: list[Stamp | None] = []
        for (_, size), sums in zip(files, chunks, strict=True):
            try:
                each = np.array([part.result() for part in sums], np.uint64)
                found.append([size, f"{checksum(each):016x}"] if size >= 0 else None)
            except (OSError, EOFError):
                found.append(None)
        return found


def _size(path: Path) -> int:
    """The size of a regular file, -1 for anything else."""
    try:
        return path.stat().st_size if path.is_file() else -1
    except OSError:
        return -1


def _checksum_of_chunk(path: Path, first: int) -> int:
    with open(path, "rb", buffering=0) as file:
        size = min(_CHUNK, os.fstat(file.fileno()).st_size - first)
        words = np.zeros(max(-(-size // 8), 0), np.uint64)
        content, at = words.view(np.uint8).data[: max(size, 0)], 0
        file.seek(first)
        while at < size:
            if (read := file.readinto(content[at:])) == 0:
                raise EOFError
            at += read
    return int(checksum(words))


@njit
def checksum(words: npt.NDArray[np.uint64]) -> Any:
    """A checksum of words; four sums that do not depend on each other, as in XXH64. One changed word changes it."""
    a, b, c, d = _WORDS, _SUMS, _LEFT, _RIGHT
    n = words.size & ~3
    for i in range(0, n, 4):
        a, b = _add(a, words[i]), _add(b, words[i + 1])
        c, d = _add(c, words[i + 2]), _add(d, words[i + 3])
    for i in range(n, words.size):
        a = _add(a, words[i])
    return mix64(mix64(mix64(mix64(np.uint64(words.size) ^ a) ^ b) ^ c) ^ d)


@njit
def _add(total: Any, word: Any) -> Any:
    total += word * _WORDS
    return (total << _LEFT | total >> _RIGHT) * _SUMS
