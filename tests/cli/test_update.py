"""`cawn update`."""

import json
from pathlib import Path

import pytest

import cawn
from cawn.learn.runs import read_description
from cawn.predictor import LinkPredictor
from command_line import assert_refused, call_cawn


def test_update_adds_links_once(run: Path, tmp_path: Path, now: int) -> None:
    new = tmp_path / "new.csv"
    new.write_text(f"number,rater,ratee,when\n900,n1,n2,{now}\n901,n1,newcomer,{now + 1}\n")
    before = LinkPredictor.load(run).score("n1", ["n2", "newcomer"], now + 5)
    code, _, said = call_cawn("update", run, new)
    assert code == 0
    assert said.startswith("accuracy on the new links, before they were known (2 of 2 scored): AP ")  # U9
    assert said.endswith(f"\n2 links and 1 nodes added: {run}\n")
    predictor = LinkPredictor.load(run)
    assert predictor.num_links == 402
    assert predictor.knows("newcomer")
    assert (predictor.score("n1", ["n2", "newcomer"], now + 5) != before).all()
    code, shown, _ = call_cawn("update", run, new, "--json")
    assert code == 0
    found = json.loads(shown)
    assert (found["added"], found["skipped"], found["nodes_added"], found["links"]) == (0, 2, 0, 402)
    more = tmp_path / "more.csv"
    more.write_text(f"number,rater,ratee,when\n901,n1,newcomer,{now + 1}\n902,n3,n2,{now + 2}\n")
    assert "1 links and 0 nodes added, 1 known links skipped" in call_cawn("update", run, more)[2]


@pytest.mark.filterwarnings("always::UserWarning")
def test_links_of_the_training_data_are_known_by_their_ids(tmp_path: Path) -> None:
    data, options = tmp_path / "links.csv", ("--system", "popularity", "--device", "cpu", "--quiet")
    rows = [f"{i},n{i % 7},m{i % 5},{100 + i}\n" for i in range(120)]
    data.write_text("number,src,dst,time\n" + "".join(rows[:110]))
    assert call_cawn("train", data, "--id", "number", "-o", tmp_path / "run", *options)[0] == 0
    data.write_text("number,src,dst,time\n" + "".join(rows[100:]))
    assert "10 links and 0 nodes added, 10 known links skipped" in call_cawn("update", tmp_path / "run", data)[2]


def test_once_needs_no_ids(run: Path, tmp_path: Path, now: int) -> None:
    new = tmp_path / "new.csv"
    new.write_text(f"rater,ratee,when\nn1,n2,{now}\nn1,n3,{now}\n")
    assert call_cawn("update", run, new, "--once")[0] == 0
    assert "0 links and 0 nodes added, 2 known links skipped" in call_cawn("update", run, new, "--once")[2]
    code, _, said = call_cawn("update", run, new)
    assert code == 0
    assert "2 of these 2 links are in the history already" in said
    assert LinkPredictor.load(run).num_links == 404
    assert read_description(run)["updated"]


def test_a_day_with_one_more_row_adds_one(run: Path, tmp_path: Path, now: int) -> None:
    """U5, H9: known rows are skipped, those of the training too, whatever file they come in."""
    known = (Path(run).parent / "day.csv").resolve()
    rows = [f"n1,n{i},{now + i}" for i in range(2, 7)]
    known.write_text("rater,ratee,when\n" + "\n".join(rows) + "\n")
    assert "5 links" in call_cawn("update", run, known, "--once").err
    more = tmp_path / "more.csv"
    more.write_text("ratee,rater,when\n" + "\n".join(f"n{i},n1,{now + i}" for i in (9, 6, 5, 4, 3, 2)) + "\n")
    found = json.loads(call_cawn("update", run, more, "--once", "--json").out)
    assert (found["added"], found["skipped"], found["links"]) == (1, 5, 406)


def test_times_in_another_unit_change_nothing(run: Path, tmp_path: Path, now: int) -> None:
    """U2: unless they are allowed."""
    new = tmp_path / "new.csv"
    new.write_text(f"rater,ratee,when\nn1,n2,{1_000 * now}\n")
    assert_refused(call_cawn("update", run, new), "too far ahead")
    assert call_cawn("update", run, new, "--max-ahead", 10**9).code == 0
    assert LinkPredictor.load(run).num_links == 401


def test_saving_keeps_what_was_added(run: Path, tmp_path: Path, now: int) -> None:
    predictor, batch = LinkPredictor.load(run), cawn.Events([0], [1], [now], labels=["n1", "n2"])
    predictor.update(batch)
    predictor.save(tmp_path / "later")
    assert LinkPredictor.load(tmp_path / "later").update(batch, once=True).added == 0
    assert LinkPredictor.load(run).update(batch, once=True).added == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("rater,ratee,when\nn1,,5\n", "found nothing"),
        ("a,b,c\nn1,n2,5\n", "--src and --dst"),
        ("src,dst,price\nn1,n2,5\n", "--time"),
        ("rater,ratee,when\nn1,n2,soon\n", "'soon'"),
        ("", "is empty"),
    ],
)
def test_bad_links_change_nothing(run: Path, tmp_path: Path, content: str, reason: str) -> None:
    new = tmp_path / "new.csv"
    new.write_text(content)
    before = (run / "run.json").read_bytes()
    assert_refused(call_cawn("update", run, new), reason)
    assert (run / "run.json").read_bytes() == before


def test_the_calibration_is_refitted_unless_it_is_kept(run: Path, tmp_path: Path, now: int) -> None:
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    for path, start in ((first, 0), (second, 200)):
        rows = "".join(f"{1_000 + start + i},n{i % 30},n{(7 * i + 1) % 30},{now + start + i}\n" for i in range(150))
        path.write_text("number,rater,ratee,when\n" + rows)
    before = LinkPredictor.load(run).calibration
    assert call_cawn("update", run, first, "--keep-calibration").code == 0
    assert LinkPredictor.load(run).calibration == before
    assert call_cawn("update", run, second).code == 0
    after = LinkPredictor.load(run).calibration
    assert after.steps[: len(before.steps)] == before.steps
    assert len(after.steps) == len(before.steps) + 2
    assert "refitted 2 times since validation" in call_cawn("info", run).out


def test_a_run_that_is_served_is_not_changed(run: Path, tmp_path: Path, now: int) -> None:
    """The server would refuse to start again."""
    new = tmp_path / "new.csv"
    new.write_text(f"rater,ratee,when\nn1,n2,{now}\n")
    (run / "live").mkdir()
    for name in ("state.json", "state.sqlite"):
        (run / "live" / name).write_text("{}")
        assert_refused(call_cawn("update", run, new), "send new links to the server")
        (run / "live" / name).unlink()
    assert LinkPredictor.load(run).num_links == 400
