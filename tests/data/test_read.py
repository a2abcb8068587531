"""`cawn.read`: the same few links, written in every way people write them, and what their columns become."""

import bz2
import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cawn
from cawn.data.attributes import Attribute
from cawn.data.datasets import CATALOG
from cawn.data.hashing import hash_ids
from cawn.data.readers.nodes import PRESENCE as PRESENT
from cawn.data.reading import Reading
from link_files import ROWS, SORTED, assert_same, named_links, of_words, written


def lines(delimiter: str, header: str = "") -> str:
    return header + "".join(delimiter.join(map(str, row)) + "\n" for row in ROWS)


def read_text(tmp_path: Path, text: str, **options: object) -> cawn.Events:
    return cawn.read(written(tmp_path / "a.csv", text), **options)


@pytest.mark.parametrize(
    "text",
    [
        lines(",", "src,dst,t\n"),
        lines(",", "u,i,ts\n"),
        lines(",", "Source,Target,Timestamp\n"),
        lines("\t", "from\tto\ttime\n"),
        lines(";", "sender;receiver;date\n"),
        lines("|", "caller|callee|unix_time\n"),
        lines(","),
        lines(" "),
        lines(" \t "),
        lines(" ", "# a SNAP file\n# src dst unixtime\n"),
        lines(" ", "% a comment\n\n"),
        lines(",", "\ufeffsrc,dst,t\n"),
        lines(",", "src,dst,t\n").replace("\n", "\r\n"),
        lines(",", "src,dst,t\n").replace("\n", "\r"),
        lines(",", "src,dst,t\n").rstrip("\n"),
        lines(",", '"src","dst","t"\n'),
        lines(",", "src,dst,t\n").replace("\n20,", "\n\n20,"),
        lines(", ", "src, dst, t\n"),
        lines(",", "src,dst,note,t\n").replace(",3\n", ",,3\n").replace(",1\n", ",,1\n").replace(",2\n", ",,2\n"),
        "# a\x0c# b\n" + lines(","),
        " 10 20 3\n 20 30 1\n 10 30 2 \n30  30 2\n",
        "t,weight,src,dst\n3,0.5,10,20\n1,0.5,20,30\n2,0.5,10,30\n2,0.5,30,30\n",
        "\ufeff" + "".join(f'{{"dst": {v}, "t": {t}, "src": {u}}}\n' for u, v, t in ROWS),
    ],
)
@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress])
def test_text_whatever_it_is_called(tmp_path: Path, text: str, compress) -> None:
    path = tmp_path / "edges.anything"
    path.write_bytes(compress(text.encode()))
    events = cawn.read(path)
    assert named_links(events) == SORTED
    assert events.t.dtype == np.int64
    assert events.labels.tolist() == [10, 20, 30]
    assert events.rows.tolist() == [1, 2, 3, 0]


SRC, DST, T = zip(*ROWS, strict=True)


def test_tables_of_other_libraries() -> None:
    pandas, polars, duckdb = (pytest.importorskip(name) for name in ("pandas", "polars", "duckdb"))
    frame = pandas.DataFrame(ROWS, columns=["src", "dst", "t"])
    relation = duckdb.sql("select 10 as src, 20 as dst, 3 as t union all select 20, 30, 1")
    assert named_links(cawn.read(frame)) == SORTED
    assert named_links(cawn.read(polars.DataFrame(ROWS, schema=["src", "dst", "t"], orient="row"))) == SORTED
    assert named_links(cawn.read(relation)) == [(20, 30, 1), (10, 20, 3)]
    frame["t"] = pandas.to_datetime(frame["t"], unit="s")
    assert cawn.read(frame).t.tolist() == [1, 2, 2, 3]
    frame["src"] = frame["src"].astype(str).astype("category")
    assert cawn.read(frame).labels.tolist() == ["10", "20", "30"]
    names = polars.Series(["a", "b"], dtype=polars.Categorical)
    frame = polars.DataFrame({"src": names, "dst": ["a", "c"], "t": ["2020-01-01", "2020-01-02"], "w": ["1", "2"]})
    events = cawn.read(frame, msg="w")
    assert events.labels.tolist() == ["a", "b", "c"]
    assert events.t.tolist() == [1577836800, 1577923200]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # on the import of PyTorch Geometric
def test_temporal_data() -> None:
    torch = pytest.importorskip("torch")
    from torch_geometric.data import TemporalData

    src, dst, t = map(torch.tensor, (SRC, DST, T))
    events = cawn.read(TemporalData(src=src, dst=dst, t=t, msg=torch.arange(8.0).reshape(4, 2)))
    assert list(zip(events.src.tolist(), events.dst.tolist(), events.t.tolist(), strict=True)) == SORTED
    assert events.msg.tolist() == [[2, 3], [4, 5], [6, 7], [0, 1]]
    assert cawn.read(TemporalData(src=src, dst=dst, t=t, msg=torch.empty(4, 0))).msg is None
    assert cawn.read(events) is events
    nodes = pa.table({"node": [10, 30], "size": [5, 6]})
    assert cawn.read(events, nodes=nodes).x[[0, 10, 30]].tolist() == [[0, 0], [5, 1], [6, 1]]


@pytest.mark.parametrize("name", ["uci", "wikipedia", "enron", "mooc", "bitcoin-otc"])
def test_real_networks(network, name: str) -> None:
    events = network(name)
    assert (len(events), events.num_nodes) == (CATALOG[name].links, CATALOG[name].nodes)
    assert (events.src == events.dst).sum() == (16_410 if name == "enron" else 0)
    assert (np.diff(events.t) >= 0).all()
    assert events.t.dtype == (np.float64 if name == "bitcoin-otc" else np.int64)


JODIE = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"


def test_jodie(tmp_path: Path, data_folder: Path, network) -> None:
    zeros = read_text(tmp_path, JODIE + "0,0,0.0,0,0\n")  # a column of zeros stands for no features
    assert (zeros.msg, zeros.reading.msg) == (None, ())
    sample, wikipedia = cawn.read(data_folder / "jodie_format_sample.csv"), network("wikipedia")
    assert (len(sample), sample.msg) == (200, None)
    np.testing.assert_array_equal(sample.t, wikipedia.t[:200])


def test_the_authors_triple(tmp_path: Path) -> None:
    path = written(tmp_path / "ml_x.csv", ",u,i,ts,label,idx\n0,1,3,5.0,0.0,1.0\n1,2,3,4.0,0.0,2.0\n")
    np.save(tmp_path / "ml_x.npy", np.array([[0, 0], [1, 2], [3, 4]]))
    np.save(tmp_path / "ml_x_node.npy", np.array([[0.0], [10], [20], [30]]))
    for options in ({}, {"memory": "64GiB"}):
        events = cawn.read(path, **options)
        assert events.labels.tolist() == [1, 2, 3]
        assert events.t.tolist() == [4.0, 5.0]
        assert events.msg.tolist() == [[3, 4], [1, 2]]
        assert events.x.tolist() == [[10], [20], [30]]
    assert cawn.read(path, msg="label").msg.tolist() == [[0], [0]]
    both = cawn.read([path, path])
    assert (both.msg.tolist(), both.x) == ([[3, 4], [3, 4], [1, 2], [1, 2]], None)
    np.save(tmp_path / "ml_x.npy", np.zeros((3, 4)))
    assert cawn.read(path).msg is None
    np.save(tmp_path / "ml_x.npy", np.ones((2, 4)))
    with pytest.raises(cawn.DataError, match=r"ml_x.npy: has shape \(2, 4\), but the links refer to idx 2"):
        cawn.read(path)
    (tmp_path / "ml_x.npy").unlink()
    assert cawn.read(path).msg is None


FACTS: dict[str, Callable[[cawn.Events], object]] = {
    "links": named_links,
    "labels": lambda events: events.labels.tolist(),
    "t": lambda events: events.t.tolist(),
    "msg": lambda events: events.msg.tolist(),
    "columns": lambda events: events.columns,
    "negative": lambda events: [None if i < 0 else events.labels.tolist()[i] for i in events.negative],
    "weight": lambda events: events.weight.tolist(),
    "link_id": lambda events: events.link_id.tolist(),
    "x": lambda events: events.x.tolist(),
    "node_columns": lambda events: events.node_columns,
    "reading": lambda events: events.reading,
}


def of_times(*times: str) -> str:
    return "src,dst,t\n" + "".join(f"1,2,{t}\n" for t in times)


def of_category(*levels: str) -> dict[str, object]:
    return {"columns": (Attribute("w", "category", levels),), "msg": [[float(i)] for i in range(len(levels))]}


NAMED, PLAIN = "a,b,when,src,dst\n10,20,3,x,y\n20,30,1,x,y\n10,30,2,x,y\n30,30,2,x,y\n", "src,dst,t\n1,2,3\n4,5,6\n"
TWO_SIDED = "user,item,t,no\n3,1,2,9\n3,2,1,\n"
LINKS = "src,dst,t,amount,currency,code\nann,bob,1,2.5,eur,7\nbob,cid,2,4,usd,07\nann,cid,3,1,,7\n"
AMOUNT, CURRENCY = Attribute("amount"), Attribute("currency", "category", ("eur", "usd", ""))
DATES = Reading("src", "dst", "t", bipartite=False, dates=True)
CODE, CODED = Attribute("code", "category", ("7", "07")), [[2.5, 0.0], [4.0, 1.0], [1.0, 0.0]]
BOTH = Reading("src", "dst", "t", msg=("amount", "currency"), categorical=("currency",), bipartite=False)
FEATURES = Reading("user_id", "item_id", "timestamp", msg=("feature 0", "feature 1"), bipartite=True)
GIVEN = "src,dst,t,w,no,id\nann,bob,2,1.5,eve,x1\nbob,ann,1,0,,x2\nann,cid,3,2,bob,007\n"
PEOPLE = "name,age,city\nbob,40,rome\nann,20,oslo\nzoe,99,paris\n"
CITY, PRESENCE = Attribute("city", "category", ("rome", "oslo", "paris")), Attribute(PRESENT, "presence")
AGES, W = Attribute("age", "category", ("40", "20", "99")), Attribute("w", "category", ("1.5", "0", "2"))
X = [[20.0, 1.0, 1.0], [40.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
JSON = '\ufeff{"src": "2024-01-01", "dst": "b", "t": "2024-01-02", "w": 0.5}\r\n\r\n'
JSON += '{"t": "2024-01-01", "w": 1, "dst": "a", "src": "b", "note": "{[("}'
DATED = [("b", "a", 1_704_067_200), ("2024-01-01", "b", 1_704_153_600)]


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        # Which columns are used.
        (NAMED, {"src": "a", "dst": "b", "time": "when"}, {"links": SORTED}),
        (NAMED, {"src": 0, "dst": 1, "time": 2}, {"links": SORTED}),
        (NAMED, {"time": "when"}, {"labels": ["x", "y"]}),
        ("3,10,20\n1,20,30\n2,10,30\n2,30,30\n", {"src": 1, "dst": 2, "time": 0}, {"links": SORTED}),
        (PLAIN, {"msg": ["t", "src"]}, {"msg": [[3.0, 1.0], [6.0, 4.0]]}),
        (PLAIN, {"src": 1, "dst": "src", "header": True, "delimiter": ","}, {"links": [(2, 1, 3), (5, 4, 6)]}),
        ("from,to,5\na,b,6\n", {"header": False}, {"links": [("from", "to", 5), ("a", "b", 6)]}),
        ("1,2,3\n4,5,6\n", {"header": True, "src": "1", "dst": "2", "time": "3"}, {"links": [(4, 5, 6)]}),
        ("src,dst,t\na,b,2024-01-01\n", {}, {"reading": DATES}),
        ("user_id,item_id,t\n1,1,5\n", {}, {"reading": Reading("user_id", "item_id", "t", bipartite=True)}),
        ("3 1 2\n6 4 5\n", {"src": 1, "dst": 2, "time": 0}, {"reading": Reading(1, 2, 0, bipartite=False)}),
        (
            "rater,ratee,when,r\na,b,5,1\n",
            {"src": "rater", "dst": 1, "time": "when", "msg": "r"},
            {"reading": Reading("rater", "ratee", "when", msg=("r",), bipartite=False)},
        ),
        (
            "a,a,t,w\n1,2,3,4\n",
            {"src": 0, "dst": 1, "weight": "w"},
            {"reading": Reading(0, 1, "t", weight="w", bipartite=False)},
        ),
        # Names: integers are numbered in their order, strings as they appear, sources first.
        ("src,dst,t\n1.0,2,1\n2.0,1,2\n", {}, {"labels": [1, 2]}),
        ("src,dst,t\n1.0,2,1\n1,a,2\n", {}, {"labels": ["1.0", "1", "2", "a"]}),
        ("src,dst,t\n7.0,8,1\n7,8.0,2\nann,9,3\n", {}, {"labels": ["7.0", "7", "ann", "8", "8.0", "9"]}),
        ("src,dst,t\nb,a,1\na,c,2\n", {}, {"labels": ["b", "a", "c"]}),
        ("src,dst,t\n1000000000000,-4,1\n-4,7,2\n", {}, {"labels": [-4, 7, 10**12]}),
        ("src,dst,t\n007,7,1\n0x10,16,2\n+5,5,3\n", {}, {"labels": ["007", "0x10", "+5", "7", "16", "5"]}),
        ("src\tdst\tt\tw\nAl  Bo\tCy\t7\t\nCy\tAl  Bo\t9\t\n", {}, {"labels": ["Al  Bo", "Cy"]}),
        ("src,dst,t\n2024-01-01,true,1\n1.50,nan,3\n", {}, {"labels": ["2024-01-01", "1.50", "true", "nan"]}),
        ("user_id,item_id,time\n0,0,1\n1,0,2\n", {}, {"labels": ["user:0", "user:1", "item:0"]}),
        ("user,item,t\nb,a,1\na,b,2\n", {}, {"labels": ["user:b", "user:a", "item:a", "item:b"]}),
        ("user,item,t\n0,0,1\n1,0,2\n", {"bipartite": False}, {"labels": [0, 1]}),
        ("src,dst,t\n0,0,1\n1,0,2\n", {"bipartite": True}, {"labels": ["src:0", "src:1", "dst:0"]}),
        (TWO_SIDED, {"negative": "no", "bipartite": False}, {"negative": [None, 9], "labels": [1, 2, 3, 9]}),
        (TWO_SIDED, {"negative": "no"}, {"negative": [None, "item:9"]}),
        ("src,dst,t,no\n3,1,2,nine\n", {"negative": "no"}, {"negative": ["nine"], "labels": ["3", "1", "nine"]}),
        ("src,dst,t,no\n3,1,2,\n4,1,2,\n", {"negative": "no"}, {"negative": [None, None]}),
        # Times.
        (of_times("1.25", "2", "3"), {}, {"t": [1.25, 2.0, 3.0]}),
        (of_times("1.0", "2.0"), {}, {"t": [1.0, 2.0]}),
        (of_times(*["1"] * 20, "2.5"), {}, {"t": [*[1.0] * 20, 2.5]}),
        (of_times("1e3", "2e3", "1082040961.5"), {}, {"t": [1000.0, 2000.0, 1082040961.5]}),
        (of_times("17" + "0" * 16 + "1", "17" + "0" * 16 + "2"), {}, {"t": [17 * 10**17 + 1, 17 * 10**17 + 2]}),
        (of_times("+16" + "0" * 16 + "1", " 16" + "0" * 16 + "2"), {}, {"t": [16 * 10**17 + 1, 16 * 10**17 + 2]}),
        (of_times("1970-01-01", "1970-01-02", "1970-01-03"), {}, {"t": [0, 86400, 172800]}),
        (of_times("19700101", "19700102"), {}, {"t": [0, 86400], "reading": DATES}),
        (of_times("20160123", "20160199"), {}, {"t": [20160123, 20160199]}),
        (of_times('"19700101"', '"19700102"'), {}, {"t": [0, 86400]}),
        (of_times("1970-01-01T00:00:00Z", "1970-01-01T02:00:00+01:00"), {}, {"t": [0, 3600]}),
        (of_times("1970-01-01 00:00:00.5", "1970-01-01 00:00:01"), {}, {"t": [0.5, 1.0]}),
        (of_times(*["2024-01-01"] * 9, "2300-01-01T00:00:00.5"), {}, {"t": [*[1704067200.0] * 9, 10413792000.5]}),
        # Attributes: text is a category, and numbers may be.
        (LINKS, {"msg": ["amount", "currency"]}, {"columns": (AMOUNT, CURRENCY), "reading": BOTH}),
        (LINKS, {"msg": ["amount", "currency"]}, {"msg": [[2.5, 0.0], [4.0, 1.0], [1.0, 2.0]]}),
        (LINKS, {"msg": "code"}, {"columns": (Attribute("code"),), "msg": [[7.0], [7.0], [7.0]]}),
        (LINKS, {"msg": "amount", "categorical": "code"}, {"columns": (AMOUNT, CODE), "msg": CODED}),
        (of_words("1", "2.5", "0"), {"msg": "w"}, {"columns": (Attribute("w"),), "msg": [[1.0], [2.5], [0.0]]}),
        (of_words("true", "false", "1"), {"msg": "w"}, {"columns": (Attribute("w"),), "msg": [[1.0], [0.0], [1.0]]}),
        (of_words("true", "maybe", "false"), {"msg": "w"}, of_category("true", "maybe", "false")),
        (of_words("", "red", "7"), {"msg": "w"}, of_category("", "red", "7")),
        (of_words("2024-01-01", "never"), {"msg": "w"}, of_category("2024-01-01", "never")),
        # Other columns, and tables of nodes.
        (GIVEN, {"weight": "w", "bipartite": False}, {"weight": [0.0, 1.5, 2.0], "labels": ["ann", "bob", "cid"]}),
        (GIVEN, {"negative": "no"}, {"negative": [None, "eve", "bob"], "labels": ["ann", "bob", "cid", "eve"]}),
        (GIVEN, {"link_id": "id"}, {"link_id": hash_ids(["x2", "x1", "007"]).tolist()}),
        (GIVEN, {"nodes": PEOPLE}, {"node_columns": (Attribute("age"), CITY, PRESENCE), "x": X}),
        (
            GIVEN,
            {"nodes": PEOPLE, "categorical": ["age", "w"]},
            {"node_columns": (AGES, CITY, PRESENCE), "columns": (W,)},
        ),
        (TWO_SIDED, {"nodes": "id,size\n3,5\n2,6\nitem:1,7\n"}, {"x": [[5.0, 1.0], [7.0, 1.0], [6.0, 1.0]]}),
        # Rows that end in the middle of a piece.
        (JSON, {"msg": "w"}, {"links": DATED, "msg": [[1.0], [0.5]]}),
        ("src dst t\n1  2\t3\n 4 5 1 \n\n2 2 2\n", {}, {"links": [(4, 5, 1), (2, 2, 2), (1, 2, 3)]}),
        ("# a comment\n# another\n10,20,3\n20,30,1\n\n10,30,2\n30,30,2", {}, {"links": SORTED}),
        ("\ufeffsrc,dst,t\r\na,b,3\r\nb,c,1\r\n", {}, {"links": [("b", "c", 1), ("a", "b", 3)]}),
        ("src,dst,t\rann,bob,3\rbob,ann,1\r", {}, {"links": [("bob", "ann", 1), ("ann", "bob", 3)]}),
        ('src,dst,t\n"a\nb",c,3\nc,"d ""e"", f",1\n"g",h,2\n', {}, {"labels": ["a\nb", "c", "g", 'd "e", f', "h"]}),
        ("src,dst,t\n" + f"{'x' * 300},b,1\n" * 3 + "a,b,0\n", {}, {"labels": ["x" * 300, "a", "b"]}),
        (JODIE + "0,0,0,0,0.5,1\n1,0,36.0,0,0,2.5\n", {}, {"msg": [[0.5, 1.0], [0.0, 2.5]], "reading": FEATURES}),
        (JODIE + "0,0,0,0,1\n1,0,36,0,0\n", {}, {"links": [("user:0", "item:0", 0), ("user:1", "item:0", 36)]}),
    ],
)
def test_what_is_read_from_text(tmp_path: Path, text: str, options: dict, expected: dict) -> None:
    """In one piece and in small ones."""
    if "nodes" in options:
        options = options | {"nodes": written(tmp_path / "nodes.csv", options["nodes"])}
    events = assert_same(written(tmp_path / "a.csv", text), tmp_path / "columns", **options)
    assert isinstance(events, cawn.Events), events
    found = {name: FACTS[name](events) for name in expected}
    assert found == expected
    assert repr(found) == repr(expected)
    assert Reading.from_dict(events.reading.to_dict()) == events.reading


def test_tables_and_arrays() -> None:
    good = {"src": [1, 2], "dst": [2, 3], "t": [1, 2]}
    assert cawn.read(pa.table(good | {"src": [1.0, 2.0]})).labels.tolist() == [1, 2, 3]
    assert cawn.read(pa.table(good | {"src": ["a", "2"]})).labels.tolist() == ["a", "2", "3"]
    column = np.array([5, 6])
    events = cawn.read(pa.table({"src": [b"a", b"b"], "dst": [b"b", b"c"], "t": pa.array(column)}))
    column[0] = 99
    assert named_links(events) == [("a", "b", 5), ("b", "c", 6)]
    dates = pa.array(np.array(["2024-01-01", "2024-01-02"], "datetime64[s]"))
    events = cawn.read(pa.table({"u": [1, 2], "v": [2, 3], "time": dates}))
    assert events.reading == events[:1].reading == Reading("u", "v", "time", bipartite=False, dates=True)
    assert cawn.Events([0], [1], np.array(["2024-01-01"], "datetime64[D]")).reading == Reading(dates=True)
    assert cawn.Events([0], [1], [5]).reading is None
    with pytest.raises(cawn.DataError):
        Reading.from_dict({"unit": "weeks"})


def test_dates_of_several_files_share_a_unit(tmp_path: Path) -> None:
    written(tmp_path / "a.csv", "src,dst,t\n1,né,2024-01-01\n")
    written(tmp_path / "b.csv", "src,dst,t\n1,NA,2024-01-01T00:00:00.0000001\n")
    events = cawn.read(tmp_path / "*.csv")
    assert named_links(events) == [("1", "né", 1_704_067_200 * 10**9), ("1", "NA", 1_704_067_200 * 10**9 + 100)]
    assert events.reading.unit == "ns"
    assert events.ids([1, "nobody", "né", "nobody", "none"]).tolist() == [0, 3, 1, 3, 4]


def test_white_space_at_the_ends_of_names_is_left_out(tmp_path: Path) -> None:
    """ " DE1" is not another node; nor is " 7" among integers."""
    plain, node = [f"DE{i % 7},7,{i},{i % 5}" for i in range(100)], "node,size\n DE1\t,5\nDE2,6\n"
    found = plain.copy()
    found[70], found[90] = " DE0\u00a0,7,70,0 ", "DE6,\u20037,90,0"
    columns = {"src": 0, "dst": 1, "time": 2, "negative": 3, "nodes": written(tmp_path / "nodes.csv", node)}
    expected = read_text(tmp_path, "\n".join(plain), **columns)
    for options in ({}, {"memory": "64GiB"}):
        with pytest.warns(UserWarning, match=r"line 71, column 'column 0': found .* DE0.*left out \(2 such name"):
            events = read_text(tmp_path, "\n".join(found), **columns, **options)
        assert named_links(events) == named_links(expected)
        assert events.negative.tolist() == expected.negative.tolist()
        assert np.array_equal(events.x, expected.x)
    table = pa.table({"src": [b"a ", b"b"], "dst": ["\n7", "a"], "t": [1, 2]})
    with pytest.warns(UserWarning, match="row 1, column 'dst'"):
        assert cawn.read(table).labels.tolist() == ["a", "b", "7"]
    with pytest.raises(cawn.DataError, match="line 100, column 'column 0': found nothing"):
        read_text(tmp_path, "\n".join([*plain[:99], "  ,7,99,0"]))


@pytest.mark.parametrize("far", ["2052-01-01", "1970-01-02T00:00:00"])
def test_a_row_dated_far_away_is_named_and_moves_no_decay(tmp_path: Path, far: str) -> None:
    rows = [f"{i % 7},{i % 5},2024-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(300)]
    expected = read_text(tmp_path, "\n".join(rows))
    written(tmp_path / "1.csv", "\n".join(rows[:150]))
    written(tmp_path / "2.csv", "\n".join([f"0,1,{far}", *rows[150:]]))
    for options in ({}, {"memory": "64GiB"}):
        message = rf"2.csv, line 1: t is {far[:10]}, far from other links \(2024-01-01 to 2024-12-2\d\); .* 1 such time"
        with pytest.warns(UserWarning, match=message) as caught:
            events = cawn.read([tmp_path / "1.csv", tmp_path / "2.csv"], **options)
        assert len(caught) == 1
        assert (events.intensity, len(events)) == (expected.intensity, 301)


def test_categories_of_several_and_of_binary_files(tmp_path: Path) -> None:
    for name, rows in (("a", "1,2,3,a,5\n1,2,4,b,6\n"), ("b", "1,2,5,c,7\n1,2,6,a,8\n")):
        written(tmp_path / f"{name}.csv", "src,dst,t,kind,n\n" + rows)
    events = cawn.read(tmp_path / "*.csv", msg=["kind", "n"])
    assert events.columns == (Attribute("kind", "category", ("a", "b", "c")), Attribute("n"))
    assert events.msg.tolist() == [[0, 5], [1, 6], [2, 7], [0, 8]]
    columns = pa.table({"src": [1, 2], "dst": [2, 3], "t": [1, 2], "kind": [5, None], "flag": [True, False]})
    columns = columns.append_column("word", pa.array(["a", "b"]).dictionary_encode())
    pq.write_table(columns, tmp_path / "a.parquet")
    events = cawn.read(tmp_path / "a.parquet", msg=["word", "flag"], categorical=["kind"])
    assert [column.levels for column in events.columns] == [("a", "b"), (), ("5", "")]
    assert events.msg.tolist() == [[0, 1, 0], [1, 0, 1]]


def test_tables_of_nodes_in_memory_and_of_several_pieces(tmp_path: Path) -> None:
    table = pa.table({"name": ["bob", "ann", "zoe"], "age": [40, 20, 99], "city": ["rome", "oslo", "paris"]})
    events = read_text(tmp_path, GIVEN, nodes=table)
    assert events.node_columns == (Attribute("age"), CITY, PRESENCE)
    assert events.x.tolist() == [[20, 1, 1], [40, 0, 1], [0, 0, 0]]
    flags = "name,flag\nann,true\n" + "someone,true\n" * 1_400_000 + "bob,maybe\n"
    events = read_text(tmp_path, "src,dst,t\nann,bob,1\n", nodes=written(tmp_path / "n.csv", flags))
    assert events.x.tolist() == [[0, 1], [1, 1]]


def test_long_lines_fields_and_comments(tmp_path: Path) -> None:
    """Beyond the pieces in which a file is read, and beyond the limit of Python's csv module."""
    note = "x" * 20 + "\n" + "y" * 20
    rows = "".join(f'{i},{i + 1},{i},"{note}"\n' for i in range(400_000))
    assert len(read_text(tmp_path, "src,dst,t,note\n" + rows)) == 400_000
    wide = "".join(f"{i},0,{i}.0,0," + ",".join(["0.123456789"] * 7_000) + "\n" for i in range(3))
    assert read_text(tmp_path, JODIE + wide).msg.shape == (3, 7_000)
    limit, long = csv.field_size_limit(), "x" * 200_000
    assert len(read_text(tmp_path, f'src,dst,t,note\n1,2,3,"{long}"\n1,3,4,{long}\n')) == 2
    with pytest.raises(cawn.DataError, match="line 3, column 't': found 'noon'"):
        read_text(tmp_path, f'src,dst,t,note\n1,2,3,"{long}"\n1,3,noon,{long}\n')
    assert csv.field_size_limit() == limit
    for comments in ("# " + "x" * (4 << 20) + "\n", "# a comment\n" * 400_000):
        assert len(read_text(tmp_path, comments + "1,2,3\n" * 3, header=False)) == 3
