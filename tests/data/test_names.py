"""Names to ids and back, as they were, from arrays alone."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cawn
from cawn.data.names import UNKNOWN, NameIndex, Spelling, as_name, as_names, bipartite_prefixes, number_nodes

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


@given(st.lists(TEXT, min_size=1, max_size=30, unique=True), st.lists(TEXT, max_size=10))
def test_strings(names: list[str], others: list[str]) -> None:
    index = NameIndex.of(np.array(names, object))
    assert index.ids(names).tolist() == list(range(len(names)))
    assert [index.name(i) for i in range(len(names))] == names
    place = {name: i for i, name in enumerate(names)}
    assert index.ids(others).tolist() == [place.get(name, UNKNOWN) for name in others]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30, unique=True))
def test_integers(names: list[int]) -> None:
    index = NameIndex.of(np.array(names))
    assert index.ids(names).tolist() == list(range(len(names)))
    assert index.ids([str(name) for name in names]).tolist() == list(range(len(names)))
    assert index.all().tolist() == names


@pytest.mark.parametrize("name", ["007", "7.5", "x", "", "+7", 2**70, -1, "-0", "9" * 5_000])
def test_what_is_no_known_integer_is_unknown(name) -> None:
    assert NameIndex.of(np.array([7, 0])).ids([name]).tolist() == [UNKNOWN]


def test_integers_may_have_a_point() -> None:
    assert NameIndex.of(np.array([7, 0])).ids(["7.0", "0.0"]).tolist() == [0, 1]


def test_new_names() -> None:
    integers = NameIndex.of(np.array([5, 3]))
    assert integers.extended([9]).all().tolist() == [5, 3, 9]
    mixed = integers.extended(["ann"])
    assert mixed.all().tolist() == ["5", "3", "ann"]
    assert mixed.ids([3, "ann"]).tolist() == [1, 2]
    assert NameIndex.of(np.array(["b", "a"], object)).extended(["c"]).ids(["a", "c"]).tolist() == [1, 2]


def test_two_sided_networks_are_known_by_their_names() -> None:
    labels = np.array(["user:1", "user:2", "item:1"], object)
    assert bipartite_prefixes(cawn.Events([0, 1], [2, 2], [1, 2], labels=labels)) == ("user", "item")
    assert bipartite_prefixes(cawn.Events([0, 1], [1, 2], [1, 2], labels=labels)) is None
    assert bipartite_prefixes(cawn.Events([0, 1], [1, 2], [1, 2])) is None


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("ann", ["ann"]),
        (7, [7]),
        (np.int32(7), [7]),
        (np.array([[1, 2], [3, 4]]), [1, 2, 3, 4]),
        (pa.array(["a", "b"]), ["a", "b"]),
        ((name for name in ("a", 2)), ["a", 2]),
    ],
)
def test_names_as_users_give_them(given: object, names: list) -> None:
    assert as_names(given) == names


@pytest.mark.parametrize("given", [True, 1.5, None, b"a", ["a", None]])
def test_other_values_are_not_names(given: object) -> None:
    with pytest.raises(cawn.QueryError, match="is not a node name"):
        as_names(given)


@pytest.mark.parametrize("given", [["a"], ["a", "b"], []])
def test_one_name(given: list) -> None:
    assert as_name("a", "src") == "a"
    with pytest.raises(cawn.QueryError, match=r"src is .*: give one name"):
        as_name(given, "src")


def test_prefixes_may_be_omitted() -> None:
    index, spelling = NameIndex.of(np.array(["user:1", "item:1"], object)), Spelling(("user", "item"))
    assert spelling.ids(index, ["1", "user:1", "2"], 0).tolist() == [0, 0, 2]
    assert spelling.ids(index, ["1", "item:1", "2"], 1).tolist() == [1, 1, 3]
    assert spelling.same("2", "2") is False
    assert Spelling(None).same("2", 2) is True


@pytest.mark.parametrize(
    ("src", "dst", "src_ids", "dst_ids", "labels"),
    [
        ([5, 3], [3, 9], [1, 0], [0, 2], [3, 5, 9]),
        ([10**12, -4], [-4, 7], [2, 0], [0, 1], [-4, 7, 10**12]),
        (["b", "a"], ["a", "c"], [0, 1], [1, 2], ["b", "a", "c"]),
    ],
)
def test_numbering(src: list, dst: list, src_ids: list, dst_ids: list, labels: list) -> None:
    found = number_nodes(pa.chunked_array([src[:1], src[1:]]), pa.chunked_array([dst]))
    assert [array.tolist() for array in found] == [src_ids, dst_ids, labels]
