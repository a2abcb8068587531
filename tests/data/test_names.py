"""Names to ids and back; what is stored: arrays in memory and in files, hashes, sealed files, and damage to them."""

import json
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cawn
from cawn.data.array_folders import map_array
from cawn.data.columns import ArrayFile, GrowingArray, blocks
from cawn.data.forms import NameForm, bipartite_prefixes
from cawn.data.hashing import digest, hash_ids, read_json, read_sealed, write_sealed
from cawn.data.names import SLOTS, UNKNOWN, NameIndex, as_integer, as_name, as_names, parse_integers
from cawn.data.stored import check_links, check_names

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
INTEGER = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9)


def chunked(names: list) -> pa.ChunkedArray:
    return pa.chunked_array([names], pa.int64() if not names or isinstance(names[0], int) else pa.large_string())


@given(st.lists(TEXT, max_size=30, unique=True) | st.lists(INTEGER, max_size=30, unique=True), st.lists(TEXT))
def test_names_are_found_at_their_places(names: list, others: list[str]) -> None:
    """Also with stored slots, and where a name is added to these."""
    built = NameIndex.of(np.array(names, np.int64 if names and isinstance(names[0], int) else object))
    stored = NameIndex({name: array.copy() for name, array in (built.arrays | {SLOTS: built.slots}).items()})
    _, extended = stored.extended(["added"])
    place = {str(name): i for i, name in enumerate(names)}
    for index in (built, stored):
        assert index.ids(names).tolist() == index.ids(map(str, names)).tolist() == list(range(len(names)))
        assert [index.name(i) for i in range(len(names))] == index.all().tolist() == names
        assert index.ids([*others, "added"]).tolist() == [place.get(name, UNKNOWN) for name in [*others, "added"]]
        check_names(index.arrays | {SLOTS: index.slots})
    assert extended.ids([*names, "added"]).tolist() == [*range(len(names)), place.get("added", len(names))]


WORDS = [f"n{i}" for i in range(40)]


@settings(max_examples=200)
@given(st.lists(st.lists(INTEGER, max_size=20) | st.lists(st.sampled_from(WORDS), max_size=20), max_size=8), st.data())
def test_versions_never_change(pieces: list[list], data: st.DataObject) -> None:
    """A table numbers names as they come; an index is extended at any version; all others stay as they are."""
    table, seen, versions = NameIndex(), dict[str, int](), [(NameIndex(), list[str]())]
    for piece in pieces:
        assert table.add(chunked(piece)).tolist() == [seen.setdefault(str(name), len(seen)) for name in piece]
        index, names = data.draw(st.sampled_from(versions))
        new = list(dict.fromkeys(name for name in piece if str(name) not in names))
        ids, extended = index.extended([*new, *names])
        assert ids.tolist() == [*range(len(names), len(names) + len(new)), *range(len(names))]
        versions.append((extended, [*names, *map(str, new)]))
    for index, names in [*versions, (table, list(seen))]:
        assert list(map(str, index.all())) == names
        assert index.ids(list(seen)).tolist() == [names.index(name) if name in names else UNKNOWN for name in seen]


@pytest.mark.parametrize("kind", ["strings", "small integers", "large integers"])
def test_tables_grow(kind: str) -> None:
    numbers = np.random.default_rng(0).permutation(20_000) * (1 if kind == "small integers" else 2**40 + 1)
    names = pa.chunked_array([[f"name-{i}" for i in numbers.tolist()] if kind == "strings" else numbers])
    names = names.cast(pa.large_string() if kind == "strings" else pa.int64())
    used: list[int] = []
    table = NameIndex(reserve=used.append)
    assert np.array_equal(table.add(names), np.arange(20_000))
    assert np.array_equal(table.add(names.slice(1_000)), np.arange(1_000, 20_000))
    assert 20_000 * 8 < sum(used) < 20_000 * 120
    assert np.array_equal(pickle.loads(pickle.dumps(table)).ids(names.to_pylist()), np.arange(20_000))


PLAIN = {"7": 7, "-3": -3, "0": 0, "7.0": 7, "0.0": 0, "9223372036854775807": 2**63 - 1}
NOT_PLAIN = ["", "-", "07", "+7", "-0", "7.", "7.00", "7.5", "1e3", "é", "x", " 7", "9" * 19, "9" * 5_000]


@given(st.lists(st.sampled_from([*PLAIN, *NOT_PLAIN]) | st.text("0123456789-+.e ", max_size=20), max_size=8))
def test_plain_integers(names: list[str]) -> None:
    """In columns, in names that are asked for, and in the canonical form, by one rule."""
    expected = [PLAIN.get(name, as_integer(name)) for name in names]
    assert all(as_integer(name) is None for name in NOT_PLAIN)
    integers, with_point = parse_integers(pa.chunked_array([names], pa.string()))
    assert (integers is None) == (None in expected)
    if integers is not None:
        assert (integers.to_pylist(), with_point) == (expected, any("." in name for name in names))
    held = NameIndex.of(np.array(list(dict.fromkeys(number for number in expected if number is not None)), np.int64))
    assert [held.name(i) if i >= 0 else None for i in held.ids(names)] == expected
    found = [NameForm(integers=True, trimmed=False).canonical(name) for name in names]
    assert found == [name if number is None else number for name, number in zip(names, expected, strict=True)]
    assert NameIndex.of(np.array([7, 0])).ids([2**70, -1, 7.5]).tolist() == [UNKNOWN] * 3


def test_two_sided_networks_are_known_by_their_names() -> None:
    labels = np.array(["user:1", "user:2", "item:1"], object)
    assert bipartite_prefixes(cawn.Events([0, 1], [2, 2], [1, 2], labels=labels)) == ("user", "item")
    assert bipartite_prefixes(cawn.Events([0, 1], [1, 2], [1, 2], labels=labels)) is None
    assert bipartite_prefixes(cawn.Events([0, 1], [1, 2], [1, 2])) is None
    index, form = NameIndex.of(labels[[0, 2]]), NameForm(prefixes=("user", "item"))
    assert form.ids(index, ["1", "user:1", "2"], 0).tolist() == [0, 0, 2]
    assert form.ids(index, ["1", "item:1", " 2"], 1).tolist() == [1, 1, 3]
    assert form.canonical(2, 0) != form.canonical(2, 1)


def test_names_as_users_give_them() -> None:
    for one in ("ann", 7, np.int32(7)):
        assert as_names(one) == [as_name(one, "src")] == [one]
    assert as_names(np.array([[1, 2], [3, 4]])) == [1, 2, 3, 4]
    assert as_names(pa.array(["a", "b"])) == ["a", "b"]
    assert as_names(name for name in ("a", 2)) == ["a", 2]
    for wrong in (True, 1.5, None, b"a", ["a", None]):
        with pytest.raises(cawn.QueryError, match="is not a node name"):
            as_names(wrong)
    with pytest.raises(cawn.QueryError, match="names cannot be listed"):
        as_names(1 // zero for zero in [0])
    for wrong in (["a"], ["a", "b"], []):
        with pytest.raises(cawn.QueryError, match=r"src is .*: give one name"):
            as_name(wrong, "src")


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


def named(*labels: object) -> dict[str, np.ndarray]:
    index = NameIndex.of(np.array(labels, object if isinstance(labels[0], str) else np.int64))
    return index.arrays | {SLOTS: index.slots}


@pytest.mark.parametrize(
    ("good", "changed", "problem"),
    [
        (LINKS, {"src": np.array([0, 3], np.int32)}, "src has a value outside 0 to 2"),
        (LINKS, {"src": np.array([0, 1])}, r"src is int64 of shape \(2,\)"),
        (LINKS, {"dst": np.array([1], np.int32)}, "dst has 1 rows"),
        (LINKS, {"t": np.array([6, 5])}, "t is not sorted"),
        (LINKS, {"t": np.array([5.0, np.nan])}, "t is not finite"),
        (LINKS, {"t": np.array([5, 6], np.int32)}, "t is int32"),
        (LINKS, {"negative": np.array([-2, 0], np.int32)}, "negative has a value outside -1 to 2"),
        (LINKS, {"weight": np.array([-1, 1], np.float32)}, "weight is negative or not finite"),
        (LINKS, {"x": np.full((3, 2), np.inf, np.float32)}, "x is not finite"),
        (LINKS, {"msg": np.ones((2, 2), np.float32)[:, :1]}, "msg is float32 of shape"),
        (named(5, 3), {"names": np.array([5, 5])}, "two nodes have it"),
        (named(5, 3), {"names": np.array([5, 3], np.int32)}, "names is int32"),
        (named(5, 3), {SLOTS: np.zeros(4, np.uint64)}, "name_slots have 0 names"),
        (named(5, 3), {SLOTS: np.full(4, 1, np.uint64)}, "name_slots have 4 names"),
        (named(5, 3), {SLOTS: np.array([1, 9, 0, 0], np.uint64)}, "name_slots has a value outside 1 to 2"),
        (named(5, 3), {SLOTS: np.array([1, 2, 0, 0], np.uint64)}, "a name is not found at its node"),
        (named(5, 3), {SLOTS: np.zeros(2, np.uint64)}, "name_slots are uint64 of shape"),
        (named("a", "b"), {"name_bytes": np.array([97, 97], np.uint8)}, "two nodes have it"),
        (named("a", "b"), {"name_ends": np.array([0, 3, 2])}, "name_ends do not divide 2 into 2 lists"),
        (named("a", "b"), {"name_bytes": np.array([97, 255], np.uint8)}, "name_bytes are not UTF-8"),
        (named("ä", "b"), {"name_ends": np.array([0, 1, 3])}, "name_ends split a character"),
    ],
)
def test_damaged_arrays(good: dict, changed: dict, problem: str) -> None:
    check = partial(check_links, num_nodes=3) if good is LINKS else check_names
    check(good)
    with pytest.raises(cawn.DataError, match=problem):
        check(good | changed)
    with pytest.raises(cawn.DataError, match="is missing"):
        check({})


SPELLINGS = [7, "7", "7.0", " 7", "07", "+7", "7.5", "1e3", "x", "x ", 2**63, str(2**63), "-0", ""]


def test_what_a_name_means_is_fixed_by_the_training() -> None:
    """White space and 7.0 mean the same before and after any other name arrives."""
    integers, text, spaced = (
        NameForm.of(NameIndex.of(names), None)
        for names in (np.arange(9), np.array(["a", "7"], object), np.array(["a ", "7"], object))
    )
    rest = ["07", "+7", "7.5", "1e3", "x", "x", 2**63, str(2**63), "-0", ""]
    assert [integers.canonical(name) for name in SPELLINGS] == [7, 7, 7, 7, *rest]
    assert [text.canonical(name) for name in SPELLINGS] == ["7", "7", "7.0", "7", *map(str, rest)]
    assert [spaced.canonical(name) for name in SPELLINGS] == list(map(str, SPELLINGS))
    for form in (integers, text, spaced):
        for name in SPELLINGS:
            assert form.canonical(form.canonical(name)) == form.canonical(name)
            assert form.all([name, "other", 5], 0)[0] == form.all([name], 0)[0]


# Arrays and files.


def test_files_of_numpy_written_and_read_in_blocks(tmp_path: Path) -> None:
    array, path = np.arange(24_000, dtype=np.int32).reshape(8_000, 3), tmp_path / "blocks.npy"
    with ArrayFile(path, array.shape, array.dtype) as file:
        file.write(array[4_000:], 12_000)
        file.write(array[:4_000])
        np.testing.assert_array_equal(file.read(3, 2), array[3:5])
        with pytest.raises(cawn.StorageError, match=r"blocks\.npy: ended early"):
            file.read(7_999, 2)
    mapped, content = map_array(path), path.read_bytes()
    for _ in range(2):  # a mapped array can be read twice
        found = [(first, part.copy()) for first, (part, none) in blocks(3_000, mapped, None) if none is None]
        assert [first for first, _ in found] == [0, 3_000, 6_000]
        np.testing.assert_array_equal(np.concatenate([part for _, part in found]), array)
    for size in (len(content) - 4, len(content) + 4, 20):
        (tmp_path / "damaged.npy").write_bytes(content[:size].ljust(size))
        with pytest.raises(cawn.StorageError, match=r"damaged\.npy: missing or damaged"):
            map_array(tmp_path / "damaged.npy")


def test_views_of_a_growing_array_never_change() -> None:
    array, expected, views = GrowingArray(np.arange(3)), [0, 1, 2], []
    rng = np.random.default_rng(0)
    for step in range(300):
        kept = len(expected) if rng.random() < 0.7 else int(rng.integers(0, len(expected) + 1))
        rows = np.full(rng.integers(0, 30), step)
        array.append(rows, kept)
        expected = [*expected[:kept], *rows.tolist()]
        views.append((array.view(), expected))
    assert array.rows == len(expected)
    for view, rows in views:
        assert view.tolist() == rows
        assert not view.flags.writeable


def test_hashes_are_the_same_in_every_version() -> None:
    """They are stored in run folders."""
    assert hash_ids(["a", 7]).tolist() == [3405396810240292928, 9407870976149377255]
    assert hash_ids([7]) == hash_ids(["7"]) != hash_ids(["007"])
    assert hash_ids([]).dtype == np.uint64
    whole = np.arange(4)
    assert digest(whole) == "4a871df19664"
    others = (whole + 1, whole.astype(np.int32), whole.reshape(2, 2), whole[:2])
    assert len({digest(array) for array in (whole, *others)}) == 5
    assert digest(whole, whole) != digest(whole)


def test_sealed_files_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_sealed(path, {"b": [1, 2.5], "a": None, "checksum": "of an earlier content"})
    assert read_sealed(path, "") == {"b": [1, 2.5], "a": None}
    assert set(read_json(path, "")) == {"a", "b", "checksum"}
    with pytest.raises(FileNotFoundError):
        read_sealed(tmp_path / "none", "")
    changed = json.dumps(json.loads(path.read_text()) | {"a": 2})
    for content in (changed, '{"a": 2, "checksum": "x"}', '{"a": 1}', "[1]", "{", ""):
        path.write_text(content)
        with pytest.raises(cawn.StorageError, match=r"file\.json: .*damaged.*; start again"):
            read_sealed(path, "start again")
