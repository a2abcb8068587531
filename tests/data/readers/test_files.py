"""Where links come from: pipes, patterns, lists, JSON Lines; damaged files, and the kinds that are refused."""

import gzip
import io
import os
import sqlite3
import threading
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cawn
from cawn.data.readers.files import LONGEST_LINE
from cawn.data.readers.query_files import PairFile
from link_files import assert_unreadable, named_links

LINKS = "src,dst,t\n10,20,3\n20,30,1\n"


def test_a_pipe_is_read_once_and_whole(tmp_path: Path) -> None:
    """Every look opens a path again, and a pipe would lose what the first look took."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = "src,dst,t\n" + "".join(f"{i},{i + 1},{i}\n" for i in range(40_000))
    writer = threading.Thread(target=lambda: pipe.write_bytes(gzip.compress(text.encode())))
    writer.start()
    events = cawn.read(pipe)
    writer.join()
    assert events.t.tolist() == list(range(40_000))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def give(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    give(LINKS.encode())
    assert named_links(cawn.read("-")) == [(20, 30, 1), (10, 20, 3)]
    give(b"src,dst,t\n1,2,x\n")
    assert_unreadable("-", "standard input, line 2, column 't': found 'x'")
    give(b"")
    assert_unreadable("-", "standard input: is empty")
    give(LINKS.encode())
    pairs = PairFile.open("-")
    for _ in range(2):  # scored first, then written
        assert [len(rows) for rows in pairs.chunks(1)] == [1, 1]


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero"])
def test_devices_are_no_files(device: str) -> None:
    if not os.path.exists(device):
        pytest.skip("there is no such device")
    assert_unreadable(device, "neither a file nor a pipe")


def test_patterns_and_lists(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("src,dst,t\nzoe,ann,2\n")
    (tmp_path / "a.csv").write_text("src,dst,t\n1,ann,2\n1,zoe,1\n")
    pq.write_table(pa.table({"src": [7], "dst": [8], "t": [1.5]}), tmp_path / "c.parquet")
    both = [("1", "zoe", 1), ("1", "ann", 2), ("zoe", "ann", 2)]
    for source in (tmp_path / "*.csv", str(tmp_path / "?.csv"), [tmp_path / "a.csv", str(tmp_path / "b.csv")]):
        events = cawn.read(source)
        assert named_links(events) == both
        assert events.rows.tolist() == [1, 0, 2]
        assert events.reading.src == "src"
    mixed = cawn.read([tmp_path / "*.csv", tmp_path / "c.parquet"])
    assert named_links(mixed) == [("1", "zoe", 1), ("7", "8", 1.5), ("1", "ann", 2), ("zoe", "ann", 2)]


def test_a_name_with_brackets_is_a_name(tmp_path: Path) -> None:
    (tmp_path / "a[1].csv").write_text(LINKS)
    assert len(cawn.read(tmp_path / "a[1].csv")) == 2


def test_nothing_matches(tmp_path: Path) -> None:
    assert_unreadable(tmp_path / "*.csv", "no file matches this pattern")
    assert_unreadable([], "cannot read a list")


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_json_lines(tmp_path: Path, compress) -> None:
    path = tmp_path / "whatever.csv"
    rows = ['{"src": "2024-01-01", "dst": "b", "t": "2024-01-02", "w": 0.5}', "", '{"t": "2024-01-01", "w": 1,']
    rows[-1] += ' "dst": "a", "src": "b", "note": "{[("}'
    path.write_bytes(compress("\r\n".join(rows).encode()))
    events = cawn.read(path, msg="w")
    assert named_links(events) == [("b", "a", 1_704_067_200), ("2024-01-01", "b", 1_704_153_600)]
    assert events.msg.ravel().tolist() == [1, 0.5]
    assert events.reading.dates
    pairs = PairFile.open(str(path))
    assert [chunk.column("src").to_pylist() for chunk in pairs.chunks(1)] == [["2024-01-01"], ["b"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"src": 1, "dst": 2, "t": 3}\n{"src": 1, "dst": 2}\n', "row 2, column 't': found nothing"),
        ('{"src": 1, "dst": 2, "t": 3}\n{"src": null, "dst": 2, "t": 3}\n', "row 2, column 'src': found nothing"),
        ('{"src": {"id": 1}, "dst": 2, "t": 3}\n', "column 'src': found struct<.*expected node names"),
        ('{"src": 1, "dst": 2, "t": [3]}\n', "column 't': found list<.*expected a time"),
        ('{"src": 1, "dst": 2, "t": 3}\n{"src": "a", "dst": 2, "t": 3}\n', "changed from number to string in row 1"),
        ('{"src": 1, "dst": 2, "t": 3}\nnothing\n', "line 2: expected one JSON object on each line"),
        ('{"src": 1,\n"dst": 2, "t": 3}\n', "line 1: expected one JSON object on each line"),
        ('[{"src": 1, "dst": 2, "t": 3}]\n', "one JSON array; write JSON Lines"),
        ('{"src": 1, "dst": 2, "t": 99999999999999999999}\n', "times this large are rounded"),
        ('{"a": 1}\n', "no columns of source and destination"),
        ('{"src": 1, "dst": 2, "t": ' + "[" * 100_000 + "]" * 100_000 + "}\n", "line 1: nested values"),
        ('{"src": "\\' + '"\\' * 50_000 + "[" * 100 + "}\n", "nested values|JSON"),
    ],
)
def test_json_that_is_no_log(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    assert_unreadable(path, message)


def zipped(*names: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return content.getvalue()


def test_other_kinds_of_files(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    for content, message in (
        (
            zipped("[Content_Types].xml", "xl/workbook.xml"),
            r"an Excel workbook \(XLSX\), which is not supported; save .* CSV",
        ),
        (zipped("mimetype", "content.xml"), "OpenDocument"),
        (zipped("edges.csv"), "zip archive, which is not supported; unpack it"),
        (b"PK\x03\x04 damaged", "zip archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100), r"Excel workbook \(XLS\)"),
        (b"%PDF-1.7\n% comment\n", "PDF"),
        (b"\n <!DOCTYPE html>\n<html>", "web page"),
        (gzip.compress(b"<html><table>"), "web page"),
        (b"\x93NUMPY\x01\x00", "NumPy"),
        (b"\x80\x04\x95", "pickle"),
        (b"\xfd7zXZ\0\0", "xz"),
    ):
        path.write_bytes(content)
        assert_unreadable(path, message)
        with pytest.raises(cawn.DataError, match=message):
            PairFile.open(str(path))
    database = tmp_path / "links.db"
    with sqlite3.connect(database) as connection:
        connection.execute("create table links (src, dst, t)")
    connection.close()
    assert_unreadable(database, "SQLite database")


def arrow_file(path: Path, table: pa.Table) -> None:
    with pa.ipc.new_file(path, table.schema) as sink:
        sink.write(table)


def make_huge(path: Path, numbers: bytes, at: int) -> None:
    """Replace one of the 32-bit numbers that a file holds."""
    raw = bytearray(path.read_bytes())
    place = bytes(raw).find(numbers) + at
    raw[place : place + 4] = (2**30).to_bytes(4, "little")
    path.write_bytes(raw)


def both_refuse(path: Path, message: str) -> None:
    assert_unreadable(path, message)
    with pytest.raises(cawn.DataError, match=message):
        list(PairFile.open(str(path)).chunks(10))


def test_offsets_outside_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    arrow_file(path, pa.table({"src": ["a", "b"], "dst": ["c", "d"], "t": [1, 2]}))
    make_huge(path, b"\0\0\0\0\1\0\0\0\2\0\0\0", 4)
    both_refuse(path, "damaged ipc")


def test_dictionary_indices_out_of_range(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    names = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0x77], pa.int32()), pa.array([f"n{i}" for i in range(200)]))
    arrow_file(path, pa.table({"src": names, "dst": ["a", "b", "c"], "t": [1, 2, 3]}))
    make_huge(path, b"\0\0\0\0\1\0\0\0\x77\0\0\0", 8)
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


def test_dates_between_days(tmp_path: Path) -> None:
    moments = pa.array([1_500, 86_400_000], pa.int64()).view(pa.date64())
    table = pa.table({"src": [1, 2], "dst": [2, 3], "t": moments})
    assert_unreadable(table, "does not represent a whole number of days")
    arrow_file(tmp_path / "a.arrow", table)
    both_refuse(tmp_path / "a.arrow", "damaged ipc")
    whole = pa.array([86_400_000, -86_400_000], pa.int64()).view(pa.date64())
    assert cawn.read(table.set_column(2, "t", whole)).t.tolist() == [-86_400, 86_400]


def test_lines_beyond_the_limit(tmp_path: Path) -> None:
    long = b"x" * (2 * LONGEST_LINE + 1_000)
    path = tmp_path / "a.csv"
    for content in (b"src,dst,t,n\n1,2,3,y\n1,2,3,y\n1,2,3,y\n1,2,3,%b\n" % long, b"1  2 3\n" * 3 + b"1 2 %b\n" % long):
        path.write_bytes(content)
        assert_unreadable(path, "a line is longer than 16 MiB")
    path.write_bytes(b'{"src": 1, "dst": 2, "t": 3, "n": "%b"}\n' % long)
    assert_unreadable(path, "a line is longer than 16 MiB")


def test_files_that_are_refused(tmp_path: Path) -> None:
    def refused(path: Path, message: str, content: bytes | None = None) -> None:
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(cawn.DataError, match=message) as caught:
            cawn.read(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)

    refused(tmp_path / "absent.csv", "no such file")
    refused(tmp_path, "no files in this folder")
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
