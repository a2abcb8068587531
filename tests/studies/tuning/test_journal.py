"""Journals that survive processes killed while they write."""

from pathlib import Path

import pytest

import cawn
from cawn.studies.tuning.journal import open_study, remove_incomplete_line

pytest.importorskip("optuna")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b""),
        (b"a\n", b"a\n"),
        (b"a\nb", b"a\n"),
        (b"abc", b""),
        (b"a\n" + b"\0" * 200_000, b"a\n"),
        (b"a" * 100_000 + b"\n" + b"b" * 100_000, b"a" * 100_000 + b"\n"),
    ],
)
def test_an_incomplete_line_is_removed(before: bytes, after: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(before)
    remove_incomplete_line(path)
    assert path.read_bytes() == after


def test_a_journal_with_a_torn_line_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    study = open_study(path, "a")
    study.enqueue_trial({"x": 1})
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"op_code": 4, "wor')
    again = open_study(path, "a")
    assert len(again.trials) == 1
    again.enqueue_trial({"x": 2})
    assert len(open_study(path, "a").trials) == 2
    assert path.read_bytes().startswith(whole + b'{"op_code"')
    assert len(study.trials) == 2  # of a process that was there before


def test_a_lock_that_a_killed_process_left_does_not_hold(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    open_study(path, "a")
    assert path.with_name("journal.lock").exists()
    open_study(path, "b")


@pytest.mark.parametrize("text", ["no json\nat all\n", '{"op_code": 99}\n', "[]\n[]\n"])
def test_a_damaged_journal_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "journal").write_text(text)
    with pytest.raises(cawn.StorageError, match="journal: damaged; restore the journal"):
        open_study(tmp_path / "journal", "a")
