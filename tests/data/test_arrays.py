"""What the room stores things in: arrays and columns in memory and in files, hashes, sealed files."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cawn
from cawn.data.array_folders import map_array
from cawn.data.columns import ArrayFile, GrowingArray, Store, blocks
from cawn.data.hashing import digest, hash_ids, read_json, read_sealed, write_sealed
from cawn.data.readers.sorting import sort_by_time


def test_files_of_numpy_written_and_read_in_blocks(tmp_path: Path) -> None:
    array = np.arange(24_000, dtype=np.int32).reshape(8_000, 3)
    np.save(tmp_path / "whole.npy", array)
    with ArrayFile(tmp_path / "blocks.npy", array.shape, array.dtype) as file:
        file.write(array[4_000:], 12_000)
        file.write(array[:4_000])
        np.testing.assert_array_equal(file.read(3, 2), array[3:5])
        with pytest.raises(cawn.StorageError, match=r"blocks\.npy: ended early"):
            file.read(7_999, 2)
    assert (tmp_path / "blocks.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    content = (tmp_path / "whole.npy").read_bytes()
    for size in (len(content) - 4, len(content) + 4, 20):
        (tmp_path / "damaged.npy").write_bytes(content[:size].ljust(size))
        with pytest.raises(cawn.StorageError, match=r"damaged\.npy: missing or damaged"):
            map_array(tmp_path / "damaged.npy")
    mapped = map_array(tmp_path / "whole.npy")
    for _ in range(2):  # a mapped array can be read twice
        found = [(first, part.copy()) for first, (part, none) in blocks(3_000, mapped, None) if none is None]
        assert [first for first, _ in found] == [0, 3_000, 6_000]
        np.testing.assert_array_equal(np.concatenate([part for _, part in found]), array)


@settings(max_examples=40)
@given(
    times=st.lists(st.integers(0, 6) | st.integers(-(2**62), 2**62), min_size=1, max_size=60),
    memory=st.sampled_from([40, 200, 1_000, 100_000]),
    in_files=st.booleans(),
)
@example(times=[5] * 30, memory=40, in_files=True)
def test_sorting_in_pieces(tmp_path_factory: pytest.TempPathFactory, times: list[int], memory: int, in_files) -> None:
    folder = tmp_path_factory.mktemp("sorting")
    store = Store(folder if in_files else None)
    columns = {"t": store.create("t", np.int64), "msg": store.create("msg", np.float32, 2)}
    t, msg = np.array(times), np.arange(2 * len(times), dtype=np.float32).reshape(-1, 2)
    for first in range(0, len(t), 25):
        columns["t"].append(t[first : first + 25])
        columns["msg"].append(-msg[first : first + 25])
    columns["msg"].replace(10, msg[10:])
    columns["msg"].replace(0, msg[:10])
    done: list[int] = []
    found = sort_by_time(columns, store, memory, lambda name, x: x + 1 if name == "msg" else x, done.append)
    order = np.argsort(t, kind="stable")
    for name, expected in (("t", t[order]), ("rows", order), ("msg", msg[order] + 1)):
        assert np.array_equal(found[name].read(0, len(t)), expected)
    assert done[-1] == len(times)
    assert len(list(folder.iterdir())) == (3 if in_files else 0)


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
