"""Hashes of text and of arrays that are the same in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt


def hash_ids(ids: Iterable[object]) -> npt.NDArray[np.uint64]:
    """64-bit hashes of the text of each id, never 0.

    Among n distinct ids a collision has probability n**2 / 2**65: 3e-6 for ten million.
    """
    texts = (str(each).encode("utf-8", "surrogatepass") for each in ids)
    digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    hashes = np.frombuffer(digests, "<u8").astype(np.uint64)
    hashes[hashes == 0] = 1
    return hashes


def digest(*arrays: npt.NDArray[Any]) -> str:
    """Twelve hexadecimal digits that identify the contents of arrays, with their types and shapes."""
    state = hashlib.sha256()
    for array in arrays:
        state.update(f"{array.dtype}{array.shape}".encode())
        state.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return state.hexdigest()[:12]
