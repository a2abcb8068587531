"""The search of Table 4: on validation links, resumable, and within the ranges that the user leaves open."""

import builtins
from pathlib import Path
from typing import Any

import pytest

import cawn
from cawn.data import laws
from cawn.paper import grid
from cawn.paper.grid import Grid
from cawn.paper.results import Result, Results
from cawn.paper.sweep import Sweep
from paper_results import gather, result

tried: list[dict[str, Any]] = []


def by_length(task: Any, send: Any) -> dict[str, list[float]]:
    """Stands in for a training: longer walks are better."""
    found = task.settings["searched"]
    tried.append(found)
    if len(tried) == 3 and (task.folder.parent / "fail").exists():
        raise cawn.QueryError("the third fails")
    return {"validation": [0.5, 0.5 + found["length"] / 10]}


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    pytest.importorskip("optuna")
    monkeypatch.setattr(grid, "measure", by_length)
    tried.clear()


def search(folder: Path, trials: int, systems: tuple[str, ...] = ("paper-mean",), **changes: Any) -> list[str]:
    networks = {"uci": laws.triadic_closure(30, 200, seed=0).events}
    wanted = {"changes": changes, "systems": systems, "trials": trials}
    return Sweep(Grid(), networks, folder, 1, "cawn paper grid", "cpu", quiet=True, **wanted).run()


def test_a_search_continues_where_it_ended(tmp_path: Path) -> None:
    assert search(tmp_path, 2) == []
    assert search(tmp_path, 2) == []
    assert len(tried) == 2
    assert search(tmp_path, 4) == []
    assert len(tried) == 4
    labels = sorted(label for one in Results.read(tmp_path).all("trial") for label in one.labels)
    assert labels == [f"grid paper-mean, trial {number}" for number in range(4)]


def test_the_first_trial_is_in_the_middle_of_a_range_that_includes_the_papers(tmp_path: Path) -> None:
    search(tmp_path, 3)
    assert tried[0]["alpha"] == pytest.approx((6e-6 / 40 * 1.4e-5 * 10) ** 0.5, rel=0.05)
    for one in tried:
        assert 6e-6 / 40 <= one["alpha"] <= 1.4e-5 * 10
        assert one["length"] in (1, 2, 3)
        assert set(one) == {"num_walks", "length", "alpha", "dim", "lr"}


def test_what_the_user_fixes_is_not_searched(tmp_path: Path) -> None:
    search(tmp_path, 2, alpha=1e-5, dim=8)
    assert {(one["alpha"], one["dim"]) for one in tried} == {(1e-5, 8)}
    configs = [one.settings["config"] for one in Results.read(tmp_path).all("trial")]
    assert {(config["alpha"], config["dim"]) for config in configs} == {(1e-5, 8)}


def test_both_presets_are_searched_in_turn(tmp_path: Path) -> None:
    search(tmp_path, 2, ("paper-mean", "paper-attn"))
    presets = [one.settings["preset"] for one in Results.read(tmp_path).all("trial")]
    assert sorted(presets) == ["paper-attn", "paper-attn", "paper-mean", "paper-mean"]


def test_a_trial_that_failed_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "fail").write_text("")
    assert len(search(tmp_path, 3)) == 1
    assert len(list(Results.read(tmp_path).all("trial"))) == 2
    assert search(tmp_path, 3) == []
    assert len(list(Results.read(tmp_path).all("trial"))) == 3


def test_trials_whose_results_were_removed_are_made_again(tmp_path: Path) -> None:
    search(tmp_path, 2)
    (tmp_path / "uci.json").unlink()
    assert search(tmp_path, 2) == []
    assert len(list(Results.read(tmp_path).all("trial"))) == 2


@pytest.mark.parametrize("text", ["garbage\n", '{"op_code": 99}\n', "[]\n{}\n"])
def test_a_damaged_journal_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "grid-uci-paper-mean.journal").write_text(text)
    with pytest.raises(cawn.StorageError, match=r"grid-uci-paper-mean\.journal: damaged; move it away"):
        search(tmp_path, 1)


def test_the_table() -> None:
    def trial(number: int, ap: float, length: int, stopped: bool = False) -> Result:
        value = {"validation": [0.5, ap]} | ({"stopped": True} if stopped else {})
        searched = {"num_walks": 32, "length": length, "alpha": 2e-6, "dim": 64, "lr": 1e-3}
        settings = {"preset": "paper-mean", "searched": searched}
        return result("trial", f"grid paper-mean, trial {number}", value, settings)

    section = Grid().show(gather(trial(0, 0.8, 1), trial(1, 0.9, 2), trial(2, 0.7, 3, stopped=True), trial(3, 0.6, 3)))
    assert section is not None
    (row,) = section.tables[0].rows
    assert row[:5] == ["UCI", "paper-mean", "4", "1", "90.00"]
    assert row[5:10] == ["32", "2", "2e-06", "64", "0.001"]
    assert row[10:] == ["6e-06 to 1.4e-05", "60.00 to 90.00"]


def test_without_optuna_one_line_says_so(tmp_path: Path, monkeypatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name == "optuna":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(cawn.QueryError, match="needs Optuna: pip install"):
        search(tmp_path, 1)
