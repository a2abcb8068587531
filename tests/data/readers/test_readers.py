"""`cawn.read`: the same few links, written in every way people write them; then random tables and files."""

import bz2
import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cawn
from link_files import ROWS, SORTED, assert_unreadable, named_links, written


def lines(delimiter: str, header: str = "") -> str:
    return header + "".join(delimiter.join(map(str, row)) + "\n" for row in ROWS)


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
        lines("\t"),
        lines(" "),
        lines("  "),
        lines(" \t "),
        lines(" ", "# a SNAP file\n# src dst unixtime\n"),
        lines(" ", "% a comment\n\n"),
        lines(",", "\ufeffsrc,dst,t\n"),
        lines(",", "src,dst,t\n").replace("\n", "\r\n"),
        lines(",", "src,dst,t\n").rstrip("\n"),
        lines(",", '"src","dst","t"\n'),
        lines(",", "src,dst,t\n").replace("\n20,", "\n\n20,"),
        lines(", ", "src, dst, t\n"),
        lines(",", "src,dst,note,t\n")
        .replace("\n10,20,3", "\n10,20,,3")
        .replace("20,30,1", "20,30,,1")
        .replace("0,2\n", "0,,2\n"),
        "# a\x0c# b\n" + lines(","),
        " 10 20 3\n 20 30 1\n 10 30 2 \n30  30 2\n",
        "t,weight,src,dst\n3,0.5,10,20\n1,0.5,20,30\n2,0.5,10,30\n2,0.5,30,30\n",
    ],
)
def test_text(tmp_path: Path, text: str) -> None:
    events = cawn.read(written(tmp_path / "edges.txt", text))
    assert named_links(events) == SORTED
    assert events.t.dtype == np.int64
    assert events.labels.tolist() == [10, 20, 30]
    assert events.rows.tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize(
    ("suffix", "compress"), [("csv.gz", gzip.compress), ("csv.bz2", bz2.compress), ("csv", gzip.compress)]
)
def test_compressed_text_whatever_it_is_called(tmp_path: Path, suffix: str, compress) -> None:
    path = tmp_path / f"edges.{suffix}"
    path.write_bytes(compress(lines(",", "src,dst,t\n").encode()))
    assert named_links(cawn.read(path)) == SORTED


def table() -> pa.Table:
    src, dst, t = zip(*ROWS, strict=True)
    return pa.table({"src": src, "dst": dst, "t": t, "weight": [0.5, 1.5, 2.5, 3.5]})


def test_parquet_and_arrow_files(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "a.parquet")
    with pa.ipc.new_file(tmp_path / "a.arrow", table().schema) as sink:
        sink.write(table())
    with pa.ipc.new_stream(tmp_path / "a.arrows", table().schema) as sink:
        sink.write(table())
    for name in ("a.parquet", "a.arrow", "a.arrows"):
        events = cawn.read(tmp_path / name, msg="weight")
        assert named_links(events) == SORTED
        assert events.msg is not None
        assert events.msg.tolist() == [[1.5], [2.5], [3.5], [0.5]]


def test_tables_of_other_libraries() -> None:
    pandas, polars, duckdb = (pytest.importorskip(name) for name in ("pandas", "polars", "duckdb"))
    frame = pandas.DataFrame(ROWS, columns=["src", "dst", "t"])
    relation = duckdb.sql("select 10 as src, 20 as dst, 3 as t union all select 20, 30, 1")
    assert named_links(cawn.read(table())) == SORTED
    assert named_links(cawn.read(frame)) == SORTED
    assert named_links(cawn.read(polars.DataFrame(ROWS, schema=["src", "dst", "t"], orient="row"))) == SORTED
    assert named_links(cawn.read(relation)) == [(20, 30, 1), (10, 20, 3)]
    frame["t"] = pandas.to_datetime(frame["t"], unit="s")
    assert cawn.read(frame).t.tolist() == [1, 2, 2, 3]
    frame["src"] = frame["src"].astype(str).astype("category")
    assert cawn.read(frame).labels.tolist() == ["10", "20", "30"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # on the import of PyTorch Geometric
def test_temporal_data() -> None:
    torch = pytest.importorskip("torch")
    from torch_geometric.data import TemporalData

    src, dst, t = (torch.tensor(column) for column in zip(*ROWS, strict=True))
    events = cawn.read(TemporalData(src=src, dst=dst, t=t, msg=torch.arange(8.0).reshape(4, 2)))
    assert list(zip(events.src.tolist(), events.dst.tolist(), events.t.tolist(), strict=True)) == SORTED
    assert events.msg is not None
    assert events.msg.tolist() == [[2, 3], [4, 5], [6, 7], [0, 1]]
    assert cawn.read(TemporalData(src=src, dst=dst, t=t, msg=torch.empty(4, 0))).msg is None


@pytest.mark.parametrize(
    ("name", "links", "nodes", "loops"),
    [
        ("uci", 59_835, 1_899, 0),
        ("wikipedia", 157_474, 9_227, 0),
        ("enron", 125_235, 184, 16_410),
        ("mooc", 411_749, 7_144, 0),
        ("bitcoin-otc", 35_592, 5_881, 0),
    ],
)
def test_real_networks(network, name: str, links: int, nodes: int, loops: int) -> None:
    events = network(name)
    assert (len(events), events.num_nodes, int((events.src == events.dst).sum())) == (links, nodes, loops)
    assert (np.diff(events.t) >= 0).all()
    assert events.t.dtype == (np.float64 if name == "bitcoin-otc" else np.int64)


def test_events_pass_through() -> None:
    events = cawn.Events([0], [1], [2])
    assert cawn.read(events) is events


def test_other_things() -> None:
    for thing in (17, None, [1, 2, 3], np.zeros(3), {"src": [1]}):
        assert_unreadable(thing, f"cannot read a {type(thing).__name__}")


FIELD = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(str),
    st.datetimes().map(str),
    st.sampled_from(
        ["", "NA", "nan", "inf", "a", "é", '"', '"x"', "a b", "1e999", "true", "src", "t", "-0", "0x1f", "#", "%"]
    ),
    st.text(max_size=4),
)


LINE = st.lists(FIELD, min_size=1, max_size=5)


HEADER = st.sampled_from(
    ["", "src,dst,t", "u,i,ts,label", "user_id,item_id,timestamp,state_label,f", "a,b,c", "t,src,dst,w"]
)


SETTINGS = settings(max_examples=200)


def check(events: cawn.Events) -> None:
    assert len(events) == len(events.src) == len(events.dst) == len(events.t) > 0
    assert events.src.dtype == events.dst.dtype == np.int32
    assert events.t.dtype in (np.int64, np.float64)
    assert (events.t[1:] >= events.t[:-1]).all()
    assert np.isfinite(events.t).all()
    assert 0 <= min(events.src.min(), events.dst.min()) <= max(events.src.max(), events.dst.max()) < events.num_nodes
    assert len(events.labels) == events.num_nodes == len(set(events.labels.tolist()))
    assert sorted(events.rows.tolist()) == list(range(len(events)))
    if events.msg is not None:
        assert np.isfinite(events.msg).all()
        assert len(events.msg) == len(events)


def read_or_refuse(source: object, **options: object) -> None:
    try:
        check(cawn.read(source, **options))
    except cawn.CawnError as error:
        reason = str(error)
    else:
        return
    assert "\n" not in reason
    assert len(reason) < 2000


@SETTINGS
@given(
    header=HEADER,
    rows=st.lists(LINE, max_size=8),
    delimiter=st.sampled_from([",", "\t", " ", ";", "  "]),
    end=st.sampled_from(["\n", "\r\n", ""]),
)
def test_any_text(tmp_path: Path, header: str, rows: list[list[str]], delimiter: str, end: str) -> None:
    path = tmp_path / "any.csv"
    body = "\n".join([header.replace(",", delimiter)] * bool(header) + [delimiter.join(row) for row in rows]) + end
    path.write_text(body, encoding="utf-8", errors="surrogatepass", newline="")
    read_or_refuse(path)


@SETTINGS
@given(
    content=st.binary(max_size=200),
    start=st.sampled_from([b"", b"src,dst,t\n", b"PAR1", b"ARROW1", b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd"]),
)
def test_any_bytes(tmp_path: Path, content: bytes, start: bytes) -> None:
    path = tmp_path / "any"
    path.write_bytes(start + content)
    read_or_refuse(path)


@SETTINGS
@given(
    src=st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.none()), max_size=6),
    dst=st.lists(st.one_of(st.text(max_size=3), st.none()), max_size=6),
    t=st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(), st.none()), max_size=6),
    w=st.lists(st.floats(width=32), max_size=6),
)
def test_any_table(src: list, dst: list, t: list, w: list) -> None:
    size = min(map(len, (src, dst, t, w)))
    try:
        table = pa.table({"src": src[:size], "dst": dst[:size], "t": t[:size], "w": w[:size]})
    except (pa.ArrowInvalid, OverflowError):
        return
    read_or_refuse(table)
    read_or_refuse(table, msg=["w"])


@SETTINGS
@given(
    links=st.lists(
        st.tuples(
            st.sampled_from(["ann", "bob", "é, x", 'q"q', "7", "NA"]),
            st.sampled_from(["ann", "zoe", "8"]),
            st.integers(-(2**61), 2**61).filter(lambda t: not 1900_01_01 <= t <= 2199_12_31),  # no dates
        ),
        min_size=1,
        max_size=20,
    )
)
def test_what_is_written_is_read(tmp_path: Path, links: list[tuple[str, str, int]]) -> None:
    import csv

    path = tmp_path / "links.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("src", "dst", "t"), *links])
    events = cawn.read(path)
    expected = sorted(links, key=lambda link: link[2])
    assert [(str(a), str(b), t) for a, b, t in named_links(events)] == expected
