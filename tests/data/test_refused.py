"""Input that is refused, in one short line that names the file, the row or line, the column, and what to do."""

import gzip
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cawn
from cawn.data.readers.files import LONGEST_LINE
from cawn.data.readers.logs import write_columns
from cawn.data.readers.query_files import PairFile
from link_files import SMALL, assert_unreadable, of_words, written, zipped

MISSING = "found nothing"
TEXTS = [
    ("a,b,c\nx,y,1\n", r"no columns of source and destination among 'a', 'b', 'c'; say which with src and dst \("),
    ("src,dst,weight\nx,y,1\n", r"no column of times among 'src', .*; say which with time \(--time\)"),
    ("src,dst,from,to,t\n1,2,3,4,5\n", "more than one choice of source and destination"),
    ("src,dst,date,time\n1,2,3,4\n", "more than one choice of times"),
    ("src,src,dst,t\n1,1,2,3\n", "no columns of source and destination among 'src', 'src'"),
    *((empty, "no rows") for empty in ("src,dst,t\n", "# only\n# comments\n", "\n\n", "src,dst,t", "hello\n")),
    ("src,dst,t\n1,2,3\n1,2,noon\n", r"line 3, column 't': found 'noon'; expected a time: a number or an ISO date"),
    ("src,dst,t\n1,2,2024-01-01\n1,2,yesterday\n", "line 3, column 't': found 'yesterday'"),
    ("src,dst,t\n1,2,2024-01-01\n1,2,17\n", "line 3, column 't': found '17'"),
    ("src,dst,t\n1,2,3\n1,2,2024-01-01\n", "line 3, column 't': found '2024-01-01'"),
    ("src,dst,t\n1,2,true\n", "line 2, column 't': found 'true'"),
    ("src,dst,t\n1,2,3\n\n1,2,\n", f"line 4, column 't': {MISSING}"),
    ("src,dst,t\n1,2,\n", f"line 2, column 't': {MISSING}"),
    ("src,dst,t\n1,2,3.0\n1,2,nan\n", "line 3, column 't': found nan"),
    ("src,dst,t\n1,2,3.0\n1,2,inf\n", "line 3, column 't': found inf; every link needs a finite time"),
    ("src,dst,t\n1,2,99999999999999999999999\n1,2,3\n", r"line 2, column 't': found 1e\+23; float64 rounds"),
    ("src,dst,t\n1,2,9007199254740993\n1,2,2.5\n", "line 2, column 't': found .*; float64 rounds"),
    ("src,dst,t\n1,2,+9223372036854775808\n", "float64 rounds times this large"),
    ("src,dst,t\n1,,3\n", f"line 2, column 'dst': {MISSING}; every link needs two nodes"),
    ("src,dst,t\n1,2,3\n,2,3\n", f"line 3, column 'src': {MISSING}"),
    ("src,dst,t\n1,2,3\n1,2\n", "line 3: found 2 fields, expected 3: '1,2'"),
    ("src,dst,t\n1,2,3\n\n4,5,6\n1,2,3,4\n", "line 5: found 4 fields, expected 3: '1,2,3,4'"),
    ('src,dst,t,c\n1,2,3,"a\nb"\n2,3,x,"q"\n', "line 4, column 't': found 'x'"),
    ("1 2 3\n1 2\n", "line 2: found 2 fields, expected 3"),
    ("1,2\n3,4\n", r"2 column\(s\), expected at least source, destination and time; is the delimiter right\?"),
    ("hello\nworld\n", "no columns of source and destination"),
    ("1\n2\n", r"1 column\(s\)"),
    ('src,dst,t\n1,2,3\n1,2,"\x1b[2J\nnoon"\n', "line 3, column 't': found"),
    ('{"src": 1, "dst": 2, "t": 3}\n{"src": 1, "dst": 2}\n', f"row 2, column 't': {MISSING}"),
    ('{"src": 1, "dst": 2, "t": 3}\n{"src": null, "dst": 2, "t": 3}\n', f"row 2, column 'src': {MISSING}"),
    ('{"src": {"id": 1}, "dst": 2, "t": 3}\n', "column 'src': found struct<.*expected node names"),
    ('{"src": 1, "dst": 2, "t": [3]}\n', "column 't': found list<.*expected a time"),
    ('{"src": 1, "dst": 2, "t": 3}\n{"src": "a", "dst": 2, "t": 3}\n', "changed from number to string in row 1"),
    ('{"src": 1, "dst": 2, "t": 3}\nnothing\n', "line 2: expected one JSON object on each line"),
    ('{"src": 1,\n"dst": 2, "t": 3}\n', "line 1: expected one JSON object on each line"),
    ('[{"src": 1, "dst": 2, "t": 3}]\n', "one JSON array; write JSON Lines"),
    ('{"src": 1, "dst": 2, "t": 99999999999999999999}\n', "float64 rounds times this large"),
    ('{"a": 1}\n', "no columns of source and destination"),
    ('{"src": 1, "dst": 2, "t": ' + "[" * 100_000 + "]" * 100_000 + "}\n", "line 1: nested values"),
    ('{"src": "\\' + '"\\' * 50_000 + "[" * 100 + "}\n", "nested values|JSON"),
]
TEXT = "src,dst,t,w,no,id\n1,bob,2,1.5,eve,x1\n1,ann,1,0,,x2\n1,cid,3,x,bob,007\n"
ATTRIBUTE = "link attributes are finite numbers, unless the column is named in categorical"
OPTIONS = [
    ({"src": "a", "dst": "dst"}, "src='a', but there is no such column among 'src', 'dst', 't', 'w', 'no', 'id'"),
    ({"time": 9}, "time=9, but there are 6 columns"),
    ({"time": "src"}, "three different columns"),
    ({"src": 1.5}, "src=1.5: name a column, or give its position"),
    ({"msg": ["w"]}, f"line 4, column 'w': found 'x'; {ATTRIBUTE}"),
    ({"msg": ["v"]}, "msg='v', but there is no such column"),
    ({"categorical": "colour"}, "categorical='colour', but there is no such column"),
    ({"categorical": 1.5}, "categorical=1.5: name a column or a list of columns"),
    ({"node": "name"}, "node='name': is a column of nodes, but nodes is not given"),
    ({"nodes": 5}, "nodes is a int: give a path or a table"),
    ({"nodes": "nowhere.csv"}, "nowhere.csv: no such file"),
    ({"delimiter": "ab"}, "delimiter='ab'"),
    ({"header": False}, "line 1, column 'column 2': found 't'"),
    ({"header": False, "src": "src"}, "src='src', but the file has no header"),
    ({"weight": "w"}, "line 4, column 'w': found 'x'; link weights are finite numbers from 0"),
    ({"negative": "dst"}, "negatives need their own column"),
    ({"link_id": "no"}, f"line 3, column 'no': {MISSING}; every link needs an id"),
    ({"negative": ["no"]}, r"negative=\['no'\]: name a column"),
    ({"bipartite": "yes"}, "bipartite='yes': give True or False"),
]
VALUES = [
    ("msg", ["1.5", "inf"], f"line 3, column 'w': found inf; {ATTRIBUTE}"),
    ("msg", ["1.5", "1e300"], rf"line 3, column 'w': found 1e\+300; {ATTRIBUTE}"),
    ("msg", ["1.5", ""], f"line 3, column 'w': {MISSING}; {ATTRIBUTE}"),
    ("msg", ["", "1.5"], f"line 2, column 'w': {MISSING}; {ATTRIBUTE}"),
    ("msg", ["", ""], f"line 2, column 'w': {MISSING}; {ATTRIBUTE}"),
    ("msg", ["true", "", "false"], f"line 3, column 'w': {MISSING}; {ATTRIBUTE}"),
    ("weight", ["1", "-1"], "line 3, .*: found -1.0; link weights"),
]
NODES = [
    ("who,age\nann,1\n", {}, r"no column of node names among 'who', 'age'; say which \(node\)"),
    ("name,age\nann,1\nann,2\n", {}, "line 3: 'ann' occurs twice; keep one"),
    ("name,age\nxxx,1\n", {}, "none of its 1 names, such as 'xxx', occurs in the links"),
    ("name,age\nann,\n", {}, f"line 2, column 'age': {MISSING}; node attributes are finite numbers"),
    ("name,age\nann,1\n,2\n", {}, f"line 3, column 'name': {MISSING}; every row needs the name of a node"),
    ("name,age\nann,1\n", {"node": "who"}, "node='who', but there is no such column among 'name', 'age'"),
    ("name\nann\n", {}, "expected node attributes|no rows|column"),
]
HEADER, ROW = "src,dst,t,w,c\n", "ann,bob,1,1,x\n"
LATE = [
    (9 * ROW + "ann,bob,noon,1,x\n" + ROW, {}, "line 11, column 't': found 'noon'"),
    (9 * ROW + "ann,,2,1,x\n", {}, f"line 11, column 'dst': {MISSING}"),
    (9 * ROW + "ann,bob,2\n" + ROW, {}, "line 11: found 3 fields, expected 5: 'ann,bob,2'"),
    (9 * ROW + '"ann\nie",bob,2,1,x\n' + "ann,bob,3,4\n", {}, "line 13: found 4 fields, expected 5"),
    (9 * ROW + "ann,bob,2,many,x\n", {"msg": "w"}, f"line 11, column 'w': found 'many'; {ATTRIBUTE}"),
    (9 * ROW + "ann,bob,2,-1,x\n", {"weight": "w"}, "line 11, column 'w': found -1.0; link weights"),
    (9 * ROW.replace("1,x", "0,x"), {"weight": "w"}, "all .* 0"),
    (9 * ROW.replace("1,x", "2024-01-01,x"), {"msg": "w"}, f"line 2, column 'w': found '2024-01-01'; {ATTRIBUTE}"),
    (9 * ROW.replace("1,x", "7,x") + "ann,bob,2,true,x\n", {"msg": "w"}, "line 11, column 'w': found 'true'"),
    (9 * "ann,bob,9223372036854775807,1,x\nann,bob,-9223372036854775807,1,x\n", {}, "t spans more than int64"),
]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        *((text, {}, message) for text, message in TEXTS),
        *((HEADER + rows, options, message) for rows, options, message in LATE),
        *((TEXT, options, message) for options, message in OPTIONS),
        *((of_words(*words), {option: "w"}, message) for option, words, message in VALUES),
        *(("src,dst,t\nann,bob,1\n", {"nodes": nodes} | options, message) for nodes, options, message in NODES),
        ("user,item,t\n1,1,1\n2,3,2\n", {"nodes": "id,size\n2,5\n1,6\n"}, "line 3: '1' could be 'user:1' or 'item:1'"),
    ],
)
def test_text(tmp_path: Path, text: str, options: dict, message: str) -> None:
    """The same row is named in pieces of any size."""
    path = written(tmp_path / "edges.csv", text)
    if "\n" in str(options.get("nodes")):
        options = options | {"nodes": written(tmp_path / "nodes.csv", options["nodes"])}
    found = assert_unreadable(path, message, **options)
    assert found.isprintable()
    if not options and "spans" not in found:
        assert found.startswith(str(path))
    with pytest.raises(cawn.DataError, match=re.escape(found)):
        write_columns(path, tmp_path, SMALL, **options)


GOOD = {"src": [1, 2], "dst": [2, 3], "t": [1, 2]}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (GOOD | {"t": [1, None]}, f"table, row 2, column 't': {MISSING}"),
        (GOOD | {"t": [1.0, float("nan")]}, "table, row 2, column 't': found nan"),
        (GOOD | {"t": pa.array([1, 2], pa.float32())}, "rounds times"),
        (GOOD | {"t": [True, False]}, "found bool; expected a time"),
        (GOOD | {"t": pa.array([1, 2**63], pa.uint64())}, "row 2, column 't': found 9223372036854775808"),
        (GOOD | {"t": ["1", "x"]}, "row 2, column 't': found 'x'"),
        (GOOD | {"t": pa.array([1_500, 0], pa.int64()).view(pa.date64())}, "not represent a whole number of days"),
        (GOOD | {"src": [1.0, 1.5]}, "row 2, column 'src': found 1.5; node names are whole numbers or strings"),
        (GOOD | {"src": [[1], [2]]}, "expected node names"),
        (GOOD | {"src": ["a", ""]}, f"row 2, column 'src': {MISSING}"),
        (GOOD | {"src": [None, 1]}, f"row 1, column 'src': {MISSING}"),
        ({"src": [], "dst": [], "t": []}, "no rows"),
        ({}, "no columns"),
    ],
)
def test_tables(columns: dict, message: str) -> None:
    assert_unreadable(pa.table(columns), message)
    for thing in (17, None, [1, 2, 3], np.zeros(3), {"src": [1]}, []):
        assert_unreadable(thing, f"cannot read a {type(thing).__name__}")


@pytest.mark.parametrize(
    ("second", "options", "message"),
    [
        ("from,to,t\n1,2,3\n", {}, r"b.csv: src is 'from', but 'src' in .*a.csv; files read together need the same"),
        ("src,dst,t\n1,2,2024-01-01\n", {}, "b.csv: times are dates, but numbers in .*a.csv"),
        ("src,dst,t\n1,2,noon\n", {}, "b.csv, line 2, column 't': found 'noon'"),
        ("src,dst,t\n1,2,2.5\n", {}, r"a.csv, line 2, column 't': found 9007199254740993; float64 rounds"),
        ("src,dst,t,w\n1,2,3,red\n", {"msg": "w"}, r"b.csv: categorical is \('w',\), but \(\) in .*a.csv"),
        ("src,dst,t\n1,2,3\n", {"msg": "w"}, "b.csv: msg='w', but there is no such column"),
        ("src,dst,t\n", {}, "b.csv: no rows"),
    ],
)
def test_files_that_do_not_belong_together(tmp_path: Path, second: str, options: dict, message: str) -> None:
    written(tmp_path / "a.csv", "src,dst,t,w\n10,20,9007199254740993,1\n")
    written(tmp_path / "b.csv", second)
    assert_unreadable(tmp_path / "*.csv", message, **options)


# Files.


def both_refuse(path: Path, message: str) -> None:
    assert str(path) in assert_unreadable(path, message)
    with pytest.raises(cawn.DataError, match=message):
        list(PairFile.open(str(path)).chunks(10))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zipped("xl/workbook.xml", b"x"), r"Excel workbook \(XLSX\), .* not supported; save .* CSV"),
        (zipped("content.xml", b"x"), "OpenDocument"),
        (zipped("edges.csv", b"x"), "zip archive, which is not supported; unpack it"),
        (b"PK\x03\x04 damaged", "zip archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100), r"Excel workbook \(XLS\)"),
        (b"%PDF-1.7\n% comment\n", "PDF"),
        (b"\n <!DOCTYPE html>\n<html>", "web page"),
        (gzip.compress(b"<html><table>"), "web page"),
        (b"\x93NUMPY\x01\x00", "NumPy"),
        (b"\x80\x04\x95", "pickle"),
        (b"\xfd7zXZ\0\0", "xz"),
        (b"SQLite format 3\0" + bytes(100), "SQLite database"),
        (b"", "is empty"),
        (b"src,dst,t\n1,2,3\n\0\0\0", "binary file"),
        (bytes(range(256)) * 10, "binary file"),
        (b"PAR1" + b"x" * 100, "damaged parquet"),
        (b"ARROW1" + b"x" * 100, "damaged ipc"),
        (b"\xff\xff\xff\xff" + b"x" * 100, "damaged ipc"),
        (gzip.compress(b"src,dst,t\n1,2,3\n" * 1000)[:-20], "damaged"),
        (b"\x1f\x8b" + b"x" * 100, "damaged"),
        ("src,dst,t\né,b,1\n".encode("latin-1"), "line 2: byte 0xe9 is not UTF-8"),
        ("src,dst,t\n1,2,3\n".encode("utf-16"), "UTF-16"),
        (b"src,dst,t\n" + b"a,b,1\n" * 50_000 + "é,b,1\n".encode("latin-1"), "line 50002: byte 0xe9 is not UTF-8 text"),
        (b"src,dst,t\n" + b"a,b,1\n" * 20_000 + b"\xe9,b,1,2\n", "line 20002: byte 0xe9 is not UTF-8 text"),
        (b"src,dst,t\n" + b"a,b,1\n" * 20_000 + b"a,b,1,\xc3", "line 20002: byte 0xc3 is not UTF-8 text"),
    ],
)
def test_kinds_of_files_and_damage(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_bytes(content)
    both_refuse(path, message)


def test_places_that_are_no_files(tmp_path: Path) -> None:
    assert_unreadable(tmp_path / "absent.csv", "absent.csv: no such file")
    assert_unreadable(tmp_path / "*.csv", "no file matches this pattern")
    assert_unreadable(tmp_path, "no files in this folder")
    for device in ("/dev/null", "/dev/zero"):
        if os.path.exists(device):
            assert_unreadable(device, "neither a file nor a pipe")


def test_offsets_and_indices_out_of_range(tmp_path: Path) -> None:
    """One of the 32-bit numbers of an Arrow file is huge."""
    path = tmp_path / "a.arrow"
    names = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0x77], pa.int32()), pa.array([f"n{i}" for i in range(200)]))
    for src, numbers, at in ((pa.array(["a", "b", "c"]), [0, 1, 2], 4), (names, [0, 1, 0x77], 8)):
        table = pa.table({"src": src, "dst": ["a", "b", "c"], "t": [1, 2, 3]})
        with pa.ipc.new_file(path, table.schema) as sink:
            sink.write(table)
        raw = bytearray(path.read_bytes())
        place = raw.find(np.array(numbers, "<i4").tobytes()) + at
        raw[place : place + 4] = (2**30).to_bytes(4, "little")
        path.write_bytes(bytes(raw))
        both_refuse(path, "damaged ipc")


def test_text_that_is_not_unicode_in_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
    )
    pq.write_table(pa.table({"src": broken, "dst": ["b"], "t": [1]}), path, compression="none", use_dictionary=False)
    both_refuse(path, "damaged parquet")
    pq.write_table(pa.table({"src": ["a"], "dst": ["b"], "t": [1], "a name": [1]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"a name", b"\xff\xfename"))
    both_refuse(path, "damaged parquet")


@pytest.mark.parametrize(
    "start", [b"src,dst,t,n\n" + b"1,2,3,y\n" * 3 + b"1,2,3,", b"1  2 3\n" * 3 + b"1 2 ", b'{"n":"']
)
def test_lines_beyond_the_limit(tmp_path: Path, start: bytes) -> None:
    end = b'"}\n' if start.startswith(b"{") else b"\n"
    (tmp_path / "a.csv").write_bytes(start + b"x" * (2 * LONGEST_LINE + 1_000) + end)
    assert_unreadable(tmp_path / "a.csv", "a line is longer than 16 MiB")
