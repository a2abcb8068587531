"""Trainings as measurements: what they depend on, what they find, and how they resume."""

import json
from pathlib import Path

import pytest

import cawn
from cawn.data import laws
from cawn.learn.reporting import Progress
from cawn.learn.shared_links import write_links
from cawn.paper.measurements import Task
from cawn.paper.training import config_of, measure, reporter, training
from cawn.systems.rates import RatesSettings
from ctrl_c import stopped_after

CONFIG = RatesSettings(epochs=2, batch_size=64)


@pytest.fixture(scope="module")
def links(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("links") / "links"
    write_links(path, laws.triadic_closure(30, 400, seed=0).events)
    return path


def task(links: Path, folder: Path, **more) -> Task:
    settings = dict(training("uci", CONFIG, task="inductive", seed=0, label="rates", **more).settings)
    return Task("uci", json.loads(json.dumps(settings)), {"uci": str(links)}, "cpu", 1, folder)


def test_settings_survive_json() -> None:
    config = cawn.Config(alpha=(1e-5, 1e-6), num_walks=4)
    one = training("uci", config, task="inductive", seed=3, label="CAW-N")
    assert one.label == "CAW-N, inductive, seed 3"
    assert config_of(json.loads(json.dumps(dict(one.settings)))) == config


def test_a_training_and_its_evaluation(links: Path, tmp_path: Path) -> None:
    reports = []
    found = measure(task(links, tmp_path / "run", clocks=("strict", "event"), baselines=True), reports.append)
    json.dumps(found)
    assert {(row["links"], row["clock"]) for row in found["rows"]} >= {
        (kind, clock) for kind in ("new-old", "all") for clock in ("strict", "event")
    }
    assert "recency" in found["rows"][0]["baselines"]
    assert (found["epochs"], len(found["validation"])) == (2, 2)
    assert found["best_epoch"] == 1 + found["validation"].index(max(found["validation"]))
    assert [value["epoch"] for value in reports if "epoch" in value] == [1, 2]
    shares = [value["done"] for value in reports if "done" in value]
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] <= 1


def test_an_interrupted_training_resumes_to_the_same_result(links: Path, tmp_path: Path) -> None:
    whole = measure(task(links, tmp_path / "whole"), lambda _: None)
    with stopped_after(3):
        measure(task(links, tmp_path / "stopped"), lambda _: None)
    resumed = measure(task(links, tmp_path / "stopped"), lambda _: None)
    assert [resumed[name] for name in ("rows", "validation")] == [whole[name] for name in ("rows", "validation")]


def test_the_fraction_done() -> None:
    reports = []
    listen = reporter(reports.append)
    listen(Progress("training", done=5, total=10, epoch=1, epochs=2))
    listen(Progress("epoch", done=10, total=10, epoch=2, epochs=2, metrics={"val_ap": 0.7}))
    listen(Progress("testing", done=1.0))
    assert reports == [
        {"done": pytest.approx(0.2375)},
        {"done": pytest.approx(0.95)},
        {"epoch": 2, "val_ap": 0.7},
        {"done": pytest.approx(1.0)},
    ]
