"""Where rows come from and where they go: pipes, patterns, files of queries, folders of columns.

Laws: a log in pieces and files is the log in memory; what is written is read.
"""

import csv
import gzip
import io
import json
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cawn
from cawn.data.columns import ArrayFile
from cawn.data.hashing import hash_ids
from cawn.data.readers.links import Limits
from cawn.data.readers.logs import write_columns
from cawn.data.readers.query_files import NodeFile, PairFile
from cawn.data.reading import Reading
from cawn.files import LOCK, FolderLock
from link_files import ROWS, SMALL, SORTED, assert_same, assert_unreadable, named_links, written

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


def test_patterns_and_lists(tmp_path: Path) -> None:
    written(tmp_path / "b.csv", "src,dst,t\nzoe,ann,2\n")
    written(tmp_path / "a.csv", "src,dst,t\n1,ann,2\n1,zoe,1\n")
    pq.write_table(pa.table({"src": [7], "dst": [8], "t": [1.5]}), tmp_path / "c.parquet")
    both = [("1", "zoe", 1), ("1", "ann", 2), ("zoe", "ann", 2)]
    for source in (tmp_path / "*.csv", str(tmp_path / "?.csv"), [tmp_path / "a.csv", str(tmp_path / "b.csv")]):
        events = cawn.read(source)
        assert named_links(events) == both
        assert events.rows.tolist() == [1, 0, 2]
    mixed = cawn.read([tmp_path / "*.csv", tmp_path / "c.parquet"])
    assert named_links(mixed) == [("1", "zoe", 1), ("7", "8", 1.5), ("1", "ann", 2), ("zoe", "ann", 2)]
    assert len(cawn.read(written(tmp_path / "a[1].csv", LINKS))) == 2


def test_columns_of_files_of_nodes_and_pairs(tmp_path: Path) -> None:
    """Names may have blanks; the columns of the log are used where the file has them."""
    nodes = written(tmp_path / "nodes.txt", "Finn G\nAnn B\n")
    assert list(NodeFile.open(str(nodes)).name_chunks(10)) == [["Finn G", "Ann B"]]
    pq.write_table(pa.table({"other": ["a"], "node": ["b"]}), tmp_path / "nodes.parquet")
    assert list(NodeFile.open(str(tmp_path / "nodes.parquet")).name_chunks(10)) == [["b"]]
    recorded = Reading(src="rater", dst="ratee", time="when", msg=("stars",))
    path = written(tmp_path / "pairs.csv", "when,ratee,rater\n5,a,b\n")
    found = PairFile.open(path, recorded=recorded)
    assert (found.layout.src, found.layout.dst, found.layout.time) == (2, 1, 0)
    assert PairFile.open(path, Reading.of(src="ratee", dst="rater"), recorded=recorded).layout.src == 1
    written(path, "src,dst,t\na,b,5\n")
    assert PairFile.open(path, recorded=recorded).layout.time == 2


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return written(tmp_path / "log.csv", "src,dst,t\n" + "".join(f"{u},{v},{t}\n" for u, v, t in ROWS))


def test_temporary_columns(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are mapped, and their files removed; parts of them are in memory."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    events = cawn.read(log, memory="64GiB")
    assert named_links(events) == named_links(cawn.read(events, memory="64GiB")) == SORTED
    if os.name != "nt":
        assert os.listdir(tmp_path) == ["log.csv"]
    assert events.rows.tolist() == [1, 2, 3, 0]
    assert events.ids([30, 99]).tolist() == [2, 3]
    assert not events.src.flags.writeable
    assert named_links(events[1:3]) == SORTED[1:3]
    assert np.array_equal(events[1:].labels, [10, 20, 30])


def test_a_folder_is_opened_again(log: Path, tmp_path: Path) -> None:
    nodes, folder = written(tmp_path / "nodes.csv", "name,age\n10,1\n99,2\n"), tmp_path / "columns"
    events = cawn.read(log, memory="64GiB", out=folder, nodes=nodes)
    again = cawn.read(folder)
    assert named_links(again) == named_links(events) == SORTED
    assert again.reading == events.reading == cawn.read(log).reading
    assert again.node_columns == events.node_columns
    assert np.array_equal(again.x, [[1, 1], [0, 0], [0, 0]])
    for wrong, options, message in (
        (folder, {"time": "t"}, "leave out time"),
        (log, {"memory": "64GiB", "out": folder}, "is not empty"),
        (log, {"memory": "1MiB"}, r"memory is 1 MiB, too little to read a log; give at least \d"),
        (log, {"out": tmp_path / "new"}, "give memory as well"),
    ):
        with pytest.raises(cawn.CawnError, match=message):
            cawn.read(wrong, **options)
    assert sorted(os.listdir(tmp_path)) == ["columns", "log.csv", "nodes.csv"]


def test_a_damaged_folder_is_refused(log: Path, tmp_path: Path) -> None:
    cawn.read(log, memory="64GiB", out=tmp_path / "columns")
    for name, kept, end in (("src", -4, b"\xff\xff\xff\x7f"), ("name_slots", -16000, bytes(16000)), ("t", -1, b"")):
        path = tmp_path / "columns" / f"{name}.npy"
        content = path.read_bytes()
        path.write_bytes(content[:kept] + end)
        with pytest.raises(cawn.StorageError, match=r"damaged.*; read the log again"):
            cawn.read(tmp_path / "columns")
        path.write_bytes(content)
    assert named_links(cawn.read(tmp_path / "columns")) == SORTED


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("existed", [False, True])
def test_nothing_is_left_behind(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error, existed) -> None:
    folder = tmp_path / "columns"
    if existed:
        folder.mkdir()

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(ArrayFile, "append", fail)
    with pytest.raises((KeyboardInterrupt, cawn.StorageError), match=r"No space|^$"):
        cawn.read(log, memory="64GiB", out=folder)
    assert (sorted(os.listdir(folder)) == [LOCK]) if existed else not folder.exists()


def test_folders_in_use_and_limits_too_small_for_the_names(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "columns"
    folder.mkdir()
    with FolderLock(folder), pytest.raises(cawn.StorageError, match="another process is writing"):
        cawn.read(log, memory="64GiB", out=folder)
    written(log, "src,dst,t\n" + "".join(f"a{i},b{i},{i}\n" for i in range(3_000)))
    with pytest.raises(cawn.QueryError, match=r"names in the first \d+% of the log need .* set memory to about"):
        write_columns(log, folder, Limits(piece=1 << 12, names=50_000, sorting=1 << 20))
    assert os.listdir(folder) == [LOCK]


# Laws.

LAW = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


WORDS, TEXT = ["red", "blue", None], pa.string()
TYPES = {
    "whole text": (TEXT, st.sampled_from(["7", "8", "10", "11", "-3", "123456789"])),
    "odd text": (TEXT, st.sampled_from(["7", "7.0", "07", "ann", "a b", 'say "hi"', "x,y", "line\nbreak", "é" * 30])),
    "integers": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9)),
    "whole floats": (pa.float32(), st.sampled_from([1.0, 2.0, 7.0])),
    "floats": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, 2.0, 1e300])),
    "any floats": (pa.float64(), st.none() | st.floats()),
    "number text": (TEXT, st.sampled_from(["1", "2.5", "0"])),
    "words": (TEXT, st.sampled_from(WORDS)),
    "any words": (TEXT, st.sampled_from([*WORDS, "true", "false", "", "2024-01-01", "2.5"])),
    "small": (TEXT, st.integers(-5, 5).map(str)),
    "decimal": (TEXT, st.sampled_from(["1", "2.5", "-0.0", "1e3", "0.1"])),
    "days": (pa.date32(), st.integers(-9, 20_000)),
    "day text": (TEXT, st.sampled_from(["2024-01-01", "2023-12-31", "1969-01-01"])),
    "moments": (pa.timestamp("ms"), st.integers(-(10**5), 10**12)),
    "moment text": (TEXT, st.sampled_from(["2024-01-01", "2024-01-01 00:00:01.5", "2024-01-01T00:00:00.001"])),
    "fine moments": (pa.timestamp("ns", "UTC"), st.integers(0, 3)),
    "fine text": (TEXT, st.sampled_from(["2024-01-01", "2024-01-01 00:00:00.000000001", "2024-01-01 00:00"])),
    "zones": (TEXT, st.sampled_from(["2024-01-01T00:00:00Z", "2024-01-01T00:00:00+02:00"])),
    "calendar": (TEXT, st.sampled_from(["20240101", "20231231"])),
    "number or calendar": (TEXT, st.sampled_from(["20240101", "20241301"])),
    "large": (TEXT, st.sampled_from(["9007199254740993", "1", "2.5"])),
    "far moments": (pa.timestamp("us"), st.integers(-(2**55), 2**57)),
    "far text": (TEXT, st.sampled_from(["2024-01-01", "2300-01-01", "2024-01-01 00:00:00.5"])),
    "any text": (TEXT, st.sampled_from(["1", "2.5", "2024-01-01", " 3", "+4", "noon", "", "nan", "true", "12:00:00"])),
}
ORDER = list(TYPES)
NAME_KINDS, TIME_KINDS = ORDER[:4], ["integers", "floats", "any floats", *ORDER[ORDER.index("small") :]]
ATTRIBUTE_KINDS = ORDER[ORDER.index("whole floats") : ORDER.index("small")]


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[pa.Table], dict[str, Any]]:
    """Tables of one log, and options."""
    kinds = {name: draw(st.sampled_from(NAME_KINDS)) for name in ("src", "dst", "n", "id")}
    kinds |= {"t": draw(st.sampled_from(TIME_KINDS)), "a": draw(st.sampled_from(ATTRIBUTE_KINDS))}
    kinds |= {"c": "words", "w": draw(st.sampled_from(["whole floats", "number text", "floats"]))}
    found = []
    for _ in range(draw(st.integers(1, 3))):
        rows, columns = draw(st.integers(1, 15)), {}
        for name, kind in kinds.items():
            dtype, values = TYPES[kind]
            values = st.none() | values if name == "n" else values
            column = pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), dtype)
            columns[name] = column.dictionary_encode() if kind == "words" else column
        found.append(pa.table(columns))
    columns = {"msg": ["a"], "categorical": ["c"], "weight": "w", "negative": "n", "link_id": "id"}
    options = {option: column for option, column in columns.items() if draw(st.booleans())}
    return found, options | {"bipartite": draw(st.sampled_from([None, None, True]))}


def as_file(table: pa.Table, path: Path, kind: str) -> Path:
    """Written in small pieces."""
    if kind == "csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, table.column_names)
            writer.writeheader()
            writer.writerows(table.to_pylist())
    elif kind == "json":
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()))
    elif kind == "parquet":
        pq.write_table(table, path, row_group_size=4)
    else:
        with (pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file)(path, table.schema) as sink:
            sink.write_table(table, max_chunksize=5)
    return path


@LAW
@given(
    log=logs(),
    kind=st.sampled_from(["csv", "csv", "csv", "parquet", "json", "stream", "file"]),
    sorting=st.sampled_from([200, 400, 100_000]),
    piece=st.sampled_from([40, 120, 400, 100_000]),
)
def test_any_log(tmp_path_factory: pytest.TempPathFactory, log, kind: str, sorting: int, piece: int) -> None:
    found, options = log
    folder = tmp_path_factory.mktemp("log")
    paths = [as_file(table, folder / f"{i}", kind) for i, table in enumerate(found)]
    assert_same(paths, folder / "columns", Limits(piece, 1 << 20, sorting, 3), **options)


def test_the_number_of_rows_is_estimated_by_lines(tmp_path: Path) -> None:
    text = "# a comment\nsrc,dst\n" + "".join(f"n{i},x\n" for i in range(200_000))
    whole = gzip.compress(text.encode())
    for content, rows in ((b"src,dst\na,b", 1), (text.encode(), 200_000), (whole, 200_000), (whole[:-20], None)):
        (tmp_path / "pairs").write_bytes(content)
        assert PairFile.open(tmp_path / "pairs", timed=False).num_rows() == rows


@pytest.mark.parametrize("kind", ["csv", "parquet", "file", "json"])
def test_any_rows_of_a_file(tmp_path: Path, kind: str) -> None:
    (tmp_path / "day=7").mkdir()
    table = pa.table({"src": [f"n{i}" for i in range(100)], "dst": ["x"] * 100, "t": range(100)})
    pairs = PairFile.open(as_file(table, tmp_path / "day=7" / "pairs", kind))
    assert (pairs.count_rows(), pairs.num_rows()) == (100, {"csv": 100, "parquet": 100}.get(kind))
    assert pairs.has_times()
    for first, stop in ((0, None), (0, 10), (25, 61), (99, None), (60, 60)):
        chunks = list(pairs.chunks(7, first, stop))
        names = [name for chunk in chunks for name in chunk.column("src").to_pylist()]
        assert names == [f"n{i}" for i in range(first, 100 if stop is None else stop)]
        assert all(len(chunk) == 7 for chunk in chunks[:-1])


@pytest.mark.parametrize("kind", ["parquet", "json", "stream", "file", "table"])
def test_a_row_that_is_wrong_is_named_in_any_piece(tmp_path: Path, kind: str) -> None:
    table = pa.table({"src": range(40), "dst": range(40), "t": [*range(30), None, *range(9)]})
    source = table if kind == "table" else as_file(table, tmp_path / "log", kind)
    with pytest.raises(cawn.DataError, match="row 31, column 't': found nothing"):
        write_columns(source, tmp_path, SMALL)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_folders_of_partitions(tmp_path: Path, kind: str) -> None:
    for i, day in enumerate(("2024-01-02", "2024-01-01")):
        folder = tmp_path / "log" / f"date={day}" / f"shard={i}"
        folder.mkdir(parents=True)
        table = pa.table({"src": ["a", "b"], "dst": ["b", f"c{i}"]})
        if kind == "parquet":
            pq.write_table(table, folder / "part.parquet")
        else:
            (folder / "part.csv").write_text(f"src,dst\na,b\nb,c{i}\n")
    events = assert_same(tmp_path / "log", tmp_path / "columns", msg="shard")
    assert isinstance(events, cawn.Events)
    assert (events.reading.time, events.reading.dates) == ("date", True)
    assert np.array_equal(events.msg, [[1], [1], [0], [0]])


@settings(max_examples=200)
@given(
    links=st.lists(
        st.tuples(
            st.sampled_from(["ann", "bob", "é, x", 'q"q', "7", "NA"]),
            st.sampled_from(["ann", "zoe", "8"]),
            st.integers(-(2**61), 2**61).filter(lambda t: not 1900_01_01 <= t <= 2199_12_31),  # no dates
            st.sampled_from([0.5, 1.5, 2.5]),
            st.sampled_from(["ann", "eve", None]),
        ),
        min_size=1,
        max_size=20,
    ),
    kind=st.sampled_from(["csv", "parquet", "json", "stream", "file", "table"]),
)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, links: list[tuple], kind: str) -> None:
    """At once, and sorted in runs of five links."""
    table = pa.table({name: [link[i] for link in links] for i, name in enumerate(("src", "dst", "t", "w", "no"))})
    folder, limits = tmp_path_factory.mktemp("columns"), Limits(piece=48, names=1 << 20, sorting=200, block=3)
    source = table if kind == "table" else as_file(table, tmp_path_factory.mktemp("links") / "links", kind)
    columns = {"msg": "w", "weight": "w", "negative": "no", "link_id": "src"}
    for events in (cawn.read(source, **columns), write_columns(source, folder, limits, **columns)):
        others = [None if i < 0 else events.labels[i] for i in events.negative]
        found = zip(named_links(events), events.msg.ravel().tolist(), others, strict=True)
        assert [(str(a), str(b), t, w, no) for (a, b, t), w, no in found] == sorted(links, key=lambda link: link[2])
        assert events.weight.tolist() == events.msg.ravel().tolist()
        assert events.link_id.tolist() == hash_ids(events.labels[events.src].tolist()).tolist()
        assert np.argsort([t for _, _, t, *_ in links], kind="stable").tolist() == events.rows.tolist()
