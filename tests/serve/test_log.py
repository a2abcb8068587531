"""What was appended is there again, after any crash; damage is found and named."""

import errno
import os
import shutil
from pathlib import Path

import pytest

import cawn
from cawn.serve import log as module
from cawn.serve.catalog import Receipt
from cawn.serve.links import Links
from cawn.serve.log import LinkLog, Record
from live_history import some_links

RECEIPT = Receipt(1, 0, 2, 1)


def record(number: int, **options: object) -> Record:
    return Record(some_links(2, first=number), **options)


def numbers(log: LinkLog, after: int = 0) -> list[int]:
    return [found.links.t[0] for found in log.replay(after)]


def segments(folder: Path) -> list[Path]:
    return sorted((folder / "log").glob("*.log"))


def filled(folder: Path, count: int = 5, **options: int) -> None:
    """A log of so many blocks of one record."""
    log = LinkLog(folder, **options)
    for i in range(count):
        log.append([record(i)])
    log.close()


def test_records_are_replayed_as_they_were(tmp_path: Path) -> None:
    log = LinkLog(tmp_path)
    records = [
        record(1, duplicates=3, key="k\n", body=b"\x00\xff", offsets={"redis:s": "1-0"}),
        Record(Links(["a", 7], [2**70, "\ud800"], [0.1, 5], [[1.0], [2.0]], [None, 3])),
        Record(Links(["a", "b"], ["c", "d"], [0.1, -1e300])),
        Record(Links([], [], []), offsets={"kafka:0": 3}),
        Record(Links([], [], []), void=2),
    ]
    assert log.append(records[:3]) == 3
    assert log.append(records[3:]) == 5
    assert log.append([]) == 5
    assert [found.position for found in records] == [1, 2, 3, 4, 5]
    assert list(log.replay()) == records
    log.close()
    again = LinkLog(tmp_path)
    assert list(again.replay()) == records
    assert list(again.replay(2)) == records[2:]
    assert (again.position, again.torn, again.voided(), again.num_links()) == (5, 0, {2}, 6)
    assert again.append([record(9)]) == 6
    assert numbers(again, 5) == [9]
    again.close()


def test_segments_are_begun_and_pruned(tmp_path: Path) -> None:
    filled(tmp_path, 6, segment_bytes=200)
    assert len(segments(tmp_path)) > 2
    log = LinkLog(tmp_path, segment_bytes=200)
    assert numbers(log) == list(range(6))
    log.prune(4)
    assert log.first <= 5
    assert numbers(log, 4) == [4, 5]
    held = len(segments(tmp_path))
    log.append([record(6)])
    log.close()
    assert len(segments(tmp_path)) == held + 1
    again = LinkLog(tmp_path)
    assert numbers(again, 4) == [4, 5, 6]
    assert again.first == log.first > 1
    again.close()


def test_every_cut_of_the_last_write_is_cut_off_and_counted(tmp_path: Path) -> None:
    filled(tmp_path / "whole", 2)
    (path,) = segments(tmp_path / "whole")
    content = path.read_bytes()
    (tmp_path / "whole" / "catalog.sqlite").unlink()  # as if killed before the catalog was written
    first = next(module.blocks(content))
    for end in [first.end, first.end + 1, first.end + 20, len(content) - 1]:
        for fill in (b"", b"\0" * 100):
            folder = tmp_path / f"{end}{len(fill)}"
            shutil.copytree(tmp_path / "whole", folder)
            segments(folder)[0].write_bytes(content[:end] + fill)
            log = LinkLog(folder)
            assert log.torn == int(end > first.end or bool(fill))
            assert numbers(log) == [0]
            assert segments(folder)[0].stat().st_size == first.end
            log.append([record(7)])
            log.close()
            again = LinkLog(folder)
            assert (numbers(again), again.torn) == ([0, 7], 0)
            again.close()


def test_a_torn_first_write(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    (path,) = segments(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    (tmp_path / "catalog.sqlite").unlink()
    log = LinkLog(tmp_path)
    assert (log.torn, log.position, numbers(log)) == (1, 0, [])
    log.append([record(3)])
    log.close()
    again = LinkLog(tmp_path)
    assert numbers(again) == [3]
    again.close()


@pytest.mark.parametrize("keep_catalog", [True, False])
def test_damage_in_the_middle_names_file_and_offset(tmp_path: Path, keep_catalog: bool) -> None:
    filled(tmp_path, 3)
    (path,) = segments(tmp_path)
    content = bytearray(path.read_bytes())
    second = list(module.blocks(bytes(content)))[1]
    content[second.end - 3] ^= 1
    path.write_bytes(content)
    if not keep_catalog:
        (tmp_path / "catalog.sqlite").unlink()
    with pytest.raises(cawn.StorageError, match=rf"{path.name}: damaged at offset {second.offset} \(wrong checksum\)"):
        LinkLog(tmp_path)


def test_damage_at_the_end_of_what_was_stored_is_not_a_torn_write(tmp_path: Path) -> None:
    log = LinkLog(tmp_path)
    for i in range(2):
        log.append([found := record(i)])
        log.settle(found, RECEIPT)
    log.close()
    (path,) = segments(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(cawn.StorageError, match="damaged at offset"):
        LinkLog(tmp_path)


def test_missing_segments_are_noticed(tmp_path: Path) -> None:
    log = LinkLog(tmp_path / "log", segment_bytes=1)
    for i in range(4):
        log.append([found := record(i)])
        log.settle(found, RECEIPT)
    log.close()
    for missing, message in ((0, "missing"), (1, r"begins at record 3, expected 2"), (3, "missing")):
        folder = tmp_path / f"copy {missing}"
        shutil.copytree(tmp_path / "log", folder)
        segments(folder)[missing].unlink()
        with pytest.raises(cawn.StorageError, match=message):
            LinkLog(folder)
    shutil.rmtree(tmp_path / "log" / "log")
    with pytest.raises(cawn.StorageError, match="missing"):
        LinkLog(tmp_path / "log")


def test_segments_of_another_log_are_refused(tmp_path: Path) -> None:
    for name in "ab":
        log = LinkLog(tmp_path / name, segment_bytes=1)
        for i in range(2):
            log.append([found := record(i)])
            log.settle(found, RECEIPT)
        log.close()
    shutil.copyfile(segments(tmp_path / "a")[1], segments(tmp_path / "b")[1])
    with pytest.raises(cawn.StorageError, match="belongs to another log"):
        LinkLog(tmp_path / "b")


def test_one_process_at_a_time(tmp_path: Path) -> None:
    log = LinkLog(tmp_path)
    with pytest.raises(cawn.StorageError, match="another process uses this state"):
        LinkLog(tmp_path)
    log.close()
    LinkLog(tmp_path).close()


def fail_once(monkeypatch, name: str, function) -> None:
    """Call another function instead of os.NAME, the first time."""
    real = getattr(os, name)

    def first(*args: object) -> object:
        monkeypatch.setattr(os, name, real)
        return function(*args)

    monkeypatch.setattr(os, name, first)


def no_space(*_: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("written", [0, 1, 50])
def test_a_full_disk_stores_nothing_and_the_log_goes_on(tmp_path: Path, monkeypatch, written: int) -> None:
    log = LinkLog(tmp_path)
    log.append([record(1)])
    real = os.write

    def short(descriptor: int, content: memoryview) -> int:
        monkeypatch.setattr(os, "write", no_space)
        return real(descriptor, content[:written]) if written else no_space()

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(cawn.StorageError, match=r"No space left on device.*nothing was stored"):
        log.append([record(2)])
    monkeypatch.setattr(os, "write", real)
    assert numbers(log) == [1]
    assert log.append([record(3)]) == 2
    log.close()
    again = LinkLog(tmp_path)
    assert (numbers(again), again.torn) == ([1, 3], 0)
    again.close()


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch) -> None:
    log = LinkLog(tmp_path)
    log.append([record(1)])
    real = os.write
    fail_once(monkeypatch, "write", lambda descriptor, content: real(descriptor, content[:5]))
    log.append([record(2)])
    assert numbers(log) == [1, 2]
    log.close()


def test_after_a_failed_sync_nothing_more_is_written(tmp_path: Path, monkeypatch) -> None:
    log = LinkLog(tmp_path)
    log.append([record(1)])
    real = module._sync_file

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(module, "_sync_file", fail)
    with pytest.raises(cawn.StorageError, match=r"could not be synced.*Input/output error.*restart"):
        log.append([record(2)])
    monkeypatch.setattr(module, "_sync_file", real)
    with pytest.raises(cawn.StorageError, match="could not be synced"):
        log.append([record(3)])
    assert "could not be synced" in log.failure
    log.close()
    again = LinkLog(tmp_path)
    assert numbers(again) in ([1], [1, 2])  # not acknowledged: it may be there or not
    again.append([record(4)])
    again.close()


def test_a_write_that_cannot_be_undone_is_the_last(tmp_path: Path, monkeypatch) -> None:
    log = LinkLog(tmp_path)
    log.append([record(1)])
    monkeypatch.setattr(os, "write", no_space)
    monkeypatch.setattr(os, "ftruncate", no_space)
    with pytest.raises(cawn.StorageError, match="nothing was stored"):
        log.append([record(2)])
    monkeypatch.undo()
    with pytest.raises(cawn.StorageError, match="could not be undone"):
        log.append([record(3)])
    log.close()


def test_keys_and_offsets_are_remembered(tmp_path: Path) -> None:
    log = LinkLog(tmp_path)
    log.append([first := record(1, key="k", body=b"b", offsets={"s": "1"}), second := record(2, offsets={"s": "2"})])
    for found in (first, second):
        log.settle(found, RECEIPT)
    assert (log.find_key("k"), log.offset("s")) == ((b"b", RECEIPT), "2")
    log.store()
    assert log.find_key("k") == (b"b", RECEIPT)
    log.append([record(3, key="l", body=b"b", offsets={"s": "3"})])  # killed before it is settled
    log.close()
    again = LinkLog(tmp_path)
    assert (again.settled, again.find_key("l"), again.offsets) == (2, None, {"s": "2"})
    for found in again.replay(again.settled):
        again.settle(found, RECEIPT)
    assert (again.find_key("k"), again.find_key("l"), again.offset("s")) == ((b"b", RECEIPT), (b"b", RECEIPT), "3")
    assert again.offset("other") is None
    again.close()


def test_a_copy_is_a_log_of_its_own(tmp_path: Path) -> None:
    log = LinkLog(tmp_path / "a", segment_bytes=1)
    for i in range(4):
        log.append([found := record(i, key=f"k{i}")])
        log.settle(found, RECEIPT)
    log.prune(1)
    copy_to = log.copier()
    log.append([found := record(4)])
    log.settle(found, RECEIPT)
    log.store()
    (tmp_path / "b").mkdir()
    copy_to(tmp_path / "b")
    copy = LinkLog(tmp_path / "b")
    assert (copy.position, numbers(copy)) == (4, [1, 2, 3])
    assert copy.find_key("k0") is not None
    copy.append([record(9)])
    assert numbers(log) == [1, 2, 3, 4]
    copy.close()
    log.close()


def test_a_log_of_which_all_is_pruned_goes_on_where_it_was(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    log = LinkLog(tmp_path)
    log.prune(3)
    log.close()
    again = LinkLog(tmp_path)
    assert again.append([record(3)]) == 4
    again.prune(3)
    assert numbers(again, 3) == [3]
    again.close()
