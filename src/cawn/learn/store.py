"""Folders of arrays, written once and read as memory maps; files of tensors; checksums."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load as parse

from cawn.data.validation import require
from cawn.errors import StorageError
from cawn.files import read_file, storing, sync

Arrays = dict[str, npt.NDArray[Any]]
Manifest = dict[str, list[Any] | None]  # size and SHA-256 of each file

_HASH_THREADS = 4


def write_arrays(parent: Path, kind: str, arrays: Arrays) -> tuple[str, Manifest]:
    """Write one .npy file for each array to a new folder `kind`-...; returns its name and its manifest.

    Nothing refers to the folder yet, so it need not be written atomically.
    """
    folder = parent / f"{kind}-{secrets.token_hex(8)}"
    with storing(folder):
        try:
            folder.mkdir()
            for name, array in arrays.items():
                with open(folder / f"{name}.npy", "xb") as file:
                    np.save(file, np.asarray(array, order="C"), allow_pickle=False)
                    file.flush()
                    os.fsync(file.fileno())
            sync(folder)
            return folder.name, {f"{name}.npy": _stamp(folder / f"{name}.npy") for name in arrays}
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def read_arrays(folder: Path, manifest: Mapping[str, Any] | None, *, verify: bool = True) -> Arrays:
    """The arrays of a folder by name, memory-mapped copy-on-write.

    Args:
        manifest: What `write_arrays` returned; None, for older formats, to read all files in the folder.
        verify: Whether to compare checksums.
    """
    names = sorted(path.name for path in folder.glob("*.npy")) if manifest is None else sorted(manifest)
    if not folder.is_dir():
        raise StorageError(f"{folder}: missing; the run must be trained again")
    if manifest is not None and verify:
        with ThreadPoolExecutor(_HASH_THREADS) as pool:
            stamps = dict(zip(names, pool.map(lambda name: _stamp(folder / name), names), strict=True))
        if wrong := [name for name in names if stamps[name] != manifest[name]]:
            raise StorageError(f"{folder / wrong[0]}: missing or damaged; the run must be trained again")
    return {name.removesuffix(".npy"): _map(folder / name) for name in names}


def remove_arrays(folder: Path) -> None:
    """Remove a folder of arrays; if it holds other files, they are kept."""
    if folder.is_dir() and not folder.is_symlink():
        with suppress(OSError):
            for path in folder.glob("*.npy"):
                path.unlink()
            folder.rmdir()


def stamp_of(content: bytes) -> list[Any]:
    """Size and SHA-256 of the content of a file."""
    return [len(content), hashlib.sha256(content).hexdigest()]


def digest_of(arrays: Mapping[str, npt.NDArray[Any]], *texts: str) -> str:
    """The SHA-256 of arrays and texts."""
    state = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        state.update(f"{name} {array.dtype} {array.shape}\n".encode())
        state.update(array.reshape(-1).view(np.uint8).data)
    for text in texts:
        state.update(f"{len(text)} {text}".encode())
    return state.hexdigest()


def read_tensors(path: Path) -> tuple[Arrays, dict[str, str], bytes]:
    """The tensors of a safetensors file, its metadata, and its bytes; OSError if it cannot be read."""
    content = read_file(path)
    try:
        tensors = {name: array.copy() for name, array in sorted(parse(content).items())}
        texts = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__", {})
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StorageError(f"{path}: damaged") from error
    return tensors, texts, content


def check_weights(weights: Arrays) -> None:
    """Refuse weights that are neither float32 nor, as buffers may be, int64, or not finite."""
    for name, values in weights.items():
        require(values.dtype in (np.float32, np.int64), f"{name} is {values.dtype}")
        require(bool(np.isfinite(values).all()), f"{name} is not finite")


def _stamp(path: Path) -> list[Any] | None:
    """Size and SHA-256 of a file; None if it cannot be read."""
    try:
        if not path.is_file():
            return None
        with open(path, "rb") as file:
            return [os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()]
    except OSError:
        return None


def _map(path: Path) -> npt.NDArray[Any]:
    """Map one array; refuse a header that does not agree with the size of the file."""
    try:
        if not path.is_file():
            raise FileNotFoundError(path)
        array = np.load(path, mmap_mode="c", allow_pickle=False)
        if not isinstance(array, np.memmap) or array.offset + array.nbytes != path.stat().st_size:
            raise ValueError("size")
        return np.asarray(array)
    except Exception as error:  # a damaged header can raise almost anything
        raise StorageError(f"{path}: missing or damaged; the run must be trained again") from error
