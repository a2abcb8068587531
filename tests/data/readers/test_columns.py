"""Which column is which: found by name, given, or refused."""

from pathlib import Path

import pytest

import cawn
from link_files import SORTED, named_links, written


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
    with pytest.raises(cawn.DataError, match=message):
        cawn.read(path, **options)
