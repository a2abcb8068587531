"""`LinkPredictor` and the command line with every system: what each can do, and one clear line for what it cannot."""

import json
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

import cawn
from cawn.systems.base import Embedder, Seeded
from command_line import assert_refused, call_cawn
from systems.small_settings import NAMES, small

NOW = 1_000

every_system = pytest.mark.parametrize("name", NAMES)


def links() -> list[tuple[str, str, int]]:
    rng = np.random.default_rng(3)
    ends = rng.integers(0, 12, (240, 2))
    return [(f"n{u}", f"n{v}", int(t)) for (u, v), t in zip(ends, np.sort(rng.integers(0, 900, 240)), strict=True)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """A folder with a run of every system, trained when it is first asked for."""
    folder = tmp_path_factory.mktemp("runs")
    rows = "\n".join(f"{u},{v},{t}" for u, v, t in links())
    (folder / "links.csv").write_text(f"src,dst,time\n{rows}\n")
    return folder


def run_of(runs: Path, name: str) -> Path:
    if not (runs / name).exists():
        options = {"quiet": True, "task": cawn.Task(negatives=("random",), baselines=False), "device": "cpu"}
        cawn.train(cawn.read(runs / "links.csv"), small(name, epochs=1), out=runs / name, **options)
    return runs / name


@every_system
def test_it_scores_ranks_updates_and_saves(name: str, runs: Path, tmp_path: Path) -> None:
    predictor = cawn.LinkPredictor.load(run_of(runs, name), device="cpu")
    src, dst, t = ["n0", "n3", "stranger"], ["n1", "n4", "n2"], [NOW, 500, NOW]
    scores = predictor.score(src, dst, t)
    assert ((scores >= 0) & (scores <= 1)).all()

    ranking = predictor.rank("n3", NOW, k=5)
    assert [row.probability for row in ranking] == sorted((row.probability for row in ranking), reverse=True)
    (ranked, stranger) = predictor.rank_many(["n3", "stranger"], NOW, k=5)
    assert [row.name for row in ranked] == [row.name for row in ranking]
    assert len(stranger) == 5
    alone = predictor.score("n3", [row.name for row in ranking], NOW)
    np.testing.assert_allclose(alone, [row.probability for row in ranking], rtol=1e-3)

    new = {"src": ["n3"] * 5 + ["newcomer"], "dst": ["n9"] * 6, "time": [950, 960, 970, 980, 990, 995]}
    assert predictor.update(pa.table(new)).added == 6
    after = predictor.score(src, dst, t)
    assert after[1] == pytest.approx(scores[1], rel=1e-3)  # the past has not changed
    updated = predictor.score(["n3", "newcomer"], ["n9", "n9"], NOW)
    assert np.isfinite(updated).all()
    predictor.save(tmp_path / "saved")
    for same in (cawn.LinkPredictor.load(tmp_path / "saved", device="cpu"), pickle.loads(pickle.dumps(predictor))):
        np.testing.assert_allclose(same.score(["n3", "newcomer"], ["n9", "n9"], NOW), updated, rtol=1e-3)


@every_system
def test_what_it_cannot_do_is_one_line(name: str, runs: Path) -> None:
    folder = run_of(runs, name)
    predictor = cawn.LinkPredictor.load(folder, device="cpu")
    scorer = predictor.snapshot().scorer
    command = ("--src", "n0", "--dst", "n1", "--time", NOW)
    for protocol, ask, reason in (
        (Embedder, lambda: predictor.embed("n0", "n1", NOW), "has no embeddings of pairs"),
        (Seeded, lambda: predictor.score("n0", "n1", NOW, draws=3).probability, "draws no samples: omit draws"),
    ):
        if isinstance(scorer, protocol):
            assert len(ask()) == 1
        else:
            with pytest.raises(cawn.QueryError, match=f"the system '{name}' {reason}"):
                ask()
    if name == "cawn":
        assert predictor.explain("n0", "n1", NOW).walks
        assert predictor.law().shapes
        assert call_cawn("explain", folder, *command, "--device", "cpu").code == 0
        return
    reason = f"the system '{name}' uses no walks, so its scores cannot be explained"
    for ask, asked in ((lambda: predictor.explain("n0", "n1", NOW), command), (predictor.law, ("--global",))):
        with pytest.raises(cawn.QueryError, match=reason):
            ask()
        assert_refused(call_cawn("explain", folder, *asked, "--device", "cpu"), reason)


@every_system
def test_the_command_line(name: str, runs: Path, tmp_path: Path) -> None:
    folder = run_of(runs, name)
    (tmp_path / "pairs.csv").write_text(f"src,dst,time\nn0,n1,{NOW}\nn5,stranger,{NOW}\n")
    predicted = call_cawn("predict", folder, tmp_path / "pairs.csv", "--device", "cpu", "-q")
    assert predicted.code == 0, predicted.err
    ranked = call_cawn("rank", folder, "--node", "n3", "--time", NOW, "--device", "cpu", "--json")
    assert ranked.code == 0, ranked.err
    assert json.loads(ranked.out)
    shown = call_cawn("info", folder)
    assert shown.code == 0, shown.err
    assert name in shown.out


@every_system
def test_running_out_of_memory_names_settings_to_lower(name: str, runs: Path, monkeypatch) -> None:
    config = small(name)
    assert set(config.MEMORY) <= config.to_dict().keys()
    predictor = cawn.LinkPredictor.load(run_of(runs, name), device="cpu")
    trainer = cawn.Trainer(cawn.read(runs / "links.csv"), config, quiet=True, device="cpu")
    for error, kind in (
        (MemoryError(), cawn.QueryError),
        (torch.OutOfMemoryError("CUDA out of memory"), cawn.DeviceError),
    ):

        def fail(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(trainer, "_epoch", fail)
        with pytest.raises(kind, match=f"training; lower {config.to_lower()}"):
            trainer.fit()
        monkeypatch.setattr("cawn.snapshot.in_time_order", fail)
        remedy = f"or train with lower {config.to_lower(scoring=True)}"
        with pytest.raises(kind, match=remedy):
            predictor.score("n0", "n1", NOW)
        with pytest.raises(kind, match=remedy):
            list(predictor.rank_many(["n0"], NOW))
