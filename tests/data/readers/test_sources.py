"""Where links come from: pipes, patterns, lists, JSON Lines; and the kinds of files that are refused."""

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
from cawn.data.readers import dialect
from cawn.data.readers.files import LONGEST_LINE
from cawn.data.readers.query_files import PairFile

LINKS = "src,dst,t\n10,20,3\n20,30,1\n"


def links(events: cawn.Events) -> list[tuple]:
    return list(
        zip(events.labels[events.src].tolist(), events.labels[events.dst].tolist(), events.t.tolist(), strict=True)
    )


def refused(source: object, message: str, **options: object) -> None:
    with pytest.raises(cawn.DataError, match=message) as caught:
        cawn.read(source, **options)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


# Pipes and standard input.


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
    assert links(cawn.read("-")) == [(20, 30, 1), (10, 20, 3)]
    give(b"src,dst,t\n1,2,x\n")
    refused("-", "standard input, line 2, column 't': found 'x'")
    give(b"")
    refused("-", "standard input: is empty")
    give(LINKS.encode())
    pairs = PairFile.open("-")
    for _ in range(2):  # scored first, then written
        assert [len(rows) for rows in pairs.chunks(1)] == [1, 1]


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero"])
def test_devices_are_no_files(device: str) -> None:
    if not os.path.exists(device):
        pytest.skip("there is no such device")
    refused(device, "neither a file nor a pipe")


# Several files.


def test_patterns_and_lists(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("src,dst,t\nzoe,ann,2\n")
    (tmp_path / "a.csv").write_text("src,dst,t\n1,ann,2\n1,zoe,1\n")
    pq.write_table(pa.table({"src": [7], "dst": [8], "t": [1.5]}), tmp_path / "c.parquet")
    both = [("1", "zoe", 1), ("1", "ann", 2), ("zoe", "ann", 2)]
    for source in (tmp_path / "*.csv", str(tmp_path / "?.csv"), [tmp_path / "a.csv", str(tmp_path / "b.csv")]):
        events = cawn.read(source)
        assert links(events) == both
        assert events.rows.tolist() == [1, 0, 2]
        assert events.reading.src == "src"
    mixed = cawn.read([tmp_path / "*.csv", tmp_path / "c.parquet"])
    assert links(mixed) == [("1", "zoe", 1), ("7", "8", 1.5), ("1", "ann", 2), ("zoe", "ann", 2)]


def test_a_name_with_brackets_is_a_name(tmp_path: Path) -> None:
    (tmp_path / "a[1].csv").write_text(LINKS)
    assert len(cawn.read(tmp_path / "a[1].csv")) == 2


def test_attributes_of_several_files(tmp_path: Path) -> None:
    for name, rows in (("a", "1,2,3,0.5,x\n"), ("b", "2,3,1,1.5,\n1,2,2,2.5,9\n")):
        (tmp_path / f"{name}.csv").write_text(f"src,dst,t,w,no\n{rows}")
    events = cawn.read(tmp_path / "*.csv", msg="w", weight="w", negative="no")
    assert events.msg.ravel().tolist() == events.weight.tolist() == [1.5, 2.5, 0.5]
    assert [None if i < 0 else events.labels[i] for i in events.negative] == [None, "9", "x"]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("from,to,t\n1,2,3\n", r"b.csv: src is 'from', but 'src' in .*a.csv; files read together need the same col"),
        ("src,dst,t\n1,2,2024-01-01\n", "b.csv: times are dates, but numbers in .*a.csv"),
        ("src,dst,t\n1,2,noon\n", "b.csv, line 2, column 't': found 'noon'"),
        ("src,dst,t\n", "b.csv: no rows"),
    ],
)
def test_files_that_do_not_belong_together(tmp_path: Path, second: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(LINKS)
    (tmp_path / "b.csv").write_text(second)
    refused(tmp_path / "*.csv", message)


def test_dates_of_several_files_share_a_unit(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("src,dst,t\n1,2,2024-01-01\n")
    (tmp_path / "b.csv").write_text("src,dst,t\n1,2,2024-01-01T00:00:00.0000001\n")
    events = cawn.read(tmp_path / "*.csv")
    assert events.t.tolist() == [1_704_067_200 * 10**9, 1_704_067_200 * 10**9 + 100]
    assert events.reading.unit == "ns"


def test_nothing_matches(tmp_path: Path) -> None:
    refused(tmp_path / "*.csv", "no file matches this pattern")
    refused([], "cannot read a list")


# JSON Lines.


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_json_lines(tmp_path: Path, compress) -> None:
    path = tmp_path / "whatever.csv"
    rows = ['{"src": "2024-01-01", "dst": "b", "t": "2024-01-02", "w": 0.5}', "", '{"t": "2024-01-01", "w": 1,']
    rows[-1] += ' "dst": "a", "src": "b", "note": "{[("}'
    path.write_bytes(compress("\r\n".join(rows).encode()))
    events = cawn.read(path, msg="w")
    assert links(events) == [("b", "a", 1_704_067_200), ("2024-01-01", "b", 1_704_153_600)]
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
    refused(path, message)


# Kinds that are not read.


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
        refused(path, message)
        with pytest.raises(cawn.DataError, match=message):
            PairFile.open(str(path))
    database = tmp_path / "links.db"
    with sqlite3.connect(database) as connection:
        connection.execute("create table links (src, dst, t)")
    connection.close()
    refused(database, "SQLite database")


# Damaged Arrow and Parquet files.


def arrow_file(path: Path, table: pa.Table) -> bytearray:
    with pa.ipc.new_file(path, table.schema) as sink:
        sink.write(table)
    return bytearray(path.read_bytes())


def both_refuse(path: Path, message: str) -> None:
    refused(path, message)
    with pytest.raises(cawn.DataError, match=message):
        list(PairFile.open(str(path)).chunks(10))


def test_offsets_outside_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    raw = arrow_file(path, pa.table({"src": ["a", "b"], "dst": ["c", "d"], "t": [1, 2]}))
    at = bytes(raw).find(b"\0\0\0\0\1\0\0\0\2\0\0\0") + 4
    raw[at : at + 4] = (2**30).to_bytes(4, "little")
    path.write_bytes(raw)
    both_refuse(path, "damaged ipc")


def test_dictionary_indices_out_of_range(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    names = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0x77], pa.int32()), pa.array([f"n{i}" for i in range(200)]))
    raw = arrow_file(path, pa.table({"src": names, "dst": ["a", "b", "c"], "t": [1, 2, 3]}))
    at = bytes(raw).find(b"\0\0\0\0\1\0\0\0\x77\0\0\0") + 8
    raw[at : at + 4] = (2**30).to_bytes(4, "little")
    path.write_bytes(raw)
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
    refused(table, "does not represent a whole number of days")
    arrow_file(tmp_path / "a.arrow", table)
    both_refuse(tmp_path / "a.arrow", "damaged ipc")
    whole = pa.array([86_400_000, -86_400_000], pa.int64()).view(pa.date64())
    assert cawn.read(table.set_column(2, "t", whole)).t.tolist() == [-86_400, 86_400]


# Long lines, long fields, many comments.


@pytest.mark.parametrize(
    "content", [b"# " + b"x" * (4 << 20) + b"\n", b"# a comment\n" * 400_000], ids=["line", "comments"]
)
def test_looking_at_a_file_takes_linear_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    decoded = []
    original = dialect._decoded

    def counted(raw: bytes, *arguments, **options) -> str:
        decoded.append(len(raw))
        return original(raw, *arguments, **options)

    monkeypatch.setattr(dialect, "_decoded", counted)
    path = tmp_path / "a.csv"
    path.write_bytes(content + b"1,2,3\n" * 3)
    assert len(cawn.read(path, header=False)) == 3
    assert sum(decoded) < 4 * len(content)


def test_fields_of_any_size(tmp_path: Path) -> None:
    import csv

    limit = csv.field_size_limit()
    path = tmp_path / "a.csv"
    long = "x" * 200_000
    path.write_text(f'src,dst,t,note\n1,2,3,"{long}"\n1,3,4,{long}\n')
    assert len(cawn.read(path)) == 2
    path.write_text(f'src,dst,t,note\n1,2,3,"{long}"\n1,3,noon,{long}\n')
    refused(path, "line 3, column 't': found 'noon'")
    assert csv.field_size_limit() == limit


def test_lines_beyond_the_limit(tmp_path: Path) -> None:
    long = b"x" * (2 * LONGEST_LINE + 1_000)
    path = tmp_path / "a.csv"
    for content in (b"src,dst,t,n\n1,2,3,y\n1,2,3,y\n1,2,3,y\n1,2,3,%b\n" % long, b"1  2 3\n" * 3 + b"1 2 %b\n" % long):
        path.write_bytes(content)
        refused(path, "a line is longer than 16 MiB")
    path.write_bytes(b'{"src": 1, "dst": 2, "t": 3, "n": "%b"}\n' % long)
    refused(path, "a line is longer than 16 MiB")


def test_what_files_say_is_quoted_on_one_printable_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('src,dst,t\n1,2,3\n1,2,"\x1b[2J\nnoon"\n')
    with pytest.raises(cawn.DataError) as caught:
        cawn.read(path)
    assert str(caught.value).isprintable()
    path.write_text("src,dst,\x1b[2J,when\n1,2,3,4\n")
    refused(path, r"no column of times among 'src', 'dst', '\\x1b\[2J', 'when'")


def test_a_ragged_row_that_is_not_unicode(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"src,dst,t\n" + b"a,b,1\n" * 20_000 + b"\xe9,b,1,2\n")
    refused(path, "line 20002: byte 0xe9 is not UTF-8 text")
    path.write_bytes(b"src,dst,t\n" + b"a,b,1\n" * 20_000 + b"a,b,1,\xc3")
    refused(path, "line 20002: byte 0xc3 is not UTF-8 text")
