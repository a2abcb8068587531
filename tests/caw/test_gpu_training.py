"""Whole runs on a GPU: trained, stopped, resumed, tested and queried there. One of them also in the interpreter."""

import gc
import json
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

import cawn
from cawn.caw.gpu import DeviceBatcher, DeviceEngine, DeviceSteps
from cawn.caw.model import CAWN
from cawn.caw.system import CawnSystem
from cawn.data import laws
from cawn.index.features import NO_SEQUENCES
from cawn.learn.trainer import Trainer
from cawn.systems.graphs import CapturedStep
from ctrl_c import stopped_after
from networks import random_events
from small_runs import assert_same_weights

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:overflow encountered")]
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="too long for the interpreter")

LEAST = cawn.Config(
    alpha=0.1,
    num_walks=2,
    length=1,
    dim=4,
    frequencies=1,
    batch_size=4,
    epochs=1,
    dropout=0.2,
    rates=False,
    **NO_SEQUENCES,
)  # the interpreter takes milliseconds for what a GPU does in nanoseconds
SMALL = cawn.Config(
    alpha="ladder", num_walks=16, dim=16, frequencies=4, batch_size=64, epochs=3, lr=3e-3, negatives="random"
)


def test_a_run_in_the_interpreter(gpu, monkeypatch) -> None:
    """Training and testing go through the kernels, and give what the CPU gives."""
    events = random_events(5, num_nodes=6, num_links=12, span=1000)
    config = LEAST.with_(dropout=0.0)
    monkeypatch.setattr(CAWN, "matmul_dtype", torch.float32)
    monkeypatch.setattr("cawn.learn.evaluation.RANKED_LINKS", 1)
    monkeypatch.setattr("cawn.learn.evaluation.CANDIDATES", 2)
    expected = cawn.train(events, config, device="cpu", quiet=True, task=cawn.Task(negatives=("random",)))
    if gpu.type == "cpu":
        monkeypatch.setattr(CawnSystem, "engine", lambda self, batcher, *_: DeviceEngine(self.module, batcher, gpu))
    found = cawn.train(events, config, device=gpu.type, quiet=True, task=cawn.Task(negatives=("random",)))
    for mine, theirs in zip(found.model.parameters(), expected.model.parameters(), strict=True):
        assert torch.allclose(mine.cpu(), theirs, atol=2e-4)
    assert found.results.tests[0]["model"]["auc"] == pytest.approx(expected.results.tests[0]["model"]["auc"], abs=1e-6)


@needs_cuda
def test_an_interrupted_run_resumes_to_the_same_weights(tmp_path: Path) -> None:
    events = laws.triadic_closure(60, 1_000, seed=0).events
    whole = cawn.train(events, SMALL, seed=3, device="cuda", quiet=True, task=cawn.Task(negatives=("random",)))
    options = {
        "seed": 3,
        "device": "cuda",
        "quiet": True,
        "task": cawn.Task(negatives=("random",)),
        "out": tmp_path / "run",
    }
    with stopped_after(5):
        cawn.train(events, SMALL, **options)
    resumed = cawn.train(events, SMALL, **options, resume=True)
    assert_same_weights(whole, resumed)
    assert whole.results == resumed.results


@needs_cuda
def test_both_processors_learn_the_same_law(tmp_path: Path) -> None:
    events = laws.triadic_closure(200, 6_000, seed=1, noise=0.1).events
    runs = {
        device: cawn.train(events, SMALL, device=device, out=tmp_path / device, quiet=True)
        for device in ("cuda", "cpu")
    }
    figures = {device: run.results.tests[0]["model"]["auc"] for device, run in runs.items()}
    assert figures["cuda"] > 0.62
    assert abs(figures["cuda"] - figures["cpu"]) < 0.02
    for one, other in (("cuda", "cpu"), ("cpu", "cuda")):  # a run can be used on any device, wherever it was trained
        again = cawn.evaluate(tmp_path / one, device=other)
        saved = json.loads((tmp_path / one / "results.json").read_text())
        for mine, theirs in zip(again.tests, saved, strict=True):
            assert mine["model"]["auc"] == pytest.approx(theirs["model"]["auc"], abs=2e-3)
        pairs = events.src[-50:], events.dst[-50:], events.t[-50:] + 1
        predictors = [cawn.LinkPredictor.load(tmp_path / one, device=device) for device in ("cuda", "cpu")]
        scores = [predictor.score(*pairs) for predictor in predictors]
        assert np.allclose(*scores, atol=5e-3)
        ranked = [predictor.rank(pairs[0][0], pairs[2][0], candidates=np.arange(200)) for predictor in predictors]
        assert [candidate.name for candidate in ranked[0]][:1] == [candidate.name for candidate in ranked[1]][:1]


KINDS = [
    {},
    {"rnn": "gru"},
    {"rnn": "transformer"},
    {"pooling": "attention", "sides": "joint"},
    {"identity": "aw", "dropout_at": "walks"},
    {"identity": "none", "rates": False},
    {"rnn": "bidirectional", "time_code": "age"},
    {"rnn": "bidirectional", "identity": "none", "dropout_at": "walks"},
    {"pooling": "transformer", "tree": (8, 2)},
]


@needs_cuda
@pytest.mark.parametrize("changes", KINDS, ids=str)
def test_captured_updates_are_the_updates(changes: dict, monkeypatch) -> None:
    """Replayed from a CUDA graph or launched one by one, the weights are the same to the last bit."""
    events = laws.triadic_closure(60, 1_000, seed=0).events
    found = []
    for captured in (True, False):
        trainer = Trainer(events, SMALL.with_(**changes), device="cuda", quiet=True)
        if not captured:
            monkeypatch.setattr(CapturedStep, "capture", lambda self: None)
        list(trainer.steps(0, 0))
        assert trainer.system._engine._steps._captured.captured == captured
        found.append([weight.detach().clone() for weight in trainer.system.module.parameters()])
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)


@needs_cuda
def test_a_seed_is_a_run() -> None:
    events = laws.triadic_closure(60, 1_000, seed=0).events
    a, b = (
        cawn.train(events, SMALL, device="cuda", quiet=True, task=cawn.Task(negatives=("random",))) for _ in range(2)
    )
    assert_same_weights(a, b)
    assert a.results == b.results


@needs_cuda
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_an_epoch_never_waits_for_the_host() -> None:
    """PyTorch refuses whatever would."""
    events = laws.triadic_closure(60, 1_000, seed=0).events
    trainer = Trainer(events, SMALL, device="cuda", quiet=True)
    list(trainer.steps(0, 0))
    updates = trainer.steps(1, 0)
    next(updates)
    torch.cuda.set_sync_debug_mode("error")
    try:
        assert len(list(updates)) > 3
    finally:
        torch.cuda.set_sync_debug_mode("default")


@needs_cuda
def test_a_batch_beyond_the_memory_is_one_clear_line() -> None:
    events = laws.triadic_closure(60, 3_000, seed=0).events
    config = SMALL.with_(batch_size=1 << 20, num_walks=2_000, dim=4096)
    gc.collect()
    before = torch.cuda.memory_allocated()  # by other tests
    with pytest.raises(
        cawn.DeviceError, match=r"out of device memory for batches of .* links; choose a batch_size below"
    ):
        cawn.train(events, config, device="cuda", quiet=True)
    gc.collect()
    assert torch.cuda.memory_allocated() < before + (1 << 28)  # the model alone has more


@needs_cuda
def test_memory_that_runs_out_in_the_capture_is_one_clear_line_and_spoils_nothing(monkeypatch) -> None:
    events = laws.triadic_closure(60, 1_000, seed=0).events
    update = DeviceSteps._update

    def failing(self) -> None:
        update(self)
        if torch.cuda.is_current_stream_capturing():
            raise torch.OutOfMemoryError("CUDA out of memory")

    expected = cawn.train(events, SMALL, device="cuda", quiet=True, task=cawn.Task(negatives=("random",)))
    monkeypatch.setattr(DeviceSteps, "_update", failing)
    with pytest.raises(cawn.DeviceError, match="out of device memory"):
        cawn.train(events, SMALL, device="cuda", quiet=True)
    monkeypatch.undo()
    assert_same_weights(
        expected, cawn.train(events, SMALL, device="cuda", quiet=True, task=cawn.Task(negatives=("random",)))
    )


@needs_cuda
def test_attributes_and_index_in_the_memory_of_the_host(monkeypatch) -> None:
    """What is too large for the device is read from the host by the kernels, and the weights are the same."""
    events = laws.triadic_closure(60, 1_000, seed=0).events
    msg = np.random.default_rng(0).normal(size=(len(events), 20)).astype(np.float32)
    events = cawn.Events(events.src, events.dst, events.t, msg)
    expected = cawn.train(events, SMALL, device="cuda", quiet=True, task=cawn.Task(negatives=("random",)))
    monkeypatch.setattr("cawn.kernels.cuda.launch.free_memory", lambda _: 0)
    trainer = Trainer(events, SMALL, device="cuda", quiet=True)
    with pytest.warns(UserWarning, match="stay in pinned host memory") as warned:
        list(trainer.steps(0, 0))
    assert {str(warning.message).split(" of ")[1].split(" do not ")[0] for warning in warned} >= {
        "the index",
        "the attributes",
    }
    batcher = trainer.system._engine.batcher
    assert batcher.tables["msg"].is_pinned()
    assert all(tensor.is_pinned() for tensor in batcher.history.index.walks)
    with pytest.warns(UserWarning, match="stay in pinned host memory"):
        found = cawn.train(events, SMALL, device="cuda", quiet=True, task=cawn.Task(negatives=("random",)))
    assert_same_weights(expected, found)


@needs_cuda
def test_only_one_index_is_on_the_device_at_a_time(monkeypatch) -> None:
    held: weakref.WeakSet[DeviceBatcher] = weakref.WeakSet()
    place, seen = DeviceBatcher.__init__, []

    def placing(self, *args) -> None:
        gc.collect()
        seen.append(len(held))
        place(self, *args)
        held.add(self)

    monkeypatch.setattr(DeviceBatcher, "__init__", placing)
    events = laws.triadic_closure(60, 1_000, seed=0).events
    cawn.train(events, SMALL, task=cawn.Task("inductive", negatives=("random",)), device="cuda", quiet=True)
    assert len(seen) > 1  # for training, without hidden nodes, and for testing
    assert not any(seen)
