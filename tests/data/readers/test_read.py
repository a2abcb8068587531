"""The same few links, written in every way people write them."""

import bz2
import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cawn

ROWS = [(10, 20, 3), (20, 30, 1), (10, 30, 2), (30, 30, 2)]
SORTED = [(20, 30, 1), (10, 30, 2), (30, 30, 2), (10, 20, 3)]  # stable among the ties at 2


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def named(events: cawn.Events) -> list[tuple]:
    """The links with their original names."""
    return list(
        zip(events.labels[events.src].tolist(), events.labels[events.dst].tolist(), events.t.tolist(), strict=True)
    )


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
    assert named(events) == SORTED
    assert events.t.dtype == np.int64
    assert events.labels.tolist() == [10, 20, 30]
    assert events.rows.tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize(
    ("suffix", "compress"), [("csv.gz", gzip.compress), ("csv.bz2", bz2.compress), ("csv", gzip.compress)]
)
def test_compressed_text_whatever_it_is_called(tmp_path: Path, suffix: str, compress) -> None:
    path = tmp_path / f"edges.{suffix}"
    path.write_bytes(compress(lines(",", "src,dst,t\n").encode()))
    assert named(cawn.read(path)) == SORTED


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
        assert named(events) == SORTED
        assert events.msg is not None
        assert events.msg.tolist() == [[1.5], [2.5], [3.5], [0.5]]


def test_tables_of_other_libraries() -> None:
    pandas, polars, duckdb = (pytest.importorskip(name) for name in ("pandas", "polars", "duckdb"))
    frame = pandas.DataFrame(ROWS, columns=["src", "dst", "t"])
    relation = duckdb.sql("select 10 as src, 20 as dst, 3 as t union all select 20, 30, 1")
    assert named(cawn.read(table())) == SORTED
    assert named(cawn.read(frame)) == SORTED
    assert named(cawn.read(polars.DataFrame(ROWS, schema=["src", "dst", "t"], orient="row"))) == SORTED
    assert named(cawn.read(relation)) == [(20, 30, 1), (10, 20, 3)]
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


def test_string_names_and_dates(tmp_path: Path) -> None:
    rows = ["payer,payee,date,amount", "ana,bo,2024-01-02T00:00:00,5", "bo,NA,2024-01-01 12:00,7.5"]
    text = "\n".join([*rows, "né,ana,2024-01-03T01:00:00,1"])
    events = cawn.read(written(tmp_path / "a.csv", text), msg=["amount"])
    assert named(events) == [("bo", "NA", 1704110400), ("ana", "bo", 1704153600), ("né", "ana", 1704243600)]
    assert events.msg is not None
    assert events.msg.ravel().tolist() == [7.5, 5, 1]
    assert events.ids(["ana", "nobody", "né", "nobody", "none"]).tolist() == [0, 4, 2, 4, 5]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["1.25", "2", "3"], [1.25, 2, 3]),
        (["1", "2", "2.5"], [1, 2, 2.5]),
        (["1e3", "2e3", "1082040961.5"], [1000, 2000, 1082040961.5]),
        (["-5", "0", "5"], [-5, 0, 5]),
        (
            ["1700000000000000001", "1700000000000000002", "1700000000000000003"],
            [1700000000000000001 + i for i in range(3)],
        ),
        (["1970-01-01", "1970-01-02", "1970-01-03"], [0, 86400, 172800]),
        (["1970-01-01T00:00:00Z", "1970-01-01T02:00:00+01:00", "1970-01-02T00:00:00Z"], [0, 3600, 86400]),
        (["1970-01-01 00:00:00.5", "1970-01-01 00:00:01", "1970-01-01 00:00:02.25"], [0.5, 1, 2.25]),
    ],
)
def test_times(tmp_path: Path, times: list[str], expected: list) -> None:
    text = "src,dst,t\n" + "".join(f"1,2,{t}\n" for t in times)
    events = cawn.read(written(tmp_path / "a.csv", text))
    assert events.t.tolist() == expected
    assert events.t.dtype == (np.float64 if any(isinstance(e, float) for e in expected) else np.int64)


def test_columns_can_be_given(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "a,b,when,src,dst\n10,20,3,x,y\n20,30,1,x,y\n10,30,2,x,y\n30,30,2,x,y\n")
    assert named(cawn.read(path, src="a", dst="b", time="when")) == SORTED
    assert named(cawn.read(path, src=0, dst=1, time=2)) == SORTED
    assert cawn.read(path, time="when").labels.tolist() == ["x", "y"]
    bare = written(tmp_path / "b.csv", "3,10,20\n1,20,30\n2,10,30\n2,30,30\n")
    assert named(cawn.read(bare, src=1, dst=2, time=0)) == SORTED
    shared = written(tmp_path / "c.csv", "src,dst,t\n1,2,3\n4,5,6\n")
    assert cawn.read(shared, msg=["t", "src"]).msg.tolist() == [[3, 1], [6, 4]]
    assert len(cawn.read(shared, src="dst", dst="src", header=True, delimiter=",")) == 2


def test_a_header_can_be_denied_or_demanded(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "from,to,5\na,b,6\n")
    assert len(cawn.read(path, header=False)) == 2
    path = written(tmp_path / "b.csv", "1,2,3\n4,5,6\n")
    assert len(cawn.read(path, header=True, src="1", dst="2", time="3")) == 1


def test_names_that_look_like_numbers_at_first(tmp_path: Path) -> None:
    """Type guesses come from the first block of a file; a later name must not break the reading."""
    rows = [f"{i % 1000},{i % 777},{i}" for i in range(200_000)] + ["A17,5,200000", "99999999999999999999,A17,200001.5"]
    events = cawn.read(written(tmp_path / "a.csv", "src,dst,t\n" + "\n".join(rows) + "\n"))
    assert events.labels[events.src[-2:]].tolist() == ["A17", "99999999999999999999"]
    assert events.t[-1] == 200001.5
    assert "5" in set(events.labels.tolist())


def test_names_are_kept_as_they_are_written(tmp_path: Path) -> None:
    events = cawn.read(written(tmp_path / "a.csv", "src,dst,t\n007,7,1\n0x10,16,2\n+5,5,3\n"))
    assert events.labels.tolist() == ["007", "0x10", "+5", "7", "16", "5"]
    assert cawn.read(written(tmp_path / "b.csv", "src,dst,t\n1.0,2,1\n2.0,1,2\n")).labels.tolist() == [1, 2]
    tabs = written(tmp_path / "c.tsv", "src\tdst\tt\tw\nAl  Bo\tCy\t7\t\nCy\tAl  Bo\t9\t\n")
    assert cawn.read(tabs).labels.tolist() == ["Al  Bo", "Cy"]


def test_times_are_exact(tmp_path: Path) -> None:
    rows = "src,dst,t\n1,2,+1600000000000000001\n1,3,+1600000000000000002\n"
    assert cawn.read(written(tmp_path / "a.csv", rows)).t.tolist() == [1600000000000000001, 1600000000000000002]
    late = written(tmp_path / "b.csv", "src,dst,t\n1,2,2300-01-01T00:00:00.5\n")
    assert cawn.read(late).t.tolist() == [10413792000.5]


def test_line_breaks_in_quotes_and_long_lines(tmp_path: Path) -> None:
    note = "x" * 20 + "\n" + "y" * 20
    rows = "".join(f'{i},{i + 1},{i},"{note}"\n' for i in range(40_000))
    assert len(cawn.read(written(tmp_path / "a.csv", "src,dst,t,note\n" + rows))) == 40_000
    with pytest.raises(cawn.DataError, match="line 4, column 't': found 'x'"):
        cawn.read(written(tmp_path / "b.csv", 'src,dst,t,c\n1,2,3,"a\nb"\n2,3,x,"q"\n'))
    header = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
    wide = "".join(f"{i},0,{i}.0,0," + ",".join(["0.123456789"] * 7_000) + "\n" for i in range(3))
    events = cawn.read(written(tmp_path / "c.csv", header + wide))
    assert events.msg is not None
    assert events.msg.shape == (3, 7_000)


def test_events_do_not_share_memory_with_their_source() -> None:
    column = np.array([5, 6, 7])
    events = cawn.read(pa.table({"src": [0, 1, 2], "dst": [1, 2, 0], "t": pa.array(column)}))
    column[0] = 99
    assert events.t.tolist() == [5, 6, 7]


def test_encodings_of_other_libraries() -> None:
    polars = pytest.importorskip("polars")
    names = polars.Series(["a", "b"], dtype=polars.Categorical)
    frame = polars.DataFrame({"src": names, "dst": ["a", "c"], "t": ["2020-01-01", "2020-01-02"], "w": ["1", "2"]})
    events = cawn.read(frame, msg="w")
    assert events.labels.tolist() == ["a", "b", "c"]
    assert events.t.tolist() == [1577836800, 1577923200]
    table = pa.table({"src": pa.array([b"a", b"b"]), "dst": [b"a", b"c"], "t": [1, 2], "w": [2**53 + 1, 2]})
    assert cawn.read(table, msg="w").labels.tolist() == ["a", "b", "c"]


def test_names_that_look_like_other_things(tmp_path: Path) -> None:
    text = "src,dst,t\n2024-01-01,true,1\n12:30,nan,2\n1.50,1.5,3\n"
    events = cawn.read(written(tmp_path / "a.csv", text))
    assert events.labels.tolist() == ["2024-01-01", "12:30", "1.50", "true", "nan", "1.5"]


def test_users_and_items_are_different_nodes(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "user_id,item_id,time\n0,0,1\n1,0,2\n")
    events = cawn.read(path)
    assert events.labels.tolist() == ["user:0", "user:1", "item:0"]
    assert cawn.read(path, bipartite=False).labels.tolist() == [0, 1]
    path = written(tmp_path / "b.csv", "src,dst,t\n0,0,1\n1,0,2\n")
    assert cawn.read(path, bipartite=True).labels.tolist() == ["src:0", "src:1", "dst:0"]


def test_jodie(tmp_path: Path) -> None:
    header = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
    events = cawn.read(written(tmp_path / "a.csv", header + "0,0,0.0,0,0.5,1.5\n1,0,36.0,1,2.5,3.5\n"))
    assert events.labels.tolist() == ["user:0", "user:1", "item:0"]
    assert events.t.tolist() == [0.0, 36.0]
    assert events.msg is not None
    assert events.msg.tolist() == [[0.5, 1.5], [2.5, 3.5]]


def test_jodie_sample(data_folder: Path, network) -> None:
    events, wikipedia = cawn.read(data_folder / "jodie_format_sample.csv"), network("wikipedia")
    assert len(events) == 200
    assert events.msg is None  # a column of zeros stands for no features
    np.testing.assert_array_equal(events.t, wikipedia.t[:200])
    pairs = [set(zip(e.src[:200].tolist(), e.dst[:200].tolist(), strict=True)) for e in (events, wikipedia)]
    assert len(pairs[0]) == len(pairs[1])


def test_the_authors_triple(tmp_path: Path) -> None:
    path = written(tmp_path / "ml_x.csv", ",u,i,ts,label,idx\n0,1,3,5.0,0.0,1.0\n1,2,3,4.0,0.0,2.0\n")
    np.save(tmp_path / "ml_x.npy", np.array([[0, 0], [1, 2], [3, 4]]))
    np.save(tmp_path / "ml_x_node.npy", np.array([[0.0], [10], [20], [30]]))
    events = cawn.read(path)
    assert events.labels.tolist() == [1, 2, 3]
    assert events.t.tolist() == [4.0, 5.0]
    assert events.msg is not None
    assert events.msg.tolist() == [[3, 4], [1, 2]]
    assert events.x is not None
    assert events.x.tolist() == [[10], [20], [30]]
    np.save(tmp_path / "ml_x.npy", np.zeros((3, 4)))
    assert cawn.read(path).msg is None
    np.save(tmp_path / "ml_x.npy", np.ones((2, 4)))
    with pytest.raises(cawn.DataError, match=r"ml_x.npy: has shape \(2, 4\), but the links refer to idx 2"):
        cawn.read(path)
    (tmp_path / "ml_x.npy").unlink()
    assert cawn.read(path).msg is None


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
