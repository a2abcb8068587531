"""Runs that differ in one setting: which are comparable, means and differences per value, and what is near the best."""

from collections.abc import Callable

import pytest

from cawn.caw.config import Config
from cawn.paper.curves import (
    Curve,
    average,
    comparable,
    difference,
    inductive,
    lowest_seed,
    main_settings,
    read_curve,
    verdict,
)
from cawn.paper.results import Cell, Result
from paper_results import gather, row, trained


def run(seed: int, auc: float, label: str = "curve", **config: object) -> Result:
    settings = {"num_walks": 64, "length": 2, "alpha": 1e-6, "lr": 0.001} | config
    return trained(label, row(auc, split=f"s{seed}"), task="inductive", seed=seed, config=settings)


def runs(values: dict[int, float], spread: Callable[[int], float] = lambda seed: 0.01 * seed) -> list[Result]:
    """Three seeds for each M; AUC varies with the seed far more than the difference between two M does."""
    return [
        run(seed, auc + spread(seed) + 0.0001 * (seed == M % 3), f"curve, M = {M}", num_walks=M)
        for M, auc in values.items()
        for seed in range(3)
    ]


def curve(values: dict[int, float]) -> Curve:
    found = runs(values)
    return read_curve(
        gather(*found), "uci", "curve", "num_walks", lambda one: one.settings["config"]["num_walks"], found[0]
    )


def test_differences_are_paired_by_seed() -> None:
    found = curve({32: 0.9, 8: 0.8, 16: 0.85})
    assert [point.x for point in found.points] == [8, 16, 32]
    low, middle, best = found.points
    assert found.best is best
    assert best.auc.mean == pytest.approx(91.0, abs=0.01)
    assert best.auc.half is not None
    assert best.auc.half > 2
    gain = best.gain(middle)
    assert gain is not None
    assert gain.mean == pytest.approx(5.0, abs=0.01)
    assert gain.half is not None
    assert gain.half < 0.1
    assert found.near_best() == [best]
    assert found.at(8) is low
    assert found.at(9) is None


def test_points_near_the_best() -> None:
    found = curve({8: 0.8, 16: 0.90001, 32: 0.9})
    assert [point.x for point in found.near_best()] == [16, 32]
    assert found.best.x == 16


def test_the_plateau_ends_at_the_first_point_that_is_clearly_worse() -> None:
    found = curve({2: 0.90001, 4: 0.8, 8: 0.90002, 16: 0.90003, 32: 0.8, 65: 0.90001})
    assert [point.x for point in found.near_best()] == [2, 8, 16, 65]
    assert [point.x for point in found.plateau()] == [8, 16]


def test_runs_with_other_settings_are_left_out() -> None:
    newest = run(0, 0.9)
    left_over = run(1, 0.9, lr=0.1)
    other_walks = run(1, 0.9, num_walks=8)
    both = run(1, 0.9, num_walks=8, lr=0.1)
    found = [left_over, newest, other_walks, both]
    assert lowest_seed(found) is newest
    assert lowest_seed([]) is None
    assert comparable(found, newest, ()) == [newest]
    assert comparable(found, newest, ("num_walks",)) == [newest, other_walks]
    assert comparable([trained("A", config={"lr": 0.001})], newest, ("num_walks",)) == []


def test_only_seeds_that_all_have_are_averaged() -> None:
    assert average([{0: 0.5, 1: 0.25}, {1: 0.75, 2: 1.0}]) == {1: 0.5}
    assert average([]) == {}
    assert difference({0: 0.5, 1: 0.25}, {1: 0.125, 2: 1.0}) == Cell(12.5, None, 1)
    assert difference({0: 0.5}, {}) is None


def test_verdict_of_a_claim() -> None:
    assert verdict(Cell(1.0, 0.5, 3)) == "confirmed"
    assert verdict(Cell(-1.0, 0.5, 3)) == "contradicted"
    assert verdict(Cell(1.0, 1.5, 3)) == "undecided"
    assert verdict(Cell(1.0, None, 1)) == "undecided"
    assert verdict(None) == "not measured"


def test_runs_are_those_of_table2() -> None:
    from cawn.paper.experiments import Request
    from cawn.paper.tables import Table2

    config = Config.preset("paper-mean")
    request = Request({"uci": None}, 1, gather(), systems=("paper-mean",))  # type: ignore[dict-item]
    keys = {one.key({"uci": "d"}) for one in Table2().plan(request)}
    assert inductive("uci", config, 1, "any label").key({"uci": "d"}) in keys
    assert inductive("uci", config.with_(lr=0.5), 1, "any label").key({"uci": "d"}) not in keys


def test_settings_as_text() -> None:
    assert main_settings(run(0, 0.9)) == "M = 64, m = 2, alpha = 1e-06, learning rate = 0.001"
    assert "alpha = paper" in main_settings(run(0, 0.9, alpha="paper"))
