"""Optional columns of links: weights, own negatives, ids."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cawn
from cawn.data.hashing import hash_ids
from cawn.data.names import NameIndex, Spelling
from cawn.data.updates import merge_batches
from cawn.learn.runs import read_events


def example() -> cawn.Events:
    return cawn.Events(
        [0, 1, 2], [1, 2, 0], [3, 1, 2], weight=[0.5, 0.0, 2.0], negative=[2, -1, 5], link_id=["c", "a", "b"]
    )


def test_columns_follow_order_and_choice() -> None:
    events = example()
    assert events.num_nodes == 6  # a negative that occurs nowhere else is a node
    assert events.weight.tolist() == [0.0, 2.0, 0.5]
    assert events.weight.dtype == np.float32
    assert events.negative.tolist() == [-1, 5, 2]
    assert events.negative.dtype == np.int32
    assert events.link_id.tolist() == hash_ids("abc").tolist()
    part = events[1:]
    assert part.weight.tolist() == [2.0, 0.5]
    assert part.negative.tolist() == [5, 2]
    assert part.link_id.tolist() == hash_ids("bc").tolist()
    with pytest.raises(ValueError, match="read-only"):
        part.weight[0] = 1


def test_ids_are_compared_by_their_text() -> None:
    assert hash_ids([7]).tolist() == hash_ids(["7"]).tolist() == [9407870976149377255]
    assert hash_ids(["7"]) != hash_ids(["007"])
    events = cawn.Events([0], [1], [1], link_id=hash_ids(["x"]))
    assert events.link_id.tolist() == hash_ids(["x"]).tolist()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"weight": [1, -1]}, r"weight\[1\] is -1.0: link weights are numbers from 0"),
        ({"weight": [1, np.inf]}, r"weight\[1, 0\] is inf"),
        ({"weight": [0, 0]}, "weight: all weights are 0"),
        ({"weight": [1]}, "expected one row for each of the 2 links"),
        ({"weight": [[1, 2], [3, 4]]}, "weight has 2 columns"),
        ({"negative": [0, -2]}, r"negative\[1\] is -2: negatives are node ids, or -1 for none"),
        ({"negative": [0.5, 1]}, "negative is float64"),
        ({"negative": [1]}, "a node id for each of the 2 links"),
        ({"link_id": ["a"]}, r"link_id has shape \(1,\)"),
        ({"link_id": ["a", None]}, "link_id holds None"),
    ],
)
def test_refused(columns, message: str) -> None:
    with pytest.raises(cawn.DataError, match=message):
        cawn.Events([0, 1], [1, 0], [1, 2], **columns)


def test_stored_with_a_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    src, dst, negative = rng.integers(0, 12, (3, 80))
    columns = {"weight": rng.random(80), "negative": negative, "link_id": [f"id {i}" for i in range(80)]}
    events = cawn.Events(src, dst, np.arange(80), **columns)
    config = cawn.Config(alpha="ladder", num_walks=4, length=1, dim=4, frequencies=2, epochs=1)
    cawn.train(events, config, out=tmp_path / "run", quiet=True, kinds=("random",))
    held = read_events(tmp_path / "run")
    for name in columns:
        np.testing.assert_array_equal(getattr(held, name), getattr(events, name))
        assert getattr(held, name).dtype == getattr(events, name).dtype


def test_updates_carry_ids() -> None:
    events = example()
    names = NameIndex.of(events.labels)
    both, _ = merge_batches(events, names, [cawn.Events([0], [1], [9], link_id=["d"])], Spelling(None))
    assert both.link_id.tolist() == hash_ids("abcd").tolist()
    without, _ = merge_batches(events, names, [cawn.Events([0], [1], [9])], Spelling(None))
    assert without.link_id.tolist() == [*hash_ids("abc").tolist(), 0]


TEXT = "src,dst,t,w,no,id\nann,bob,2,1.5,eve,x1\nbob,ann,1,0,,x2\nann,cid,3,2,bob,007\n"


def as_parquet(tmp_path: Path) -> Path:
    columns = [line.split(",") for line in TEXT.splitlines()]
    names, rows = columns[0], columns[1:]
    table = pa.table({name: [row[i] or None for row in rows] for i, name in enumerate(names)})
    pq.write_table(table.set_column(3, "w", pa.array([1.5, 0, 2], pa.float32())), tmp_path / "a.parquet")
    return tmp_path / "a.parquet"


@pytest.mark.parametrize("kind", ["text", "parquet", "table"])
def test_read(tmp_path: Path, kind: str) -> None:
    source = as_parquet(tmp_path)
    if kind == "text":
        (source := tmp_path / "a.csv").write_text(TEXT)
    events = cawn.read(
        pq.read_table(source) if kind == "table" else source, weight="w", negative="no", link_id="id", bipartite=False
    )
    assert events.weight.tolist() == [0, 1.5, 2]
    assert [None if i < 0 else events.labels[i] for i in events.negative] == [None, "eve", "bob"]
    assert set(events.labels) == {"ann", "bob", "cid", "eve"}
    assert events.link_id.tolist() == hash_ids(["x2", "x1", "007"]).tolist()


def test_integer_names_stay_integers(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("user,item,t,no\n3,1,2,9\n3,2,1,\n")
    events = cawn.read(path, negative="no", bipartite=False)
    assert events.labels.tolist() == [1, 2, 3, 9]
    assert events.negative.tolist() == [-1, 3]
    two_sided = cawn.read(path, negative="no")
    assert two_sided.labels[two_sided.negative[1]] == "item:9"
    path.write_text("src,dst,t,no\n3,1,2,nine\n")
    assert cawn.read(path, negative="no").labels.tolist() == ["3", "1", "nine"]
    path.write_text("src,dst,t,no\n3,1,2,\n4,1,2,\n")
    assert cawn.read(path, negative="no").negative.tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"weight": "cost"}, "weight='cost', but there is no such column among 'src', 'dst', 't', 'w', 'no', 'id'"),
        ({"weight": "no"}, "line 2, column 'no': found 'eve'; link weights are finite numbers from 0"),
        ({"negative": "dst"}, "negatives need their own column"),
        ({"link_id": "no"}, "line 3, column 'no': found nothing; every link needs an id"),
        ({"negative": ["no"]}, r"negative=\['no'\]: name a column"),
        ({"link_id": 9}, "link_id=9, but there are 6 columns"),
    ],
)
def test_columns_refused_by_read(tmp_path: Path, columns, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(TEXT)
    with pytest.raises(cawn.DataError, match=message):
        cawn.read(path, **columns)


def test_weights_refused_by_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("src,dst,t,w\n1,2,3,1\n1,2,3,-1\n")
    with pytest.raises(cawn.DataError, match=r"line 3, column 'w': found -1.0; link weights"):
        cawn.read(path, weight="w")
    path.write_text("src,dst,t,w\n1,2,3,0\n")
    with pytest.raises(cawn.DataError, match="column 'w': all weights are 0"):
        cawn.read(path, weight="w")
