"""Which column is which: found by name, given, or refused."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cawn
from cawn.data.hashing import hash_ids
from link_files import SORTED, assert_unreadable, named_links, written


def test_columns_can_be_given(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "a,b,when,src,dst\n10,20,3,x,y\n20,30,1,x,y\n10,30,2,x,y\n30,30,2,x,y\n")
    assert named_links(cawn.read(path, src="a", dst="b", time="when")) == SORTED
    assert named_links(cawn.read(path, src=0, dst=1, time=2)) == SORTED
    assert cawn.read(path, time="when").labels.tolist() == ["x", "y"]
    bare = written(tmp_path / "b.csv", "3,10,20\n1,20,30\n2,10,30\n2,30,30\n")
    assert named_links(cawn.read(bare, src=1, dst=2, time=0)) == SORTED
    shared = written(tmp_path / "c.csv", "src,dst,t\n1,2,3\n4,5,6\n")
    assert cawn.read(shared, msg=["t", "src"]).msg.tolist() == [[3, 1], [6, 4]]
    assert len(cawn.read(shared, src="dst", dst="src", header=True, delimiter=",")) == 2


def test_users_and_items_are_different_nodes(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "user_id,item_id,time\n0,0,1\n1,0,2\n")
    events = cawn.read(path)
    assert events.labels.tolist() == ["user:0", "user:1", "item:0"]
    assert cawn.read(path, bipartite=False).labels.tolist() == [0, 1]
    path = written(tmp_path / "b.csv", "src,dst,t\n0,0,1\n1,0,2\n")
    assert cawn.read(path, bipartite=True).labels.tolist() == ["src:0", "src:1", "dst:0"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"src": "a", "dst": "dst"}, r"src='a', but there is no such column among 'src', 'dst', 't', 'w'"),
        ({"time": 9}, r"time=9, but there are 4 columns"),
        ({"time": "src"}, r"three different columns"),
        ({"src": 1.5}, r"src=1.5: name a column, or give its position"),
        ({"msg": ["w"]}, r"line 3, column 'w': found 'x'; link attributes are finite numbers"),
        ({"msg": ["v"]}, r"msg='v', but there is no such column"),
        ({"delimiter": "ab"}, r"delimiter='ab'"),
        ({"header": False}, r"line 1, column 'column 2': found 't'"),
        ({"header": False, "src": "src"}, r"src='src', but the file has no header"),
    ],
)
def test_columns_that_are_refused(tmp_path: Path, options: dict, message: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("src,dst,t,w\n1,2,3,1\n1,2,3,x\n")
    assert_unreadable(path, message, **options)


TEXT = "src,dst,t,w,no,id\nann,bob,2,1.5,eve,x1\nbob,ann,1,0,,x2\nann,cid,3,2,bob,007\n"


def as_parquet(tmp_path: Path) -> Path:
    columns = [line.split(",") for line in TEXT.splitlines()]
    names, rows = columns[0], columns[1:]
    table = pa.table({name: [row[i] or None for row in rows] for i, name in enumerate(names)})
    pq.write_table(table.set_column(3, "w", pa.array([1.5, 0, 2], pa.float32())), tmp_path / "a.parquet")
    return tmp_path / "a.parquet"


@pytest.mark.parametrize("kind", ["text", "parquet", "table"])
def test_columns_of_links_are_read(tmp_path: Path, kind: str) -> None:
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
def test_columns_of_links_that_are_refused(tmp_path: Path, columns, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(TEXT)
    assert_unreadable(path, message, **columns)


def test_weights_refused_by_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("src,dst,t,w\n1,2,3,1\n1,2,3,-1\n")
    assert_unreadable(path, r"line 3, column 'w': found -1.0; link weights", weight="w")
    path.write_text("src,dst,t,w\n1,2,3,0\n")
    assert_unreadable(path, "column 'w': all weights are 0", weight="w")
