"""Where rows come from and where they go: pipes, patterns, JSON Lines, files of queries, folders of columns."""

import gzip
import io
import os
import tempfile
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cawn
from cawn.data.columns import ArrayFile
from cawn.data.readers.links import Limits
from cawn.data.readers.logs import write_columns
from cawn.data.readers.query_files import NodeFile, PairFile
from cawn.data.reading import Reading
from cawn.files import LOCK, FolderLock
from link_files import ROWS, SORTED, assert_unreadable, named_links, written

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


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_json_lines(tmp_path: Path, compress) -> None:
    path = tmp_path / "whatever.csv"
    rows = ['{"src": "2024-01-01", "dst": "b", "t": "2024-01-02", "w": 0.5}', "", '{"t": "2024-01-01", "w": 1,']
    rows[-1] += ' "dst": "a", "src": "b", "note": "{[("}'
    path.write_bytes(compress(("\ufeff" + "\r\n".join(rows)).encode()))
    events = cawn.read(path, msg="w")
    assert named_links(events) == [("b", "a", 1_704_067_200), ("2024-01-01", "b", 1_704_153_600)]
    assert events.msg.ravel().tolist() == [1, 0.5]
    assert events.reading.dates
    pairs = PairFile.open(str(path))
    assert [chunk.column("src").to_pylist() for chunk in pairs.chunks(1)] == [["2024-01-01"], ["b"]]


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


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("src", lambda content: content[:-4] + b"\xff\xff\xff\x7f"),
        ("names", lambda content: content[:-8] + content[-16:-8]),
        ("name_slots", lambda content: content[:-16000] + bytes(16000)),
        ("t", lambda content: content[:-1]),
    ],
)
def test_a_damaged_folder_is_refused(log: Path, tmp_path: Path, name: str, damage) -> None:
    folder = tmp_path / "columns"
    cawn.read(log, memory="64GiB", out=folder)
    path = folder / f"{name}.npy"
    content = path.read_bytes()
    path.write_bytes(damage(content))
    with pytest.raises(cawn.StorageError, match=r"damaged.*; read the log again"):
        cawn.read(folder)
    path.write_bytes(content)
    assert named_links(cawn.read(folder)) == SORTED


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
