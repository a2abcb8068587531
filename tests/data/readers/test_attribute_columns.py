"""Attributes of links and nodes as they are read: numbers, categories, tables of nodes."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cawn
from cawn.data.attributes import Attribute

LINKS = "src,dst,t,amount,currency,code\nann,bob,1,2.5,eur,7\nbob,cid,2,4,usd,07\nann,cid,3,1,,7\n"
NODES = "name,age,city\nbob,40,rome\nann,20,oslo\nzoe,99,paris\n"


@pytest.fixture
def links(tmp_path: Path) -> Path:
    path = tmp_path / "links.csv"
    path.write_text(LINKS)
    return path


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    path = tmp_path / "nodes.csv"
    path.write_text(NODES)
    return path


def test_text_is_a_category(links: Path) -> None:
    events = cawn.read(links, msg=["amount", "currency"])
    assert events.columns == (Attribute("amount"), Attribute("currency", "category", ("eur", "usd", "")))
    assert events.msg.tolist() == [[2.5, 0], [4, 1], [1, 2]]
    assert events.reading.msg == ("amount", "currency")
    assert events.reading.categorical == ("currency",)
    assert events[1:].columns == events.columns


def test_numbers_may_be_categories(links: Path) -> None:
    events = cawn.read(links, msg="amount", categorical="code")
    assert events.columns[1] == Attribute("code", "category", ("7", "07"))
    assert events.msg[:, 1].tolist() == [0, 1, 0]
    assert cawn.read(links, msg=["amount", "code"]).columns[1].kind == "number"


def test_categories_of_binary_files(tmp_path: Path) -> None:
    table = pa.table({"src": [1, 2], "dst": [2, 3], "t": [1, 2], "kind": [5, None], "flag": [True, False]})
    table = table.append_column("word", pa.array(["a", "b"]).dictionary_encode())
    pq.write_table(table, tmp_path / "a.parquet")
    events = cawn.read(tmp_path / "a.parquet", msg=["word", "flag"], categorical=["kind"])
    assert [column.levels for column in events.columns] == [("a", "b"), (), ("5", "")]
    assert events.msg.tolist() == [[0, 1, 0], [1, 0, 1]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"categorical": "colour"}, "categorical='colour', but there is no such column"),
        ({"msg": "colour"}, "msg='colour', but there is no such column"),
        ({"categorical": 1.5}, "categorical=1.5: name a column or a list of columns"),
        ({"node": "name"}, "node='name': is a column of nodes, but nodes is not given"),
        ({"nodes": 5}, "nodes is a int: give a path or a table"),
        ({"nodes": "nowhere.csv"}, "nowhere.csv: no such file"),
    ],
)
def test_refused(links: Path, columns, message: str) -> None:
    with pytest.raises(cawn.DataError, match=message):
        cawn.read(links, **columns)


def test_a_number_column_with_one_word_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("src,dst,t,w\n1,2,3,1\n1,2,3,x\n")
    with pytest.raises(cawn.DataError, match=r"line 3, column 'w': found 'x'; .* named in categorical"):
        cawn.read(path, msg="w")
    assert cawn.read(path, categorical="w").columns[0].levels == ("1", "x")


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
    with pytest.raises(cawn.DataError, match=r"line 3: '1' could be 'user:1' or 'item:1'; write the prefix"):
        cawn.read(tmp_path / "a.csv", nodes=tmp_path / "n.csv")


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
    with pytest.raises(cawn.DataError, match=message):
        cawn.read(links, nodes=tmp_path / "n.csv", **options)
