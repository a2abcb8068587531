"""Files that are whole or not there, whatever happens while they are written."""

import errno
import os
import threading
from pathlib import Path
from unittest import mock

import pytest

import cawn
from cawn.files import FileLock, FolderInUseError, FolderLock, write_text


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    from cawn.files import write_atomically

    (tmp_path / "kept").write_text("old")
    with pytest.raises(cawn.StorageError, match="No space left on device"):
        write_atomically(tmp_path / "kept", lambda _: Path("/dev/full").write_text("x" * 10))
    assert (tmp_path / "kept").read_text() == "old"


def test_planted_links_are_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "out").symlink_to(victim)
    (folder / ".lock").symlink_to(victim)
    with mock.patch("secrets.token_hex", return_value="0" * 16):
        (folder / f".cawn-{'0' * 16}.tmp").symlink_to(victim)
        with pytest.raises(cawn.StorageError, match="cannot be written"):
            write_text(folder / "out", "other")
    with pytest.raises(cawn.StorageError, match="cannot be written"):
        FolderLock(folder)
    write_text(folder / "out", "other")
    assert victim.read_text() == "mine"
    assert (folder / "out").read_text() == "other"


def test_abandoned_temporaries_are_removed(tmp_path: Path) -> None:
    from cawn.files import remove_stale, temporary_folder, write_atomically

    old, young = (tmp_path / f".cawn-{digit * 16}.tmp" for digit in "01")
    mine = tmp_path / ".cawn-mine.tmp"
    for path in (old, young, mine):
        path.write_text("")
    os.utime(old, (0, 0))
    write_text(tmp_path / "file", "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([young.name, mine.name, "file"])

    def look(path: Path) -> None:
        os.utime(path, (0, 0))
        remove_stale(tmp_path)
        assert path.exists()  # it is still being written

    write_atomically(tmp_path / "file", look)
    with temporary_folder(tmp_path / "folder") as part:
        look(part)
    assert not part.exists()


def test_failures_of_every_library_are_one_line(tmp_path: Path) -> None:
    import pyarrow as pa
    from safetensors import SafetensorError

    from cawn.files import write_atomically

    for error in (OSError(errno.ENOSPC, "full"), SafetensorError("I/O error\nmore"), pa.ArrowException("no")):
        with pytest.raises(cawn.StorageError, match=r"kept: cannot be written .*nothing was changed") as caught:
            write_atomically(tmp_path / "kept", mock.Mock(side_effect=error))
        assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_lock_is_waited_for(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with FileLock(tmp_path / "lock"):
            order.append("second")

    with FileLock(tmp_path / "lock"):
        other = threading.Thread(target=second)
        other.start()
        order.append("first")
    other.join()
    assert order == ["first", "second"]


def test_a_folder_in_use_is_an_error_of_its_own(tmp_path: Path) -> None:
    with FolderLock(tmp_path), pytest.raises(FolderInUseError, match="another process is writing"):
        FolderLock(tmp_path)
    FolderLock(tmp_path).release()
