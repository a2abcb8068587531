"""What every system of the registry promises: the past alone, batches, names, ties, resuming, new nodes, state."""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

import cawn
from cawn import systems
from cawn.learn.reporting import Progress
from cawn.learn.runs import load_system, read_run
from cawn.systems.base import PrefixScorer, Scorer, Seeded, System
from networks import random_events, with_columns
from systems.small_settings import small
from tolerances import assert_same_scores

NAMES = [name for name in systems.names() if name != "recency regression"]
IDENTIFYING = {name for name in NAMES if not systems.entry(name).new_nodes}  # have parameters per node
UNTRAINED = {name for name in NAMES if not systems.entry(name).trained}

every_system = pytest.mark.parametrize("name", NAMES)


@lru_cache(maxsize=1)
def network() -> cawn.Events:
    """Links with ties, self-loops, repeated links and hubs."""
    return random_events(5, num_nodes=20, num_links=400, span=250)


@lru_cache(maxsize=1)
def without_ties() -> cawn.Events:
    events = network()
    return cawn.Events(events.src, events.dst, np.arange(len(events)), num_nodes=events.num_nodes)


@lru_cache(maxsize=64)
def briefly_trained(name: str) -> System:
    """A system after a few steps; its weights are no longer those it began with."""
    torch.manual_seed(0)
    trainer = cawn.Trainer(without_ties(), small(name, lr=0.01), quiet=True, device="cpu")
    for _ in islice(trainer.steps(0, 0), 4):
        pass
    return trainer.system


def pairs(events: cawn.Events, size: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs at ascending times, most of them in the later half of the stream, many at the times of links."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.choice(events.t[len(events) // 3 :], size))
    return rng.integers(0, events.num_nodes, size), rng.integers(0, events.num_nodes, size), t


@every_system
def test_scores_differ_between_pairs_and_follow_the_past(name: str) -> None:
    system, events = briefly_trained(name), without_ties()
    asked = pairs(events)
    scores = system.scorer(events)(*asked)
    assert scores.shape == (60,)
    assert np.isfinite(scores).all()
    assert len(np.unique(scores)) > 1
    other = cawn.Events(events.src[::-1], events.dst[::-1], events.t, num_nodes=events.num_nodes)
    assert np.abs(system.scorer(other)(*asked) - scores).max() > 1e-3


@every_system
def test_the_future_changes_nothing(name: str) -> None:
    system, events = briefly_trained(name), network()
    now = events.t[250]
    src, dst, t = pairs(events)
    asked = src, dst, np.minimum(t, now)
    rng, later = np.random.default_rng(1), events.t >= now
    ends = [
        np.where(later, rng.integers(0, events.num_nodes, len(events)), column) for column in (events.src, events.dst)
    ]
    times = np.where(later, now + rng.integers(0, 10_000, len(events)), events.t)
    expected = system.scorer(events)(*asked)
    for other in (
        cawn.Events(*ends, times, num_nodes=events.num_nodes),
        events[~later],
        cawn.Events(np.append(events.src, 30), np.append(events.dst, 31), np.append(events.t, now), num_nodes=40),
    ):
        assert_same_scores(system.scorer(other)(*asked), expected)


@every_system
def test_a_score_does_not_depend_on_the_rest_of_the_call(name: str) -> None:
    system, events = briefly_trained(name), network()
    scorer, asked = system.scorer(events), pairs(events)
    expected = scorer(*asked)
    for some in ([7], [59], [3], np.arange(0, 60, 7), np.repeat(np.arange(20, 40), 3), np.arange(60)):
        assert_same_scores(scorer(*(column[some] for column in asked)), expected[some])
    assert scorer(*(column[:0] for column in asked)).shape == (0,)


@every_system
def test_several_threads_may_ask(name: str) -> None:
    system, events = briefly_trained(name), network()
    scorer, asked = system.scorer(events), pairs(events, 40)
    expected = scorer(*asked)
    parts = [slice(i % 40, i % 40 + 10) for i in range(0, 160, 7)]
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda part: scorer(*(column[part] for column in asked)), parts)
        for part, found in zip(parts, answers, strict=True):
            assert_same_scores(found, expected[part])


@every_system
def test_renaming_nodes_changes_nothing_unless_the_system_has_weights_per_node(name: str) -> None:
    system, events = briefly_trained(name), without_ties()
    to = np.random.default_rng(2).permutation(events.num_nodes)
    renamed = cawn.Events(to[events.src], to[events.dst], events.t, num_nodes=events.num_nodes)
    src, dst, t = pairs(events)
    expected, found = system.scorer(events)(src, dst, t), system.scorer(renamed)(to[src], to[dst], t)
    if name in IDENTIFYING:
        assert np.abs(found - expected).max() > 1e-3
    else:
        assert_same_scores(found, expected)


@every_system
def test_the_order_of_simultaneous_links_changes_nothing(name: str) -> None:
    system, events = briefly_trained(name), network()
    rows = np.random.default_rng(3).permutation(len(events))
    mixed = cawn.Events(events.src[rows], events.dst[rows], events.t[rows], num_nodes=events.num_nodes)
    assert not np.array_equal(mixed.src, events.src)
    asked = pairs(events)
    scorers = system.scorer(events), system.scorer(mixed)
    if all(isinstance(scorer, Seeded) for scorer in scorers):  # draws differ, their law does not
        _assert_same_law(*scorers, asked)
    else:
        assert_same_scores(scorers[1](*asked), scorers[0](*asked))


def _assert_same_law(one: Scorer, other: Scorer, asked: tuple[np.ndarray, ...], draws: int = 200) -> None:
    """Equal means over independent draws; for 60 pairs, a false alarm has a probability below 1e-6. Seeds are fixed."""
    means, variances = [], []
    for scorer, first in ((one, 0), (other, draws)):
        assert isinstance(scorer, Seeded)
        found = np.stack([scorer.logits(*asked, seed=first + i) for i in range(draws)])
        means.append(found.mean(axis=0))
        variances.append(found.var(axis=0, ddof=1) / draws)
    error = np.sqrt(variances[0] + variances[1]) + 1e-6
    assert (np.abs(means[0] - means[1]) / error).max() < 6.5


@every_system
def test_new_nodes_have_finite_scores(name: str) -> None:
    system, events = briefly_trained(name), network()
    new = events.num_nodes + 5
    src, dst = np.array([new, 0, new, new]), np.array([0, new, new, new + 100])
    t = np.array([events.t[0], events.t[200], events.t[-1], events.t[-1] + 1_000_000])
    assert np.isfinite(system.scorer(events)(src, dst, t)).all()
    grown = cawn.Events(np.append(events.src, new), np.append(events.dst, 0), np.append(events.t, events.t[-1]))
    assert np.isfinite(system.scorer(grown)(src, dst, t)).all()


@every_system
def test_the_caller_may_choose_the_visible_links(name: str) -> None:
    system, events = briefly_trained(name), without_ties()
    scorer, asked = system.scorer(events), pairs(events)
    if not isinstance(scorer, PrefixScorer):
        pytest.skip(f"{name} has no score_after; evaluation then builds a scorer for each batch")
    strict = np.searchsorted(events.t, asked[2])
    assert_same_scores(scorer.score_after(*asked, strict), scorer(*asked))
    fewer = np.maximum(strict - 90, 0)
    found = scorer.score_after(*asked, fewer)
    for b in (5, 30, 59):
        alone = system.scorer(events[: fewer[b]])(*(column[b : b + 1] for column in asked))
        assert_same_scores(found[b : b + 1], alone)


@every_system
def test_links_and_nodes_may_have_attributes(name: str) -> None:
    events, rng = without_ties(), np.random.default_rng(4)
    columns = {"msg": rng.normal(size=(len(events), 3)), "x": rng.normal(size=(events.num_nodes, 2))}
    attributed = with_columns(events, **columns)
    trainer = cawn.Trainer(attributed, small(name), quiet=True, device="cpu")
    losses = [float(loss) for loss in islice(trainer.steps(0, 0), 2)]
    assert np.isfinite(losses).all()
    assert np.isfinite(trainer.system.scorer(trainer.events)(*pairs(events, 10))).all()


@every_system
def test_a_run_that_was_interrupted_ends_like_one_that_was_not(name: str, tmp_path: Path, monkeypatch) -> None:
    events, config = network(), small(name)
    options = {"quiet": True, "device": "cpu"}
    whole = cawn.Trainer(events, config, **options).fit(("random",))
    trainer = cawn.Trainer(events, config, out=tmp_path / "run", **options)
    steps = iter(range(1_000))

    def interrupt(now: Progress) -> None:
        if now.stage == "training" and next(steps) == 2:
            trainer.interrupt.asked = True

    trainer.listeners.all.append(interrupt)
    monkeypatch.setattr("cawn.learn.trainer.REPORT_INTERVAL", 0.0)
    if trainer.num_steps > 3:
        with pytest.raises(KeyboardInterrupt):
            trainer.fit(("random",))
        assert 0 < trainer.state.step < trainer.num_steps
        resumed = cawn.Trainer(events, config, out=tmp_path / "run", resume=True, **options).fit(("random",))
    else:
        assert name in UNTRAINED
        resumed = trainer.fit(("random",))
    for key, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[key]), key
    assert resumed.results == whole.results
    assert json.dumps(resumed.facts) == json.dumps(whole.facts)  # tuples are read back as lists

    # The state in evaluation is a replay with the final weights, not what training left behind.
    loaded = load_system(read_run(tmp_path / "run"), torch.device("cpu")).scorer(events)
    assert_same_scores(loaded(*pairs(events)), whole.scorer(*pairs(events)))


@every_system
def test_training_lowers_the_loss(name: str) -> None:
    if name in UNTRAINED:
        pytest.skip("nothing is trained")
    trainer = cawn.Trainer(without_ties(), small(name, lr=0.01), quiet=True, device="cpu")
    losses = [np.mean([float(loss) for loss in trainer.steps(epoch, 0)]) for epoch in range(5)]
    assert losses[-1] < losses[0]
