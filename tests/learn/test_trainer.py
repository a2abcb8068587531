"""Training: it learns a law, stops and resumes exactly."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import cawn
from cawn.data import laws
from cawn.learn.run_info import run_info
from cawn.learn.runs import read_run
from cawn.learn.trainer import Trainer
from ctrl_c import interrupted, stopped_after
from networks import with_columns
from small_runs import TINY, assert_same_weights, weights


@pytest.mark.parametrize("task", ["transductive", "inductive"])
def test_it_learns_a_law_and_applies_it_to_hidden_nodes(task: str) -> None:
    """Half of the links close a triangle. A rule that knows the pairs' past is no better than chance."""
    events = laws.triadic_closure(200, 6_000, seed=1, noise=0.1).events
    config = TINY.with_(num_walks=16, dim=16, epochs=4)
    run = cawn.train(events, config, task=cawn.Task(nodes=task, negatives=("random",)), seed=0, quiet=True)
    large = [row for row in run.results.tests if row["count"] >= 100]  # few links of hidden nodes link two of them
    assert large
    for row in large:
        edgebank = row["baselines"]["edgebank"]["auc"]
        assert row["model"]["auc"] > 0.62 > edgebank, row


def test_nothing_is_learned_where_there_is_no_law() -> None:
    events = laws.null(200, 4_000, seed=1).events
    run = cawn.train(events, TINY, seed=0, quiet=True, task=cawn.Task(negatives=("random",)))
    assert abs(run.results.tests[0]["model"]["auc"] - 0.5) < 0.06


def test_a_seed_is_a_run(events, whole) -> None:
    same, other = (
        cawn.train(events, TINY, seed=seed, quiet=True, task=cawn.Task(negatives=("random",))) for seed in (3, 4)
    )
    assert_same_weights(whole, same)
    assert whole.results == same.results
    assert not all(torch.equal(value, weights(other)[name]) for name, value in weights(whole).items())


@pytest.mark.parametrize("steps", [1, 9, 17])
def test_an_interrupted_run_resumes_to_the_same_weights(events, whole, tmp_path: Path, steps: int) -> None:
    with stopped_after(steps):
        cawn.train(events, TINY, seed=3, out=tmp_path / "part", quiet=True)
    resumed = cawn.train(
        events, TINY, seed=3, out=tmp_path / "part", quiet=True, resume=True, task=cawn.Task(negatives=("random",))
    )
    assert_same_weights(whole, resumed)
    assert whole.results == resumed.results
    logs = [(folder / "metrics.jsonl").read_text().splitlines() for folder in (whole.folder, tmp_path / "part")]
    assert logs[0] == logs[1] == [json.dumps(row) for row in whole.epochs]


def test_the_cost_of_a_resumed_run_is_a_sum(events, tmp_path: Path) -> None:
    """Each part of a resumed run adds its time; the results do not depend on it."""
    with stopped_after(9):
        cawn.train(events, TINY, seed=3, out=tmp_path / "run", quiet=True)
    trainer = Trainer(events, TINY, seed=3, out=tmp_path / "run", quiet=True, resume=True)
    assert 0 < trainer.state.step_seconds <= trainer.state.seconds
    trainer.state.seconds += 1000
    run = trainer.fit()
    cost = run.report["cost"]
    assert json.loads((tmp_path / "run" / "report.json").read_text())["cost"] == cost
    assert cost["seconds"] > 1000
    assert cost["seconds_per_epoch"] == cost["seconds"] / len(run.epochs)
    assert cost["links_per_second"] > 0
    assert cost["pairs_per_second"] > 0
    assert cost["peak_memory"] > 10**7
    assert cost["weights"] == sum(weight.numel() for weight in weights(run).values())


def test_ctrl_c_leaves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    stopped = interrupted(
        "import cawn; from cawn import laws; from cawn.caw.config import Config\n"
        "events = laws.null(60, 400, seed=0).events\n"
        f"cawn.train(events, Config(alpha='ladder', num_walks=8, dim=4), out={str(tmp_path / 'r')!r})"
    )
    assert stopped.returncode != 0
    assert f"cawn train --resume -o {tmp_path / 'r'}" in stopped.stderr
    assert (tmp_path / "r" / "checkpoint.safetensors").exists()


def test_early_stopping_restores_the_best_weights(events, monkeypatch) -> None:
    from cawn.learn import metrics

    values = iter([0.5, 0.9, 0.7, 0.6, 0.5, 0.99])
    monkeypatch.setattr(metrics, "average_precision", lambda *_: next(values, 0.1))
    trainer = Trainer(events, TINY.with_(epochs=20), quiet=True)
    while not trainer._finished():
        trainer._epoch()
    assert [row["val_ap"] for row in trainer.state.log] == [0.5, 0.9, 0.7, 0.6, 0.5]
    assert trainer.state.best_epoch == 1


def renamed(events: cawn.Events, number) -> cawn.Events:
    return cawn.Events(number[events.src], number[events.dst], events.t, num_nodes=len(number))


@pytest.mark.parametrize("task", ["transductive", "inductive"])
def test_names_of_nodes_change_no_weight(events, task: str) -> None:
    config = TINY.with_(epochs=1, negatives="mixed")
    other = renamed(events, np.random.default_rng(0).permutation(events.num_nodes))
    a, b = (
        cawn.train(e, config, task=cawn.Task(nodes=task, negatives=("random",)), quiet=True) for e in (events, other)
    )
    for name, value in weights(a).items():
        assert torch.allclose(value, weights(b)[name], rtol=1e-5, atol=1e-6), name


def test_the_unit_of_time_changes_nothing(events) -> None:
    scaled = cawn.Events(events.src, events.dst, events.t * 1024, num_nodes=events.num_nodes)
    a, b = (
        cawn.train(e, TINY.with_(epochs=1), seed=0, quiet=True, task=cawn.Task(negatives=("random",)))
        for e in (events, scaled)
    )
    assert a.results.tests[0]["baselines"] == b.results.tests[0]["baselines"]
    assert a.results.tests[0]["model"]["auc"] == pytest.approx(b.results.tests[0]["model"]["auc"], abs=0.05)


def test_memory_does_not_grow_from_epoch_to_epoch(events) -> None:
    import gc

    from benchmarks.report import resident_bytes

    trainer = Trainer(events, TINY.with_(epochs=60, patience=60), quiet=True)
    sizes = []
    for _ in range(12):
        trainer._epoch()
        gc.collect()
        sizes.append(resident_bytes())
    assert sizes[-1] < 1.05 * sizes[3]


def test_devices(events) -> None:
    with pytest.raises(cawn.QueryError, match="device is 'tpu'"):
        cawn.train(events, TINY, device="tpu")
    if not torch.cuda.is_available():
        with pytest.raises(cawn.DeviceError, match=r"CPU only|no CUDA|CUDA does not start"):
            cawn.train(events, TINY, device="cuda")


def test_too_few_links() -> None:
    with pytest.raises(cawn.DataError, match="are too few"):
        cawn.train(cawn.Events([0, 1], [1, 2], [1, 2]), TINY)


def one_epoch(events: cawn.Events) -> Trainer:
    trainer = Trainer(events, TINY.with_(negatives="mixed"), quiet=True)
    list(trainer.steps(0, 0))
    return trainer


def test_own_negatives_and_weights(events) -> None:
    """Links of weight 0 have no influence on the weights, own negatives replace drawn ones, and only ratios count."""
    rng = np.random.default_rng(0)
    weight = rng.choice([0.0, 1.0, 3.0], len(events)).astype(np.float32)
    own = np.where(rng.random(len(events)) < 0.5, rng.integers(0, 60, len(events)), -1)
    base = one_epoch(with_columns(events, weight=weight, negative=own))
    assert (events.negative, base.training.weights.mean()) == (None, pytest.approx(1, abs=1e-6))
    links = base.training.positions
    assert (weight[links] > 0).all()
    assert len(links) < len(base.split.train)
    given = own[links] >= 0
    np.testing.assert_array_equal(base.training.negatives(7)[given], own[links][given])
    same = {
        "doubled": with_columns(events, weight=2 * weight, negative=own),
        "of weight 0": with_columns(events, weight=weight, negative=np.where(weight == 0, 5, own)),
    }
    for name, other in same.items():
        for mine, theirs in zip(
            base.system.module.parameters(), one_epoch(other).system.module.parameters(), strict=True
        ):
            assert torch.equal(mine, theirs), name
    for other in (with_columns(events, negative=own), with_columns(events, weight=weight)):
        pairs = zip(base.system.module.parameters(), one_epoch(other).system.module.parameters(), strict=True)
        assert not all(torch.equal(mine, theirs) for mine, theirs in pairs)


def test_training_links_without_weight_are_refused(events) -> None:
    weight = (np.arange(len(events)) > 0.9 * len(events)).astype(np.float32)
    with pytest.raises(cawn.DataError, match="training part have weight 0"):
        cawn.train(with_columns(events, weight=weight), TINY, quiet=True)


def test_refit_serves_weights_trained_on_all_links(events, whole, tmp_path: Path) -> None:
    """The results stay those of the evaluated weights, which are kept beside the served ones."""
    own = laws.triadic_closure(60, 800, seed=0).events
    run = cawn.train(
        own, TINY, seed=3, out=tmp_path / "run", quiet=True, task=cawn.Task(negatives=("random",), refit=True)
    )
    assert run.results == whole.results == cawn.learn.experiments.evaluate(tmp_path / "run", negatives=("random",))
    assert run.report["served"] == "all links"
    assert whole.report["served"] == run.results.tests[0]["weights"] == "training links"
    best = max(range(len(whole.epochs)), key=lambda epoch: whole.epochs[epoch]["val_ap"]) + 1
    assert run.report["refit"]["epochs"] == best
    assert run.report["refit"]["links"] == len(events)
    for name, value in read_run(tmp_path / "run", evaluated=True).weights.items():
        np.testing.assert_array_equal(value, weights(whole)[name])
    assert any(not torch.equal(value, weights(whole)[name]) for name, value in weights(run).items())

    assert run.calibration.since[-1] == events.t[-1] > whole.calibration.since[-1]  # all links are known to the weights
    assert run.calibration.steps[-1] == whole.calibration.steps[-1]
    src, dst, t = events.labels[events.src[-9:]], events.labels[events.dst[-9:]], events.t[-9:]
    served = cawn.LinkPredictor.load(tmp_path / "run")
    scores = served.score(src, dst, t)
    np.testing.assert_array_equal(scores, cawn.LinkPredictor.of(run).score(src, dst, t))
    assert (scores != cawn.LinkPredictor.load(whole.folder).score(src, dst, t)).all()
    served.save(tmp_path / "copy")
    np.testing.assert_array_equal(scores, cawn.LinkPredictor.load(tmp_path / "copy").score(src, dst, t))
    assert cawn.learn.experiments.evaluate(tmp_path / "copy", negatives=("random",)) == whole.results


@pytest.mark.parametrize("nodes", ["transductive", "inductive"])
def test_an_interrupted_refit_resumes_to_the_same_weights(events, tmp_path: Path, nodes: str) -> None:
    config = TINY.with_(epochs=2)
    asked = cawn.Task(nodes, negatives=("random",), baselines=False)
    options = {"task": replace(asked, refit=True), "quiet": True}
    straight = cawn.train(events, config, seed=3, **options)
    steps = Trainer(events, config, seed=3, task=nodes, quiet=True).num_steps * 2
    said: list[str] = []
    with stopped_after(steps + 3):
        cawn.train(events, config, seed=3, out=tmp_path / "run", callback=said.append, **options)
    options["task"] = asked  # the run knows that it is refitted
    assert "stopped in refit epoch 1/" in said[-1].text
    assert run_info(tmp_path / "run")["served"] == "training links"
    assert run_info(tmp_path / "run")["refit_unfinished"]
    with stopped_after(2):  # the training is not repeated
        cawn.train(events, config, seed=3, out=tmp_path / "run", resume=True, **options)
    resumed = cawn.train(events, config, seed=3, out=tmp_path / "run", resume=True, **options)
    assert_same_weights(straight, resumed)
    assert straight.results == resumed.results
    assert run_info(tmp_path / "run")["served"] == "all links"
    assert not run_info(tmp_path / "run")["refit_unfinished"]


def test_a_finished_run_can_be_refitted(events, whole, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole.folder, folder)
    options = {"seed": 3, "out": folder, "quiet": True, "resume": True}
    run = cawn.train(events, TINY, task=cawn.Task(negatives=("random",), refit=True), **options)
    assert (run.report["served"], run.results) == ("all links", whole.results)
    task = cawn.Task(negatives=("random",))
    assert_same_weights(run, cawn.train(events, TINY, task=task, **options))  # the choice is recorded
