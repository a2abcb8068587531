"""`cawn.read` with a limit of memory."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.data.external import columns as external
from cawn.files import LOCK, FolderLock
from link_files import ROWS, SORTED, named_links, written

LOG = "src,dst,t\n" + "".join(f"{u},{v},{t}\n" for u, v, t in ROWS)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return written(tmp_path / "log.csv", LOG)


def test_temporary_files_are_removed(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    events = cawn.read(log, memory="64GiB")
    assert named_links(events) == SORTED
    assert events.rows.tolist() == [1, 2, 3, 0]
    if os.name != "nt":
        assert os.listdir(tmp_path) == ["log.csv"]
    assert named_links(events[1:3]) == SORTED[1:3]


def test_a_folder_is_opened_again(log: Path, tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.csv", "name,age\n10,1\n99,2\n")
    events = cawn.read(log, memory="64GiB", out=tmp_path / "columns", nodes=nodes)
    again = cawn.read(tmp_path / "columns")
    assert named_links(again) == named_links(events) == SORTED
    assert again.reading == events.reading == cawn.read(log).reading
    assert again.node_columns == events.node_columns
    assert np.array_equal(again.x, [[1, 1], [0, 0], [0, 0]])
    with pytest.raises(cawn.DataError, match="leave out time"):
        cawn.read(tmp_path / "columns", time="t")
    with pytest.raises(cawn.QueryError, match="is not empty"):
        cawn.read(log, memory="64GiB", out=tmp_path / "columns")
    damaged = tmp_path / "columns" / "src.npy"
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-4] + b"\xff\xff\xff\x7f")
    with pytest.raises(cawn.StorageError, match=r"damaged; read the log again"):
        cawn.read(tmp_path / "columns")
    damaged.write_bytes(content)
    assert named_links(cawn.read(tmp_path / "columns")) == SORTED
    (tmp_path / "columns" / "t.npy").write_bytes((tmp_path / "columns" / "t.npy").read_bytes()[:-1])
    with pytest.raises(cawn.StorageError, match=r"t.npy: missing or damaged; read the log again"):
        cawn.read(tmp_path / "columns")


def test_a_folder_in_use(log: Path, tmp_path: Path) -> None:
    (tmp_path / "columns").mkdir()
    with FolderLock(tmp_path / "columns"), pytest.raises(cawn.StorageError, match="another process is writing"):
        cawn.read(log, memory="64GiB", out=tmp_path / "columns")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("existed", [False, True])
def test_nothing_is_left_behind(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error, existed) -> None:
    folder = tmp_path / "columns"
    if existed:
        folder.mkdir()

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(external.ColumnFile, "append", fail)
    with pytest.raises(
        (KeyboardInterrupt, cawn.StorageError), match=None if error is KeyboardInterrupt else "No space"
    ):
        cawn.read(log, memory="64GiB", out=folder)
    assert (sorted(os.listdir(folder)) == [LOCK]) if existed else not folder.exists()


def test_limits_that_are_refused(log: Path, tmp_path: Path) -> None:
    with pytest.raises(cawn.QueryError, match=r"memory is 1 MiB, too little to read a log; give at least \d"):
        cawn.read(log, memory="1MiB")
    with pytest.raises(cawn.QueryError, match="give memory as well"):
        cawn.read(log, out=tmp_path / "columns")
    assert sorted(os.listdir(tmp_path)) == ["log.csv"]


def test_too_many_names(tmp_path: Path) -> None:
    log = written(tmp_path / "log.csv", "src,dst,t\n" + "".join(f"a{i},b{i},{i}\n" for i in range(3_000)))
    (tmp_path / "columns").mkdir()
    limits = external.Limits(piece=1 << 12, names=50_000, sorting=1 << 20)
    with pytest.raises(cawn.QueryError, match=r"names in the first \d+% of the log need .* set memory to about"):
        external.write_limited(log, tmp_path / "columns", limits)
    assert list((tmp_path / "columns").iterdir()) == []


def test_tables_and_events_are_written_too(log: Path) -> None:
    events = cawn.read(log)
    assert named_links(cawn.read(events, memory="64GiB")) == SORTED
