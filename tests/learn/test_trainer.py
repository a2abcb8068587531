"""Training: it learns a law, stops and resumes exactly, and keeps its folder whole."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import cawn
from cawn.data import laws
from cawn.data.decays import LADDERS
from cawn.interrupt import Interrupt
from cawn.learn import evaluation
from cawn.learn.splits import split
from cawn.learn.trainer import Trainer
from cawn.systems.cawn.config import Config
from cawn.systems.cawn.system import decays
from ctrl_c import interrupted
from networks import store
from tolerances import SCORES

TINY = Config(alpha="ladder", num_walks=8, length=2, dim=8, frequencies=4, batch_size=64, epochs=3, lr=3e-3)


@pytest.fixture(scope="module")
def events() -> cawn.Events:
    return laws.triadic_closure(60, 800, seed=0).events


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def whole(events, one_thread, tmp_path_factory):
    """A run that nothing stopped."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    return cawn.train(events, TINY, seed=3, out=out, quiet=True, kinds=("random",))


def weights(run) -> dict[str, torch.Tensor]:
    return run.model.state_dict()


def assert_same_weights(a, b) -> None:
    for name, value in weights(a).items():
        assert torch.equal(value, weights(b)[name]), name


@pytest.mark.parametrize("task", ["transductive", "inductive"])
def test_it_learns_a_law_and_applies_it_to_hidden_nodes(task: str) -> None:
    """Half of the links close a triangle. A rule that knows the pairs' past is no better than chance."""
    events = laws.triadic_closure(200, 6_000, seed=1, noise=0.1).events
    config = TINY.with_(num_walks=16, dim=16, epochs=4)
    run = cawn.train(events, config, task=task, seed=0, quiet=True, kinds=("random",))
    large = [row for row in run.results if row["count"] >= 100]  # few links of hidden nodes link two of them
    assert large
    for row in large:
        edgebank = row["rules"]["edgebank"]["auc"]
        assert row["model"]["auc"] > 0.62 > edgebank, row


def test_nothing_is_learned_where_there_is_no_law() -> None:
    events = laws.null(200, 4_000, seed=1).events
    run = cawn.train(events, TINY, seed=0, quiet=True, kinds=("random",))
    assert abs(run.results[0]["model"]["auc"] - 0.5) < 0.06


def test_a_seed_is_a_run(events, whole) -> None:
    same, other = (cawn.train(events, TINY, seed=seed, quiet=True, kinds=("random",)) for seed in (3, 4))
    assert_same_weights(whole, same)
    assert whole.results == same.results
    assert not all(torch.equal(value, weights(other)[name]) for name, value in weights(whole).items())


@pytest.mark.parametrize("stop_at", [1, 9, 17])
def test_an_interrupted_run_resumes_to_the_same_weights(
    events, whole, tmp_path: Path, monkeypatch, stop_at: int
) -> None:
    check, taken = Interrupt.check, []

    def stopping(self):
        taken.append(None)
        self.asked = len(taken) == stop_at  # as Ctrl-C does in the middle of a step
        check(self)

    monkeypatch.setattr(Interrupt, "check", stopping)
    with pytest.raises(KeyboardInterrupt):
        cawn.train(events, TINY, seed=3, out=tmp_path / "part", quiet=True)
    monkeypatch.setattr(Interrupt, "check", check)
    resumed = cawn.train(events, TINY, seed=3, out=tmp_path / "part", quiet=True, resume=True, kinds=("random",))
    assert_same_weights(whole, resumed)
    assert whole.results == resumed.results
    logs = [(folder / "metrics.jsonl").read_text().splitlines() for folder in (whole.folder, tmp_path / "part")]
    assert logs[0] == logs[1] == [json.dumps(row) for row in whole.epochs]


def test_ctrl_c_leaves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    stopped = interrupted(
        "import cawn; from cawn import laws; from cawn.systems.cawn.config import Config\n"
        "events = laws.null(60, 400, seed=0).events\n"
        f"cawn.train(events, Config(alpha='ladder', num_walks=8, dim=4), out={str(tmp_path / 'r')!r})"
    )
    assert stopped.returncode != 0
    assert f"cawn train --resume -o {tmp_path / 'r'}" in stopped.stderr
    assert (tmp_path / "r" / "checkpoint.safetensors").exists()


def test_the_run_folder(events, tmp_path: Path) -> None:
    run = cawn.train(events, TINY, task="inductive", seed=1, out=tmp_path / "run", quiet=True)
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    network, index = (
        json.loads((tmp_path / "run" / "run.json").read_text())[k]["folder"] for k in ("network", "index")
    )
    expected = [".lock", "checkpoint.safetensors", "config.toml", index, "metrics.jsonl", network, "report.json"]
    expected += ["results.json", "run.json", "weights.safetensors"]
    assert names == expected
    assert Config.from_toml((tmp_path / "run" / "config.toml").read_text()) == TINY
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results == run.results
    assert {row["negatives"] for row in results} == {"random", "historical", "inductive"}
    for row in results:
        assert set(row["rules"]) == {"rates only", "recency", "edgebank", "edgebank (window)", "popularity"}
        assert row["trained_with"] == "mixed"
        assert row["split"] == split(events, "inductive", seed=1).digest


def test_the_network_of_a_run_is_kept(tmp_path: Path) -> None:
    from cawn.learn.runs import read_events

    named = cawn.Events([0, 1, 2], [1, 2, 0], [3.5, 1.0, 2.0], msg=[[1, 2]] * 3, x=[1, 2, 3], labels=["ä", "b", "c"])
    for events in (named, cawn.Events([0], [5], [2**62])):
        store(tmp_path, events)
        back = read_events(tmp_path)
        for name in ("src", "dst", "t", "msg", "x", "labels"):
            np.testing.assert_array_equal(getattr(back, name), getattr(events, name))
        assert back.num_nodes == events.num_nodes
    next(tmp_path.glob("network-*/src.npy")).write_bytes(b"damaged")
    with pytest.raises(cawn.StorageError, match="missing or damaged"):
        read_events(tmp_path)


def test_bad_folders(events, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    cawn.train(events, TINY, out=folder, quiet=True, kinds=("random",))
    with pytest.raises(cawn.QueryError, match="holds a run already"):
        cawn.train(events, TINY, out=folder, quiet=True)
    with pytest.raises(cawn.QueryError, match=r"another config \(lr, dim\)"):
        cawn.train(events, TINY.with_(dim=4, lr=1.0), out=folder, quiet=True, resume=True)
    with pytest.raises(cawn.QueryError, match=r"other task, seed, .*split"):
        cawn.train(events, TINY, seed=5, task="inductive", out=folder, quiet=True, resume=True)
    with pytest.raises(cawn.StorageError, match="holds no run"):
        cawn.train(events, TINY, out=tmp_path / "nowhere", quiet=True, resume=True)
    with pytest.raises(cawn.QueryError, match="needs out="):
        cawn.train(events, TINY, quiet=True, resume=True)
    settings = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text("dim = = 3")
    with pytest.raises(cawn.StorageError, match=r"config\.toml: damaged, or changed"):
        cawn.train(events, TINY, out=folder, quiet=True, resume=True)
    (folder / "config.toml").write_text(settings)
    (folder / "checkpoint.safetensors").write_bytes(b"damaged")
    with pytest.raises(cawn.StorageError, match="damaged"):
        cawn.train(events, TINY, out=folder, quiet=True, resume=True)
    description = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(description | {"format": 99, "cawn": "9.9"}))
    with pytest.raises(cawn.StorageError, match=r"another version of cawn \(9.9\)"):
        cawn.train(events, TINY, out=folder, quiet=True, resume=True)
    (folder / "run.json").write_text("{")
    with pytest.raises(cawn.StorageError, match="damaged"):
        cawn.train(events, TINY, out=folder, quiet=True, resume=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(cawn.StorageError, match="cannot be written"):
        cawn.train(events, TINY, out=tmp_path / "file" / "run", quiet=True)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    from cawn.files import write_atomically

    (tmp_path / "kept").write_text("old")
    with pytest.raises(cawn.StorageError, match="No space left on device"):
        write_atomically(tmp_path / "kept", lambda _: Path("/dev/full").write_text("x" * 10))
    assert (tmp_path / "kept").read_text() == "old"


def test_early_stopping_restores_the_best_weights(events, monkeypatch) -> None:
    from cawn.learn import metrics

    values = iter([0.5, 0.9, 0.7, 0.6, 0.5, 0.99])
    monkeypatch.setattr(metrics, "average_precision", lambda *_: next(values, 0.1))
    trainer = Trainer(events, TINY.with_(epochs=20), quiet=True)
    while not trainer._finished():
        trainer._epoch()
    assert [row["val_ap"] for row in trainer.log] == [0.5, 0.9, 0.7, 0.6, 0.5]
    assert trainer.state.best_epoch == 1


def test_alpha_auto_is_settled_before_training_and_kept(events, tmp_path: Path, capsys) -> None:
    config = TINY.with_(alpha="auto", epochs=1)
    run = cawn.train(events, config, seed=0, out=tmp_path, kinds=("random",))
    assert "decays: " in capsys.readouterr().err
    assert run.alpha in [
        decays(config, events[split(events, "transductive", seed=0).train].intensity, n) for n in LADDERS
    ]
    again = cawn.train(events, config, seed=0, out=tmp_path, resume=True, kinds=("random",))
    assert "decays: " not in capsys.readouterr().err
    assert again.alpha == run.alpha
    assert_same_weights(run, again)


def renamed(events: cawn.Events, number) -> cawn.Events:
    return cawn.Events(number[events.src], number[events.dst], events.t, num_nodes=len(number))


@pytest.mark.parametrize("task", ["transductive", "inductive"])
def test_names_of_nodes_change_no_weight(events, task: str) -> None:
    config = TINY.with_(epochs=1, negatives="mixed")
    other = renamed(events, np.random.default_rng(0).permutation(events.num_nodes))
    a, b = (cawn.train(e, config, task=task, quiet=True, kinds=("random",)) for e in (events, other))
    for name, value in weights(a).items():
        assert torch.allclose(value, weights(b)[name], rtol=1e-5, atol=1e-6), name


def test_what_is_chosen_before_training_follows_from_the_training_links(events) -> None:
    """Test links among other nodes, hundreds of new ones, move neither decays nor the unit of time."""
    test = split(events, "transductive", seed=0).test["all"]
    src, dst = events.src.copy(), events.dst.copy()
    rng = np.random.default_rng(0)
    src[test], dst[test] = rng.permutation(src[test]), 60 + np.arange(len(test))
    a, b = (Trainer(e, TINY, quiet=True) for e in (events, cawn.Events(src, dst, events.t)))
    assert a.context.facts == b.context.facts
    for mine, theirs in zip(a.training.batches(0, 0), b.training.batches(0, 0), strict=True):
        for one, other in zip(mine[:4], theirs[:4], strict=True):
            np.testing.assert_array_equal(one, other)


def test_hidden_nodes_do_not_move_the_decays(events) -> None:
    parts = split(events, "inductive", seed=0)
    known = np.flatnonzero(np.bincount(np.append(events.src[parts.train], events.dst[parts.train])))
    tau = 2 * len(parts.train) / len(known) / float(np.ptp(events.t[parts.train]))
    facts = Trainer(events, TINY, task="inductive", quiet=True).context.facts
    assert facts["alpha"] == pytest.approx(decays(TINY, tau), rel=1e-12)


def test_the_unit_of_time_changes_nothing(events) -> None:
    scaled = cawn.Events(events.src, events.dst, events.t * 1024, num_nodes=events.num_nodes)
    a, b = (cawn.train(e, TINY.with_(epochs=1), seed=0, quiet=True, kinds=("random",)) for e in (events, scaled))
    assert a.results[0]["rules"] == b.results[0]["rules"]
    assert a.results[0]["model"]["auc"] == pytest.approx(b.results[0]["model"]["auc"], abs=0.05)


@pytest.mark.parametrize("preset", ["paper-mean", "paper-attn"])
def test_the_papers_presets_learn(preset: str) -> None:
    """Which of two pairs links next is told by the walks alone: popularity and activity are equal."""
    config = Config.preset(preset).with_(num_walks=8, dim=8, frequencies=4, epochs=4, lr=1e-2)
    run = cawn.train(laws.two_pairs(20, 20).events, config, seed=0, quiet=True, kinds=("random",))
    assert run.results[0]["model"]["auc"] > 0.9


def test_scores_go_by_attributes_of_links_and_nodes() -> None:
    plain = laws.triadic_closure(60, 800, seed=0).events
    rng = np.random.default_rng(0)
    msg, x = rng.normal(size=(800, 2)), rng.normal(size=(60, 1))
    events = cawn.Events(plain.src, plain.dst, plain.t, msg=msg, x=x)
    run = cawn.train(events, TINY.with_(epochs=1, directed=True), quiet=True, kinds=("historical",))
    ends = plain.src[-50:], plain.dst[-50:], plain.t[-50:]

    def logits(**attributes: np.ndarray) -> np.ndarray:
        changed = cawn.Events(plain.src, plain.dst, plain.t, **{"msg": msg, "x": x} | attributes)
        return run.system.scorer(changed).logits(*ends, seed=1)

    truth = logits()
    assert np.array_equal(truth, logits())
    assert (np.abs(logits(msg=-msg) - truth) > SCORES).mean() > 0.5
    assert (np.abs(logits(x=-x) - truth) > SCORES).mean() > 0.5


def test_several_seeds(events, tmp_path: Path) -> None:
    config = TINY.with_(epochs=1)
    runs, summary = cawn.train_seeds(events, config, seeds=(1, 2, 3), out=tmp_path, quiet=True, kinds=("random",))
    aucs = [run.results[0]["model"]["auc"] for run in runs]
    mean, half = summary[0]["auc"]
    assert mean == pytest.approx(np.mean(aucs))
    assert half == pytest.approx(4.303 * np.std(aucs, ddof=1) / np.sqrt(3))
    assert {path.name for path in tmp_path.iterdir()} == {"seed-1", "seed-2", "seed-3", "summary.json"}
    with pytest.raises(cawn.QueryError, match="at least one seed"):
        cawn.train_seeds(events, config, seeds=())


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
        with pytest.raises(cawn.DeviceError, match=r"CPU alone|no CUDA|CUDA does not start"):
            cawn.train(events, TINY, device="cuda")


def test_too_few_links() -> None:
    with pytest.raises(cawn.DataError, match="are too few"):
        cawn.train(cawn.Events([0, 1], [1, 2], [1, 2]), TINY)


def test_tensorboard_on_request(events, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = cawn.train(events, TINY, seed=0, out=tmp_path, quiet=True, tensorboard=True, kinds=("random",))
    curves = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [point.value for point in curves.Scalars("val_ap")] == pytest.approx([row["val_ap"] for row in run.epochs])
    with pytest.raises(cawn.QueryError, match="needs out="):
        cawn.train(events, TINY, tensorboard=True, quiet=True)


def test_results_rank_links_among_many(events) -> None:
    run = cawn.train(events, TINY.with_(epochs=1), seed=0, quiet=True, kinds=("random", "historical"))
    ranks = run.results[0]["ranks"]
    assert ranks["links"] == evaluation.RANKED_LINKS
    assert ranks["candidates"] == 100
    for figures in (ranks["model"], ranks["rates only"], ranks["recency"]):
        assert 0 < figures["mrr"] <= 1
        assert figures["hits@1"] <= figures["hits@3"] <= figures["hits@10"]
    assert "ranks" not in run.results[1]


def test_a_split_by_time_is_kept_with_the_run(events, tmp_path: Path) -> None:
    cuts = cawn.TimeSplit(train_until=events.t[400].item(), test_from=events.t[600].item())
    config = TINY.with_(epochs=1)
    events = events[:700]
    run = cawn.train(events, config, out=tmp_path, split=cuts, quiet=True, kinds=("random",))
    assert run.results[0]["count"] == int((events.t >= cuts.test_from).sum())
    assert cawn.evaluate_run(tmp_path, ("random",))[0]["split"] == run.results[0]["split"]
    again = cawn.train(events, config, out=tmp_path, resume=True, quiet=True, kinds=("random",))
    assert again.results == run.results
    with pytest.raises(cawn.QueryError, match=r"other .*split, cuts"):
        cawn.train(events, config, out=tmp_path, resume=True, split=cawn.TimeSplit(train_share=0.5), quiet=True)


def with_columns(events: cawn.Events, **columns) -> cawn.Events:
    return cawn.Events(events.src, events.dst, events.t, num_nodes=events.num_nodes, **columns)


def one_epoch(events: cawn.Events) -> Trainer:
    trainer = Trainer(events, TINY.with_(negatives="mixed"), quiet=True)
    list(trainer._steps(0, 0))
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


def test_own_negatives_are_tested_and_hidden_nodes_are_none(events) -> None:
    own = np.where(np.arange(len(events)) % 3 == 0, (events.dst + 1) % 60, -1)
    given = with_columns(events, negative=own)
    run = cawn.train(given, TINY.with_(epochs=1), task="inductive", quiet=True, kinds=("random",))
    rows = [row for row in run.results if row["negatives"] == "own"]
    parts = split(given, "inductive", seed=0)
    assert [row["count"] for row in rows] == [int((own[part] >= 0).sum()) for part in parts.test.values()]
    assert all(row["trained_with"] == "own, random" or row["trained_with"] == "own, mixed" for row in rows)
    trainer = Trainer(given, TINY, task="inductive", quiet=True)
    for negatives in (trainer.training.negatives(0), trainer.negatives):
        assert not trainer.split.hidden[negatives].any()


def test_training_links_without_weight_are_refused(events) -> None:
    weight = (np.arange(len(events)) > 0.9 * len(events)).astype(np.float32)
    with pytest.raises(cawn.DataError, match="training part have weight 0"):
        cawn.train(with_columns(events, weight=weight), TINY, quiet=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "tpu"}, "device is 'tpu'"),
        ({"tensorboard": True}, "needs out="),
        ({"tensorboard": True, "out": "new"}, "needs the package tensorboard"),
        ({"out": "file"}, "file"),
        ({"out": "file/run"}, "cannot be written"),
        ({"kinds": ("frob",)}, "negatives 'frob'"),
        ({"seed": -1}, "seed"),
        ({"split": cawn.TimeSplit(test_from=60_000)}, "the test part would be empty"),
        ({"resume": True}, "needs out="),
    ],
)
def test_what_can_be_refused_is_refused_before_the_decays_are_compared(
    events, tmp_path: Path, monkeypatch, options: dict, message: str
) -> None:
    monkeypatch.setattr("cawn.learn.experiments.compare_alternatives", lambda *_, **__: pytest.fail("too late"))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(cawn.CawnError, match=message):
        cawn.train(events, TINY.with_(alpha="auto"), **options)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_impossible_negatives_are_refused_before_the_decays_are_compared(monkeypatch) -> None:
    monkeypatch.setattr("cawn.learn.experiments.compare_alternatives", lambda *_, **__: pytest.fail("too late"))
    with pytest.raises(cawn.DataError, match="one destination"):
        cawn.train(cawn.Events([0] * 90, [1] * 90, np.arange(90)))


def test_progress_is_told(events, capsys) -> None:
    cawn.train(events, TINY.with_(alpha="auto", epochs=2), kinds=("random",))
    shown = capsys.readouterr().err
    assert "3 short trainings of 9 steps" in shown
    first, last = (line for line in shown.splitlines() if line.startswith("epoch "))
    assert first.startswith("epoch 1/2  loss ")
    assert "links/s  at most " in first
    assert last.startswith("epoch 2/2  loss ")
    assert "left" not in last


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        ("experiments.compare_alternatives", "stopped; nothing was written"),
        ("trainer.evaluate", "stopped; to go on: cawn train"),
    ],
)
def test_ctrl_c_in_any_phase_is_one_line(events, tmp_path: Path, monkeypatch, capsys, phase: str, message: str) -> None:
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(f"cawn.learn.{phase}", interrupt)
        with pytest.raises(KeyboardInterrupt):
            cawn.train(events, TINY.with_(alpha="auto", epochs=1), out=tmp_path / "run", kinds=("random",))
    assert capsys.readouterr().err.splitlines()[-1].startswith(message)
    resume = (tmp_path / "run").exists()
    run = cawn.train(
        events, TINY.with_(alpha="auto", epochs=1), out=tmp_path / "run", resume=resume, quiet=True, kinds=("random",)
    )
    assert len(run.results) == 1
