"""Whether a cost is linear is decided by the fit; what is timed is a real epoch. No test depends on seconds."""

from pathlib import Path

import numpy as np
import pytest

from cawn.paper.complexity import Complexity, fit, measure, shortest
from cawn.paper.experiments import Request
from cawn.paper.measurements import Task
from cawn.paper.results import Result, Results
from cawn.paper.sweep import Sweep
from networks import random_events
from paper_results import gather, result

SIZES = np.arange(1, 11) * 1000


def request(folder: Path, device: str = "cpu", **changes: object) -> Request:
    return Request({"uci": random_events(0)}, 2, Results(folder), changes, device=device)


def repetition(exponent: float, factor: float = 1.0, number: int = 1) -> Result:
    rows = [
        {"links": int(n), "draws": int(100 * n), "walks": 1e-6 * n, "epoch": factor * (n / 1e4) ** exponent}
        | {"index": 1e-8 * n}
        for n in SIZES
    ]
    return result("complexity", f"complexity, cpu, repetition {number}", {"rows": rows}, {})


def test_linear_times() -> None:
    found = fit(SIZES, 2e-6 * SIZES)
    assert (found.r2, found.exponent) == (pytest.approx(1), pytest.approx(1))
    assert (found.slope, found.constant) == (pytest.approx(2e-6), pytest.approx(0, abs=1e-12))
    assert found.slope_half == pytest.approx(0, abs=1e-12)
    assert found.linear


@pytest.mark.parametrize("exponent", [0.5, 1.3, 2.0])
def test_other_powers_are_not_called_linear(exponent: float) -> None:
    found = fit(SIZES, 1e-6 * SIZES**exponent)
    assert found.exponent == pytest.approx(exponent)
    assert not found.linear


def test_a_line_by_hand() -> None:
    found = fit([1, 2, 3], [1, 2, 4])
    assert (found.slope, found.constant) == (pytest.approx(1.5), pytest.approx(-2 / 3))
    assert found.r2 == pytest.approx(1 - (1 / 6) / (14 / 3))
    assert found.slope_half == pytest.approx(12.706 * np.sqrt(1 / 12))


def test_the_shortest_time_of_each_size_counts() -> None:
    rows = shortest([repetition(1.0, 2.0), repetition(1.0, 3.0, number=2)])
    assert [row["links"] for row in rows] == SIZES.tolist()
    assert rows[-1]["epoch"] == 2.0


def test_plan_is_that_of_the_paper(tmp_path: Path) -> None:
    first, second = Complexity().plan(request(tmp_path))
    config = first.settings["config"]
    assert (config["num_walks"], config["length"], config["batch_size"]) == (32, 2, 32)
    assert (first.settings["seed"], second.settings["seed"]) == (0, 1)
    assert first.label == "complexity, cpu, repetition 1"
    on_gpu = Complexity().plan(request(tmp_path, "cuda:1"))[0]
    assert on_gpu.label == "complexity, cuda, repetition 1"
    assert on_gpu.key({"uci": "d"}) != first.key({"uci": "d"})


def test_changes_of_the_user_are_kept(tmp_path: Path) -> None:
    config = Complexity().plan(request(tmp_path, num_walks=8, dim=16))[0].settings["config"]
    assert (config["num_walks"], config["length"], config["dim"]) == (8, 2, 16)


def test_measured_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = random_events(0, num_links=200, span=1000)
    settings = dict(Complexity().plan(request(tmp_path, num_walks=4, dim=4))[0].settings) | {"sizes": 4}
    monkeypatch.setattr(Task, "events", lambda self: events)
    reports: list[dict[str, float]] = []
    found = measure(Task("uci", settings, {}, "cpu", 1, tmp_path), reports.append)
    links = [row["links"] for row in found["rows"]]
    assert links == sorted(links)
    assert len(set(links)) == 4
    for row in found["rows"]:
        assert row["links"] < row["draws"] <= 3 * row["links"] * 4 * 2  # source, destination, negative; M; m
    assert reports[-1] == {"done": 1.0}


@pytest.mark.parametrize(
    ("exponent", "claim", "linear"), [(1.0, "confirmed", "linear"), (2.0, "not confirmed", "not linear")]
)
def test_the_report_says_whether_costs_are_linear(exponent: float, claim: str, linear: str) -> None:
    section = Complexity().show(gather(repetition(exponent)))
    assert section is not None
    assert section.text[-1].startswith(f"**UCI, CPU.** The paper's claim is **{claim}**")
    assert f"the time of an epoch is {linear} (R² = " in section.text[-1]
    assert section.tables[0].rows[1][0] == "an epoch"
    assert section.tables[0].rows[1][-1] == ("yes" if claim == "confirmed" else "no")
    assert section.tables[1].rows[-1][:3] == ["10,000", "0.01", "100,000,000"]
    assert len(section.plots) == 1


def test_nothing_to_show() -> None:
    assert Complexity().show(gather()) is None


def test_times_are_measured_one_after_the_other(tmp_path: Path) -> None:
    class Nothing(Complexity):
        def plan(self, request: Request) -> list:
            return []

    sweep = Sweep(Nothing(), {}, tmp_path, 1, "cawn paper", device="cpu", jobs=4, quiet=True)
    assert sweep.run() == []
    assert sweep.jobs == 1
