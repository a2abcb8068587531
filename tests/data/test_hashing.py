"""Hashes are the same in every process and version: they are stored in run folders."""

import numpy as np

from cawn.data.hashing import digest, hash_ids


def test_ids_are_hashed_by_their_text() -> None:
    assert hash_ids(["a", 7]).tolist() == [3405396810240292928, 9407870976149377255]
    assert hash_ids([7]) == hash_ids(["7"]) != hash_ids(["007"])
    assert hash_ids([]).dtype == np.uint64


def test_a_digest_depends_on_values_types_and_shapes() -> None:
    whole = np.arange(4)
    assert digest(whole) == "4a871df19664"
    others = (whole + 1, whole.astype(np.int32), whole.reshape(2, 2), whole[:2])
    assert len({digest(array) for array in (whole, *others)}) == 5
    assert digest(whole, whole) != digest(whole)
