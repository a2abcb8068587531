"""Bad input: one line that says where, what was found and what to do."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cawn


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a,b,c\nx,y,1\n",
            r"no columns of source and destination among 'a', 'b', 'c'; say which with src and dst \(--src",
        ),
        (
            "src,dst,weight\nx,y,1\n",
            r"no column of times among 'src', .*; say which with time \(--time\)",
        ),
        ("src,dst,from,to,t\n1,2,3,4,5\n", r"more than one choice of source and destination"),
        ("src,dst,date,time\n1,2,3,4\n", r"more than one choice of times"),
        ("src,src,dst,t\n1,1,2,3\n", r"no columns of source and destination among 'src', 'src'"),
        ("src,dst,t\n", r"no rows"),
        ("# only\n# comments\n", r"no rows"),
        ("\n\n", r"no rows"),
        ("src,dst,t\n1,2,3\n1,2,noon\n", r"line 3, column 't': found 'noon'; expected a time: a number or an ISO date"),
        ("src,dst,t\n1,2,2024-01-01\n1,2,yesterday\n", r"line 3, column 't': found 'yesterday'"),
        ("src,dst,t\n1,2,2024-01-01\n1,2,17\n", r"line 3, column 't': found '17'"),
        ("src,dst,t\n1,2,3\n\n1,2,\n", r"line 4, column 't': found nothing"),
        ("src,dst,t\n1,2,\n", r"line 2, column 't': found nothing"),
        ("src,dst,t\n1,2,3.0\n1,2,nan\n", r"line 3, column 't': found (nothing|nan)"),
        ("src,dst,t\n1,2,3.0\n1,2,inf\n", r"line 3, column 't': found inf; every link needs a finite time"),
        ("src,dst,t\n1,2,99999999999999999999999\n1,2,3\n", r"line 2, column 't': found 1e\+23; float64 rounds"),
        ("src,dst,t\n1,2,+9223372036854775808\n", r"float64 rounds times this large"),
        ("src,dst,t\n1,,3\n", r"line 2, column 'dst': found nothing; every link needs two nodes"),
        ("src,dst,t\n1,2,3\n,2,3\n", r"line 3, column 'src': found nothing"),
        ("src,dst,t\na,b,3\n,b,3\n", r"line 3, column 'src': found nothing"),
        ("src,dst,t\n1,2,3\n1,2\n", r"line 3: found 2 fields, expected 3: '1,2'"),
        ("src,dst,t\n1,2,3\n\n4,5,6\n1,2,3,4\n", r"line 5: found 4 fields, expected 3: '1,2,3,4'"),
        ("1 2 3\n1 2\n", r"line 2: found 2 fields, expected 3"),
        ("1,2\n3,4\n", r"2 column\(s\), expected at least source, destination and time; is the delimiter right\?"),
        ("hello\n", r"no rows; expected at least one link below the header"),
        ("src,dst,t", r"no rows"),
        ("hello\nworld\n", r"no columns of source and destination"),
        ("1\n2\n", r"1 column\(s\)"),
    ],
)
def test_text(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(text)
    with pytest.raises(cawn.DataError, match=message) as caught:
        cawn.read(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


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
def test_options(tmp_path: Path, options: dict, message: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("src,dst,t,w\n1,2,3,1\n1,2,3,x\n")
    with pytest.raises(cawn.DataError, match=message):
        cawn.read(path, **options)


@pytest.mark.parametrize(("value", "message"), [("inf", "found inf"), ("1e300", "found 1e.300"), ("", "found nothing")])
def test_attributes_are_finite(tmp_path: Path, value: str, message: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(f"src,dst,t,w\n1,2,3,1.5\n1,2,3,{value}\n")
    with pytest.raises(cawn.DataError, match=rf"line 3, column 'w': {message}"):
        cawn.read(path, msg="w")


def test_files(tmp_path: Path) -> None:
    def refused(path: Path, message: str, content: bytes | None = None) -> None:
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(cawn.DataError, match=message) as caught:
            cawn.read(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)

    refused(tmp_path / "absent.csv", "no such file")
    refused(tmp_path, "is a directory")
    refused(tmp_path / "a", "is empty", b"")
    refused(tmp_path / "a", "binary file", b"src,dst,t\n1,2,3\n\0\0\0")
    refused(tmp_path / "a", "binary file", bytes(range(256)) * 10)
    refused(tmp_path / "a", "damaged parquet", b"PAR1" + b"x" * 100)
    refused(tmp_path / "a", "damaged ipc", b"ARROW1" + b"x" * 100)
    refused(tmp_path / "a", "damaged ipc", b"\xff\xff\xff\xff" + b"x" * 100)
    refused(tmp_path / "a", "damaged", gzip.compress(b"src,dst,t\n1,2,3\n" * 1000)[:-20])
    refused(tmp_path / "a", "damaged", b"\x1f\x8b" + b"x" * 100)
    refused(tmp_path / "a", "line 2: byte 0xe9 is not UTF-8", "src,dst,t\né,b,1\n".encode("latin-1"))
    refused(tmp_path / "a", "UTF-16", "src,dst,t\n1,2,3\n".encode("utf-16"))
    table = pa.table({"src": ["a", "b"], "dst": ["c", "d"], "t": [1, 2]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    raw = bytearray(sink.getvalue().to_pybytes())
    at = bytes(raw).find(b"\0\0\0\0\1\0\0\0\2\0\0\0") + 4
    raw[at : at + 4] = (2**30).to_bytes(4, "little")  # an offset far outside of the text
    refused(tmp_path / "a", "damaged ipc", bytes(raw))
    late = b"src,dst,t\n" + b"a,b,1\n" * 50_000 + "é,b,1\n".encode("latin-1")
    refused(tmp_path / "a", "UTF-8", late)


def test_tables() -> None:
    def refused(columns: dict, message: str) -> None:
        with pytest.raises(cawn.DataError, match=message):
            cawn.read(pa.table(columns))

    good = {"src": [1, 2], "dst": [2, 3], "t": [1, 2]}
    refused(good | {"t": [1, None]}, r"table, row 2, column 't': found nothing")
    refused(good | {"t": [1.0, float("nan")]}, r"table, row 2, column 't': found nan")
    refused(good | {"t": pa.array([1, 2], pa.float32())}, "rounds times")
    refused(good | {"t": [True, False]}, "found bool; expected a time")
    refused(good | {"t": pa.array([1, 2**63], pa.uint64())}, r"row 2, column 't': found 9223372036854775808")
    refused(good | {"src": [1.0, 1.5]}, r"row 2, column 'src': found 1.5; node names are whole numbers or strings")
    refused(good | {"src": [[1], [2]]}, "expected node names")
    refused(good | {"src": ["a", ""]}, r"row 2, column 'src': found nothing")
    refused(good | {"src": [None, 1]}, r"row 1, column 'src': found nothing")
    refused({"src": [], "dst": [], "t": []}, "no rows")
    refused({}, "no columns")
    assert cawn.read(pa.table(good | {"src": [1.0, 2.0]})).labels.tolist() == [1, 2, 3]
    assert cawn.read(pa.table(good | {"src": ["a", "2"]})).labels.tolist() == ["a", "2", "3"]


def test_other_things() -> None:
    for thing in (17, None, [1, 2, 3], np.zeros(3), {"src": [1]}):
        with pytest.raises(cawn.DataError, match=f"cannot read a {type(thing).__name__}"):
            cawn.read(thing)


def test_parquet_rows_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"src": [1, 2], "dst": [2, 3], "t": ["1", "x"]}), tmp_path / "a.parquet")
    with pytest.raises(cawn.DataError, match=r"a.parquet, row 2, column 't': found 'x'"):
        cawn.read(tmp_path / "a.parquet")
