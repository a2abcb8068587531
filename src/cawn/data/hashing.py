"""Hashes of text and of arrays that are the same in every process, and JSON files that hold a checksum of their own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.checks import Array
from cawn.errors import StorageError
from cawn.files import read_file, write_text


def hash_ids(ids: Iterable[object]) -> npt.NDArray[np.uint64]:
    """64-bit hashes of the text of each id, never 0.

    Among n distinct ids a collision has probability n**2 / 2**65: 3e-6 for ten million.
    """
    texts = (str(each).encode("utf-8", "surrogatepass") for each in ids)
    digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    hashes = np.frombuffer(digests, "<u8").astype(np.uint64)
    hashes[hashes == 0] = 1
    return hashes


def digest(*arrays: Array) -> str:
    """Twelve hexadecimal digits that identify the contents of arrays, with their types and shapes."""
    state = hashlib.sha256()
    for array in arrays:
        state.update(f"{array.dtype}{array.shape}".encode())
        state.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return state.hexdigest()[:12]


def write_sealed(path: Path, content: dict[str, Any]) -> None:
    """Write the content with its checksum, atomically."""
    plain = {key: value for key, value in content.items() if key != "checksum"}
    write_text(path, json.dumps(plain | {"checksum": checksum(plain)}, indent=1) + "\n")


def read_sealed(path: Path, remedy: str) -> dict[str, Any]:
    """The content of a sealed file; StorageError with a remedy if it was changed or is damaged."""
    found = read_json(path, remedy)
    check_seal(path, found, remedy)
    return found


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """The content of a file that holds one JSON object, sealed or not; FileNotFoundError if there is none."""
    try:
        found = json.loads(read_file(path))
        if isinstance(found, dict):
            return found
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"{path}: damaged; {remedy}") from error
    raise StorageError(f"{path}: damaged; {remedy}")


def check_seal(path: Path, found: dict[str, Any], remedy: str, *, verify: bool = True) -> None:
    """Remove the checksum from the content and, with `verify`, compare it."""
    seal = found.pop("checksum", None)
    if verify and seal != checksum(found):
        raise StorageError(f"{path}: was changed or is damaged (checksum); {remedy}")


def checksum(content: dict[str, Any]) -> str:
    """The checksum of the content, in whatever order its keys are."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
