"""CAW-N as it is trained: presets, attributes, and what is settled from the training links."""

from threading import Barrier, Thread

import numpy as np
import pytest
import torch

import cawn
from cawn.caw.config import Config
from cawn.caw.host import single_thread
from cawn.data import laws
from cawn.learn.splits import split
from cawn.learn.trainer import Trainer
from small_runs import TINY
from tolerances import SCORES


@pytest.fixture(scope="module")
def events() -> cawn.Events:
    return laws.triadic_closure(60, 800, seed=0).events


@pytest.mark.parametrize("preset", ["paper-mean", "paper-attn", "authors"])
def test_the_papers_presets_learn(preset: str) -> None:
    """Which of two pairs links next is told by the walks alone: popularity and activity are equal."""
    config = Config.preset(preset).with_(num_walks=8, dim=8, frequencies=4, epochs=4, lr=1e-2)
    run = cawn.train(laws.two_pairs(20, 20).events, config, seed=0, quiet=True, task=cawn.Task(negatives=("random",)))
    assert run.results.tests[0]["model"]["auc"] > 0.9


def test_scores_go_by_attributes_of_links_and_nodes(events) -> None:
    plain = events
    rng = np.random.default_rng(0)
    msg, x = rng.normal(size=(800, 2)), rng.normal(size=(60, 1))
    events = cawn.Events(plain.src, plain.dst, plain.t, msg=msg, x=x)
    run = cawn.train(events, TINY.with_(epochs=1, directed=True), quiet=True, task=cawn.Task(negatives=("historical",)))
    ends = plain.src[-50:], plain.dst[-50:], plain.t[-50:]

    def logits(**attributes: np.ndarray) -> np.ndarray:
        changed = cawn.Events(plain.src, plain.dst, plain.t, **{"msg": msg, "x": x} | attributes)
        return run.system.scorer(changed).logits(*ends, seed=1)

    truth = logits()
    assert np.array_equal(truth, logits())
    assert (np.abs(logits(msg=-msg) - truth) > SCORES).mean() > 0.5
    assert (np.abs(logits(x=-x) - truth) > SCORES).mean() > 0.5


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
    assert facts["alpha"] == pytest.approx(TINY.decays(tau), rel=1e-12)


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [
        ("paper", (0.4,)),
        ("ladder", (0.1, 2.4, 60.0, 1500.0)),
        ("slow", (0.012, 0.14, 1.6, 18.0)),
        ("fast", (3.2, 32.0, 320.0, 3200.0)),
    ],
)
def test_named_decays(alpha: str, expected: tuple[float, ...]) -> None:
    config = cawn.Config(alpha=alpha, num_walks=4)
    assert config.decays(2.0) == pytest.approx(expected)
    assert config.num_decays == len(expected)


def test_threads_are_restored_after_concurrent_queries() -> None:
    """Calls that overlap in several threads leave the number of PyTorch's threads as it was, also for new threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    seen: list[int] = []

    def ask(first: Barrier, last: Barrier) -> None:
        with single_thread():
            first.wait(60)
            seen.append(torch.get_num_threads())
        last.wait(60)
        seen.append(torch.get_num_threads())

    try:
        for _ in range(3):
            barriers = Barrier(4), Barrier(4)
            threads = [Thread(target=ask, args=barriers) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            new = Thread(target=lambda: seen.append(torch.get_num_threads()))
            new.start()
            new.join()
            assert seen == [1] * 4 + [3] * 5
            seen.clear()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
