"""The search of Table 4: a study for each preset whose trials become results, within what the user leaves open."""

import builtins
import shutil
from pathlib import Path
from typing import Any

import pytest

import cawn
from cawn.data import laws
from cawn.paper.experiments import Request
from cawn.paper.grid import Grid
from cawn.paper.records import Records
from cawn.paper.results import Result, ResultStore
from cawn.paper.sweep import sweep
from cawn.studies.tuning.objective import Objective
from ctrl_c import stopped_after

SMALL = {"dim": 8, "num_walks": 8, "epochs": 2, "batch_size": 64}
EVENTS = laws.triadic_closure(30, 200, seed=0).events


def search(folder: Path, trials: int, systems: tuple[str, ...] = ("paper-mean",), **more: Any) -> list[str]:
    changes = SMALL | more.pop("changes", {})
    request = Request(
        {"uci": EVENTS}, 1, ResultStore.read(folder), changes, systems, trials, threads=1, **{"quiet": True} | more
    )
    return sweep(Grid(), request, "cawn paper grid")


def trials(folder: Path) -> dict[str, Result]:
    return {label: one for one in ResultStore.read(folder).all("trial") for label in one.labels}


@pytest.fixture(autouse=True)
def optuna() -> None:
    pytest.importorskip("optuna")


@pytest.fixture(scope="module")
def searched(tmp_path_factory) -> Path:
    pytest.importorskip("optuna")
    folder = tmp_path_factory.mktemp("searched")
    assert search(folder, 2, ("paper-mean", "paper-attn")) == []
    return folder


def test_trials_are_results(searched: Path) -> None:
    found = trials(searched)
    assert sorted(found) == [f"grid paper-{kind}, trial {number}" for kind in ("attn", "mean") for number in range(2)]
    first = found["grid paper-mean, trial 0"]
    middle = (6e-6 / 40 * 1.4e-5 * 10) ** 0.5  # of a range that includes the paper's
    assert first.settings["searched"] == {
        "num_walks": 8,
        "length": 3,
        "alpha": pytest.approx(middle, rel=0.05),
        "dim": 8,
        "lr": 1e-3,
    }
    for one in found.values():
        assert 6e-6 / 40 <= one.settings["searched"]["alpha"] <= 1.4e-5 * 10
        assert one.settings["searched"]["length"] in (1, 2, 3)
        assert {name: one.settings["config"][name] for name in SMALL} == SMALL  # what the user fixes is not searched
        assert len(one.value["validation"]) == 2
        assert one.command == "cawn paper grid"
    rows = Grid().show(Records(ResultStore.read(searched))).tables[0].rows
    assert [row[:4] for row in rows] == [["UCI", "paper-mean", "2", "0"], ["UCI", "paper-attn", "2", "0"]]


def test_a_search_continues_where_it_ended(searched: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(searched, tmp_path / "copy"))
    before = trials(folder)
    assert search(folder, 3) == []
    after = trials(folder)
    assert after.keys() - before.keys() == {"grid paper-mean, trial 2"}
    assert all(after[label] == one for label, one in before.items())


def test_results_that_were_removed_are_taken_from_the_study(searched: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(searched, tmp_path / "copy"))
    (folder / "uci.json").unlink()
    assert search(folder, 2) == []
    assert {label: one.value for label, one in trials(folder).items()} == {
        label: one.value for label, one in trials(searched).items() if "mean" in label
    }


def test_a_trial_that_failed_is_reported_and_does_not_count(searched: Path, tmp_path: Path, monkeypatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise cawn.QueryError("no luck")

    folder = Path(shutil.copytree(searched, tmp_path / "copy"))
    with monkeypatch.context() as patched:
        patched.setattr(Objective, "trainer", refuse)
        assert search(folder, 3) == ["uci, grid paper-mean, trial 2: no luck"]
    assert "grid paper-mean, trial 2" not in trials(folder)
    assert search(folder, 3) == []
    assert "grid paper-mean, trial 3" in trials(folder)


def test_an_interrupted_search_keeps_its_trials(tmp_path: Path, capsys) -> None:
    with stopped_after(8):
        search(tmp_path, 2, quiet=False)
    assert capsys.readouterr().err.splitlines()[-1] == "stopped; run the same command again to continue"
    assert list(trials(tmp_path)) == ["grid paper-mean, trial 0"]
    assert search(tmp_path, 2) == []
    assert len(trials(tmp_path)) == 2


def test_a_folder_of_another_search_is_a_failure_in_one_line(searched: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(searched, tmp_path / "copy"))
    (failure,) = search(folder, 3, changes={"epochs": 3})
    assert failure.startswith("uci, grid paper-mean: ")
    assert "epochs (2 there, 3 here)" in failure


def test_without_optuna_one_line_says_so(tmp_path: Path, monkeypatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name == "optuna":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(cawn.QueryError, match=r"the grid search needs Optuna: pip install 'cawn\[paper\]'"):
        search(tmp_path, 1)
