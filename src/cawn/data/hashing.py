"""Hashes of text that are the same in every process."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import numpy.typing as npt


def hash_ids(ids: Iterable[object]) -> npt.NDArray[np.uint64]:
    """64-bit hashes of the text of each id, never 0.

    Two of n different ids are mistaken for one with probability n**2 / 2**65, which is 3e-6 for ten million.
    """
    digests = b"".join(blake2b(str(each).encode("utf-8", "surrogatepass"), digest_size=8).digest() for each in ids)
    hashes = np.frombuffer(digests, "<u8").astype(np.uint64)
    hashes[hashes == 0] = 1
    return hashes
