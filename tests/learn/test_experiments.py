"""`cawn.train` and `cawn.train_seeds`: choices before training, refusals, several seeds."""

from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.data.decays import LADDERS
from cawn.learn import comparison
from cawn.learn.splits import split
from cawn.systems.rates import RatesSettings
from small_runs import TINY, assert_same_weights


def test_alpha_auto_is_settled_before_training_and_kept(events, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(comparison, "MIN_TRIAL_STEPS", 1)
    config = TINY.with_(alpha="auto", epochs=1, batch_size=8)
    run = cawn.train(events, config, seed=0, out=tmp_path, task=cawn.Task(negatives=("random",)))
    assert "decays: " in capsys.readouterr().err
    assert run.alpha in [
        config.decays(events[split(events, "transductive", seed=0).train].intensity, n) for n in LADDERS
    ]
    again = cawn.train(events, config, seed=0, out=tmp_path, resume=True, task=cawn.Task(negatives=("random",)))
    assert "decays: " not in capsys.readouterr().err
    assert again.alpha == run.alpha
    assert_same_weights(run, again)


def test_alpha_auto_compares_nothing_before_a_short_training(events, capsys) -> None:
    run = cawn.train(events, TINY.with_(alpha="auto", epochs=1), seed=0, task=cawn.Task(negatives=("random",)))
    shown = capsys.readouterr().err
    assert "decays: wide (the training is too short for a comparison)" in shown
    assert "comparing" not in shown
    plain = cawn.train(events, TINY.with_(epochs=1), seed=0, task=cawn.Task(negatives=("random",)), quiet=True)
    assert run.alpha == plain.alpha
    assert_same_weights(run, plain)


def test_several_seeds(events, tmp_path: Path) -> None:
    config = TINY.with_(epochs=1)
    task = cawn.Task(negatives=("random",), baselines=False)
    found = cawn.train_seeds(events, config, task=task, seeds=(1, 2, 3), out=tmp_path, quiet=True)
    aucs = found.results.where(metric="auc").by_seed()
    assert list(aucs) == list(found.runs) == [1, 2, 3]
    (auc,) = (row for row in found.to_list() if row["metric"] == "auc")
    assert auc["mean"] == pytest.approx(np.mean(list(aucs.values())))
    assert auc["half"] == pytest.approx(4.303 * np.std(list(aucs.values()), ddof=1) / np.sqrt(3))
    assert {path.name for path in tmp_path.glob("[!.]*")} == {"seed-1", "seed-2", "seed-3", "summary.json"}
    with pytest.raises(cawn.QueryError, match="at least one seed"):
        cawn.train_seeds(events, config, seeds=())
    with pytest.raises(cawn.QueryError, match="holds a run already"):
        cawn.train_seeds(events, config, seeds=[3], out=tmp_path, quiet=True)
    more = cawn.train_seeds(events, config, task=task, seeds=[3, 4], out=tmp_path, resume=True, quiet=True)
    assert more.results.where(seed=3) == found.results.where(seed=3)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(cawn.QueryError, match=r"notes\.txt"):
        cawn.train_seeds(events, config, seeds=[5], out=tmp_path, resume=True, quiet=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "tpu"}, "device is 'tpu'"),
        ({"out": "file"}, "file"),
        ({"out": "file/run"}, "cannot be written"),
        ({"seed": -1}, "seed"),
        ({"task": cawn.Task(split=cawn.TimeSplit(test_from=60_000))}, "the test part would be empty"),
        ({"resume": True}, "needs out="),
    ],
)
def test_what_can_be_refused_is_refused_before_the_decays_are_compared(
    events, tmp_path: Path, monkeypatch, options: dict, message: str
) -> None:
    monkeypatch.setattr("cawn.learn.trainer.Trainer.trial", lambda *_, **__: pytest.fail("too late"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(cawn.CawnError, match=message):
        cawn.train(events, TINY.with_(alpha="auto"), **options)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_impossible_negatives_are_refused_before_the_decays_are_compared(monkeypatch) -> None:
    monkeypatch.setattr("cawn.learn.trainer.Trainer.trial", lambda *_, **__: pytest.fail("too late"))
    with pytest.raises(cawn.DataError, match="one destination"):
        cawn.train(cawn.Events([0] * 90, [1] * 90, np.arange(90)))


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        ("trainer.Trainer._chosen_facts", "stopped; nothing was written"),
        ("testing.evaluate_system", "stopped; to resume: cawn train"),
    ],
)
def test_ctrl_c_in_any_phase_is_one_line(events, tmp_path: Path, monkeypatch, capsys, phase: str, message: str) -> None:
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(f"cawn.learn.{phase}", interrupt)
        with pytest.raises(KeyboardInterrupt):
            cawn.train(
                events, TINY.with_(alpha="auto", epochs=1), out=tmp_path / "run", task=cawn.Task(negatives=("random",))
            )
    assert capsys.readouterr().err.splitlines()[-1].startswith(message)
    resume = (tmp_path / "run").exists()
    run = cawn.train(
        events,
        TINY.with_(alpha="auto", epochs=1),
        out=tmp_path / "run",
        resume=resume,
        quiet=True,
        task=cawn.Task(negatives=("random",)),
    )
    assert len(run.results.tests) == 1


def test_a_run_trained_with_pairs_is_compared_with_all_baselines(events) -> None:
    config = RatesSettings(epochs=1, negatives="pairs", num_negatives=2)
    found = cawn.train(events, config, seed=0, task=cawn.Task(negatives=("random",)), quiet=True).results
    assert {"rates only", "counts"} <= set(found.values("system"))
