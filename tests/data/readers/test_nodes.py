"""Tables of node attributes."""

from pathlib import Path

import pyarrow as pa
import pytest

import cawn
from link_files import assert_unreadable


@pytest.mark.parametrize("kind", ["path", "table"])
def test_a_table_of_nodes(links: Path, nodes: Path, kind: str) -> None:
    table = pa.table({"name": ["bob", "ann", "zoe"], "age": [40, 20, 99], "city": ["rome", "oslo", "paris"]})
    events = cawn.read(links, nodes=nodes if kind == "path" else table)
    by_name = dict(zip(events.labels.tolist(), events.x.tolist(), strict=True))
    assert by_name == {"ann": [20, 1, 1], "bob": [40, 0, 1], "cid": [0, 0, 0]}
    assert [column.kind for column in events.node_columns] == ["number", "category", "presence"]
    assert events.node_columns[1].levels == ("rome", "oslo", "paris")


def test_columns_of_nodes_may_be_categories(links: Path, nodes: Path) -> None:
    events = cawn.read(links, nodes=nodes, categorical=["age", "code"])
    assert events.node_columns[0].kind == "category"
    assert [column.name for column in events.columns] == ["code"]


def test_nodes_of_two_sides(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,item,t\n1,1,1\n2,3,2\n")
    (tmp_path / "n.csv").write_text("id,size\n2,5\n3,6\nuser:1,7\n")
    events = cawn.read(tmp_path / "a.csv", nodes=tmp_path / "n.csv")
    assert dict(zip(events.labels.tolist(), events.x[:, 0].tolist(), strict=True)) == {
        "user:1": 7,
        "user:2": 5,
        "item:1": 0,
        "item:3": 6,
    }
    (tmp_path / "n.csv").write_text("id,size\n2,5\n1,6\n")
    assert_unreadable(
        tmp_path / "a.csv", r"line 3: '1' could be 'user:1' or 'item:1'; write the prefix", nodes=tmp_path / "n.csv"
    )


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("who,age\nann,1\n", {}, r"no column of node names among 'who', 'age'; say which \(node\)"),
        ("name,age\nann,1\nann,2\n", {}, "line 3: 'ann' occurs twice; keep one"),
        ("name,age\nxxx,1\n", {}, "none of its 1 names, such as 'xxx', occurs in the links"),
        ("name,age\nann,\n", {}, "line 2, column 'age': found nothing; node attributes are finite numbers"),
        ("name,age\nann,1\n,2\n", {}, "line 3, column 'name': found nothing; every row needs the name of a node"),
        ("name,age\nann,1\n", {"node": "who"}, "node='who', but there is no such column among 'name', 'age'"),
    ],
)
def test_tables_of_nodes_that_are_refused(links: Path, tmp_path: Path, text: str, options, message: str) -> None:
    (tmp_path / "n.csv").write_text(text)
    assert_unreadable(links, message, nodes=tmp_path / "n.csv", **options)
