"""Stored arrays that do not fit together are refused before compiled code follows them."""

import numpy as np
import pytest

import cawn
from cawn.data.names import SLOTS, NameIndex
from cawn.data.validation import check_links, check_names

LINKS = {
    "src": np.array([0, 1], np.int32),
    "dst": np.array([1, 2], np.int32),
    "t": np.array([5, 6]),
    "msg": np.ones((2, 1), np.float32),
    "weight": np.ones(2, np.float32),
    "negative": np.array([-1, 2], np.int32),
    "link_id": np.array([0, 9], np.uint64),
    "x": np.ones((3, 2), np.float32),
}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"src": np.array([0, 3], np.int32)}, "src has a value outside 0 to 2"),
        ({"src": np.array([0, 1])}, r"src is int64 of shape \(2,\)"),
        ({"dst": np.array([1], np.int32)}, "dst has 1 rows"),
        ({"t": np.array([6, 5])}, "t is not sorted"),
        ({"t": np.array([5.0, np.nan])}, "t is not finite"),
        ({"t": np.array([5, 6], np.int32)}, "t is int32"),
        ({"negative": np.array([-2, 0], np.int32)}, "negative has a value outside -1 to 2"),
        ({"weight": np.array([-1, 1], np.float32)}, "weight is negative or not finite"),
        ({"x": np.full((3, 2), np.inf, np.float32)}, "x is not finite"),
        ({"msg": np.ones((2, 2), np.float32)[:, :1]}, "msg is float32 of shape"),
    ],
)
def test_damaged_links(changed: dict, problem: str) -> None:
    check_links(LINKS, 3)
    with pytest.raises(cawn.DataError, match=problem):
        check_links(LINKS | changed, 3)
    with pytest.raises(cawn.DataError, match="t is missing"):
        check_links({}, 3)


@pytest.mark.parametrize(
    ("labels", "changed", "problem"),
    [
        ([5, 3], {"names": np.array([5, 5])}, "two nodes have it"),
        ([5, 3], {"names": np.array([5, 3], np.int32)}, "names is int32"),
        ([5, 3], {SLOTS: np.zeros(4, np.uint64)}, "name_slots have 0 names"),
        ([5, 3], {SLOTS: np.full(4, 1, np.uint64)}, "name_slots have 4 names"),
        ([5, 3], {SLOTS: np.array([1, 9, 0, 0], np.uint64)}, "name_slots has a value outside 1 to 2"),
        ([5, 3], {SLOTS: np.array([1, 2, 0, 0], np.uint64)}, "a name is not found at its node"),
        ([5, 3], {SLOTS: np.zeros(2, np.uint64)}, "name_slots are uint64 of shape"),
        (["a", "b"], {"name_bytes": np.array([97, 97], np.uint8)}, "two nodes have it"),
        (["a", "b"], {"name_ends": np.array([0, 3, 2])}, "name_ends do not divide 2 into 2 lists"),
        (["a", "b"], {"name_bytes": np.array([97, 255], np.uint8)}, "name_bytes are not UTF-8"),
        (["ä", "b"], {"name_ends": np.array([0, 1, 3])}, "name_ends split a character"),
    ],
)
def test_damaged_names(labels: list, changed: dict, problem: str) -> None:
    index = NameIndex.of(np.array(labels, object if isinstance(labels[0], str) else np.int64))
    check_names(index.arrays | {SLOTS: index.slots})
    with pytest.raises(cawn.DataError, match=problem):
        check_names(index.arrays | changed)
