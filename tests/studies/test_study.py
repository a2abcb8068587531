"""Studies: what is printed, and several processes on one folder."""

import multiprocessing
import threading
from pathlib import Path

import pytest

import cawn
from called_jobs import echo_job, locked
from cawn.data import laws
from cawn.files import FolderLock
from cawn.studies.jobs import Job, Outcome
from cawn.studies.study import Claims, Display, Study, join
from cawn.systems.rates import RatesSettings

QUICK = RatesSettings(epochs=2, batch_size=64)


def test_a_line_for_each_part_that_ends(capsys) -> None:
    with Display("counting", 4, "run", quiet=False) as display:
        display.skip(1)
        display.share("b", 0.5)
        display.end("b", "b: fine")
        display.end("c", "c: fine", done=4)  # another process has made one
    first, second, third = capsys.readouterr().err.splitlines()
    assert first == "1 of 4 runs is already done"
    assert second.startswith("b: fine (2 of 4; about ")
    assert second.endswith(" left)")
    assert third == "c: fine (4 of 4)"


def test_nothing_is_printed_if_quiet(capsys) -> None:
    with Display("counting", 2, "run", quiet=True) as display:
        display.skip(1)
        display.end("b", "b: fine")
        display.message("well")
    assert capsys.readouterr().err == ""


def test_what_another_process_has_is_waited_for(tmp_path: Path, capsys) -> None:
    (tmp_path / "c").mkdir()
    theirs, other = Claims(tmp_path), FolderLock(tmp_path / "c")
    assert theirs.take("a")
    made: list[str] = []

    def job_of(part: str) -> Job | None:
        return Job(part, locked, (tmp_path / "c",)) if part == "c" else None if part in made else echo_job(part)

    def ended(part: str, outcome: Outcome) -> str:
        made.append(part)
        if part == "b":
            made.append("a")  # by the other process
            theirs.release("a")
            threading.Timer(0.1, other.release).start()
        return part

    with Display("counting", 3, "run", quiet=False) as display:
        study = Study[str](tmp_path, display, 0, None, "count again")
        study.run([(name, name) for name in "abc"], job_of, ended, lambda part, value, stop: None)
    assert made == ["b", "a", "c"]
    assert "waiting for 2 of other processes" in capsys.readouterr().err


def test_after_an_interruption_nothing_is_claimed(tmp_path: Path, capsys) -> None:
    def interrupt(part: str) -> Job | None:
        raise KeyboardInterrupt

    study = Study[str](tmp_path, Display("counting", 1, "run", quiet=False), 0, None, "count again")
    with pytest.raises(KeyboardInterrupt) as kept:
        study.run([("a", "a")], interrupt, lambda part, outcome: part, lambda part, value, stop: None)
    assert kept.value is not None  # with its frames, as in a notebook
    assert Claims(tmp_path).take("a")
    assert capsys.readouterr().err == "stopped; count again\n"


def test_two_comparisons_in_one_folder_share_the_runs(tmp_path: Path) -> None:
    """Each run is trained once, and both have all results."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        first, second = pool.map(comparison, [tmp_path / "c"] * 2)
    assert first == second
    assert {row["seeds"] for row in first["accuracy"] if row["system"] == "rates"} == {3}
    assert first["failed"] == []


def comparison(folder: Path) -> dict:
    events = laws.triadic_closure(30, 500, seed=0).events
    options = {"task": cawn.Task(negatives=("random",)), "jobs": 0, "threads": 1, "device": "cpu", "quiet": True}
    return cawn.compare(events, QUICK, seeds=3, out=folder, **options).to_dict()


def test_a_folder_holds_one_study(tmp_path: Path) -> None:
    described = {"links": 3, "clock": "strict", "versions": {"cawn": "1"}}
    assert join(tmp_path / "new", "it.json", described, "study") == described
    assert join(tmp_path / "new", "it.json", described | {"versions": {}}, "study") == described
    with pytest.raises(cawn.QueryError, match=r'differs in clock \("strict" there, "event" here\)'):
        join(tmp_path / "new", "it.json", described | {"clock": "event"}, "study")
    (tmp_path / "new" / "it.json").unlink()
    (tmp_path / "new" / "other").touch()
    with pytest.raises(cawn.QueryError, match=r"is not empty \(it holds 'other'\) and is not the folder of a study"):
        join(tmp_path / "new", "it.json", described, "study")
