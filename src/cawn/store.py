"""Folders of arrays: written whole or not at all, read as memory maps, so that opening even a large one is quick."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.errors import StorageError

Arrays = dict[str, npt.NDArray[Any]]


def write_arrays(folder: Path, arrays: Arrays) -> None:
    """One .npy file for each array, in place of whatever the folder held."""
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        part.mkdir(parents=True)
        for name, array in arrays.items():
            np.save(part / f"{name}.npy", array, allow_pickle=False)
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written ({error.strerror or error})") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def read_arrays(folder: Path) -> Arrays:
    """The arrays of a folder by name, mapped into memory; changes to them stay in memory."""
    found: Arrays = {}
    try:
        if not folder.is_dir():
            raise FileNotFoundError(folder)
        for path in sorted(folder.glob("*.npy")):
            array = np.load(path, mmap_mode="c", allow_pickle=False)
            found[path.stem] = np.asarray(array)
    except (OSError, ValueError, EOFError) as error:
        raise StorageError(f"{folder}: missing or damaged; the run must be trained again") from error
    return found
