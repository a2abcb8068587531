"""Folders of arrays, written once and read as memory maps."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.checksums import Stamp, stamps_of
from cawn.errors import StorageError
from cawn.files import storing, sync

Arrays = dict[str, npt.NDArray[Any]]
Manifest = dict[str, Stamp | None]  # size and checksum of each file
FindFile = Callable[[npt.NDArray[Any]], tuple[Path, Stamp] | None]

TRAIN_AGAIN = "the run must be trained again"
_SHA_256 = 64  # digits; earlier versions recorded it


def write_arrays(
    parent: Path, kind: str, arrays: Arrays, stored: FindFile = lambda _: None, *, durable: bool = True
) -> tuple[str, Manifest]:
    """Write one .npy file for each array to a new folder `kind`-...; returns its name and its manifest.

    Nothing refers to the folder yet, so it need not be written atomically.

    Args:
        stored: Returns the file that an array is mapped from and its stamp, if there is one: the new folder then gets
            a hard link to this file, or a copy where it is on another disk.
        durable: Whether to flush the files to disk; if not, a crash of the machine may damage them.
    """
    folder, stamps = parent / new_name(kind), dict[str, Stamp | None]()
    with storing(folder):
        try:
            folder.mkdir()
            for name, array in arrays.items():
                path, found = folder / f"{name}.npy", stored(array)
                if found is None:
                    with open(path, "xb") as file:
                        np.save(file, np.asarray(array, order="C"), allow_pickle=False)
                        if durable:
                            file.flush()
                            os.fsync(file.fileno())
                else:
                    _link_or_copy(found[0], path)
                    stamps[path.name] = found[1]
            sync(folder)
            names = [f"{name}.npy" for name in arrays]
            stamps |= manifest_of(folder, [name for name in names if name not in stamps])
            return folder.name, {name: stamps[name] for name in names}
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def new_name(kind: str) -> str:
    """A name for a new folder of arrays."""
    return f"{kind}-{secrets.token_hex(8)}"


def _link_or_copy(existing: Path, path: Path) -> None:
    try:
        os.link(existing, path)
    except OSError:  # another disk, or one without links
        shutil.copyfile(existing, path)
        sync(path)


def read_arrays(
    folder: Path, manifest: Mapping[str, Any] | None, *, verify: bool = True, remedy: str = TRAIN_AGAIN
) -> Arrays:
    """The arrays of a folder by name, memory-mapped copy-on-write.

    Args:
        manifest: What `write_arrays` returned; None to read all files in the folder.
        verify: Whether to compare checksums.
        remedy: What to do about a damaged file.
    """
    names = sorted(path.name for path in folder.glob("*.npy")) if manifest is None else sorted(manifest)
    if not folder.is_dir():
        raise StorageError(f"{folder}: missing; {remedy}")
    if manifest is not None and verify:
        verify_files(folder, manifest, remedy)
    return {name.removesuffix(".npy"): map_array(folder / name, remedy) for name in names}


def remove_arrays(folder: Path) -> None:
    """Remove a folder of arrays; if it holds other files, they are kept."""
    if folder.is_dir() and not folder.is_symlink():
        with suppress(OSError):
            for path in folder.glob("*.npy"):
                path.unlink()
            folder.rmdir()


def manifest_of(folder: Path, names: list[str]) -> Manifest:
    """Size and checksum of each file; None for those that cannot be read."""
    return dict(zip(names, stamps_of(folder / name for name in names), strict=True))


def verify_files(folder: Path, manifest: Mapping[str, Any], remedy: str) -> None:
    """Raise StorageError if a file is not the one in the manifest."""
    found = manifest_of(folder, sorted(manifest))
    for name, stamp in found.items():
        expected = manifest[name]
        if isinstance(expected, list) and len(str(expected[-1])) == _SHA_256:
            stamp = stamp_of_file(folder / name)
        if stamp is None or stamp != expected:
            raise StorageError(f"{folder / name}: missing or damaged; {remedy}")


def stamp_of_file(path: Path) -> Stamp | None:
    """Size and SHA-256 of a file; None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return [os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()]
    except OSError:
        return None


def map_array(path: Path, remedy: str = TRAIN_AGAIN) -> npt.NDArray[Any]:
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
