"""Folders of arrays, written once and read as memory maps, and checksums of their files.

The checksum is fast: any damage is noticed when files are opened, at the speed at which they can be read.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.checks import Array
from cawn.data.columns import write_array
from cawn.errors import StorageError
from cawn.files import link_or_copy, sha256_of, storing, sync
from cawn.kernels.jit import njit
from cawn.kernels.rng import mix64
from cawn.kernels.threads import num_threads

Arrays = dict[str, Array]
Stamp = list[Any]  # size and checksum of a file
Manifest = dict[str, Stamp | None]  # None for a file that cannot be read
FindFile = Callable[[Array], tuple[Path, Stamp] | None]

TRAIN_AGAIN = "the run must be trained again"
_SHA_256 = 64  # digits; the states of servers that earlier versions wrote have it
_CHUNK = 1 << 22  # bytes that are read at once
_WORDS, _SUMS = np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x9E3779B185EBCA87)  # the multipliers of XXH64
_LEFT, _RIGHT = np.uint64(31), np.uint64(33)


def write_arrays(parent: Path, kind: str, arrays: Arrays, stored: FindFile = lambda _: None) -> tuple[str, Manifest]:
    """Write one .npy file for each array to a new folder `kind`-...; returns its name and its manifest.

    Nothing refers to the folder yet, so it need not be written atomically. `stored` finds the file that an array is
    mapped from, and its stamp: the new folder then gets a hard link to it, or a copy where it is on another disk.
    """
    folder, linked = parent / new_name(kind), dict[str, Stamp | None]()
    with storing(folder):
        try:
            folder.mkdir()
            for name, array in arrays.items():
                path, found = folder / f"{name}.npy", stored(array)
                if found is None:
                    write_array(path, array)
                else:
                    link_or_copy(found[0], path)
                    linked[path.name] = found[1]
            sync(folder)
            names = [f"{name}.npy" for name in arrays]
            return folder.name, linked | manifest_of(folder, [name for name in names if name not in linked])
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def new_name(kind: str) -> str:
    """A name for a new folder of arrays."""
    return f"{kind}-{secrets.token_hex(8)}"


def read_arrays(folder: Path, manifest: Mapping[str, Any], *, verify: bool = True, remedy: str = TRAIN_AGAIN) -> Arrays:
    """The arrays of a folder by name, memory-mapped copy-on-write; `verify`: whether to compare checksums."""
    if not folder.is_dir():
        raise StorageError(f"{folder}: missing; {remedy}")
    for name, stamp in manifest_of(folder, sorted(manifest)).items() if verify else ():
        expected = manifest[name]
        if stamp and isinstance(expected, list) and len(str(expected[-1])) == _SHA_256:
            stamp = [stamp[0], sha256_of(folder / name)]
        if stamp is None or stamp != expected:
            raise StorageError(f"{folder / name}: missing or damaged; {remedy}")
    return {name.removesuffix(".npy"): map_array(folder / name, remedy) for name in sorted(manifest)}


def remove_arrays(folder: Path) -> None:
    """Remove a folder of arrays; if it holds other files, they are kept."""
    if folder.is_dir() and not folder.is_symlink():
        with suppress(OSError):
            for path in folder.glob("*.npy"):
                path.unlink()
            folder.rmdir()


def map_array(path: Path, remedy: str = TRAIN_AGAIN) -> Array:
    """Map one array; refuse a header that does not agree with the size of the file."""
    try:
        if not path.is_file():
            raise FileNotFoundError(path)
        array = np.load(path, mmap_mode="c", allow_pickle=False)
        if not isinstance(array, np.memmap) or array.offset + array.nbytes != path.stat().st_size:
            raise ValueError("size")
        return np.asarray(array)
    except Exception as error:  # a damaged header can raise almost anything
        raise StorageError(f"{path}: missing or damaged; {remedy}") from error


def manifest_of(folder: Path, names: list[str]) -> Manifest:
    """Size and checksum of each file."""
    return dict(zip(names, stamps_of(folder / name for name in names), strict=True))


def stamps_of(paths: Iterable[Path]) -> list[Stamp | None]:
    """Size and checksum of each file; None for those that cannot be read. Every byte is read, on all cores."""
    with ThreadPoolExecutor(num_threads(None)) as pool:
        files = [(path, os.path.getsize(path) if path.is_file() else -1) for path in paths]
        chunks = [
            [pool.submit(_checksum_of_chunk, path, first) for first in range(0, size, _CHUNK)] for path, size in files
        ]
        found: list[Stamp | None] = []
        for (_, size), sums in zip(files, chunks, strict=True):
            try:
                each = np.array([part.result() for part in sums], np.uint64)
                found.append([size, f"{checksum(each):016x}"] if size >= 0 else None)
            except OSError:
                found.append(None)
        return found


def _checksum_of_chunk(path: Path, first: int) -> int:
    content = np.fromfile(path, np.uint8, _CHUNK, offset=first)
    if rest := len(content) % 8:
        content = np.append(content, np.zeros(8 - rest, np.uint8))
    return int(checksum(content.view(np.uint64)))


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
