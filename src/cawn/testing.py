"""What every system promises, as checks that its author can run: `check_system(MySettings())`.

In a test suite, one test per promise: `@pytest.mark.parametrize("promise", cawn.testing.PROMISES)` around
`check_system(MySettings(), [promise])`.
"""

from __future__ import annotations

import json
import tempfile
import tracemalloc
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cawn import systems
from cawn.data.events import Events
from cawn.errors import QueryError, brief
from cawn.learn.reporting import Progress
from cawn.learn.runs import load_system, read_run
from cawn.learn.task import Task
from cawn.learn.testing import Run
from cawn.learn.trainer import Trainer
from cawn.systems.base import PrefixScorer, Scorer, Seeded, System
from cawn.systems.settings import Settings

Array = npt.NDArray[Any]
Pairs = tuple[Array, Array, Array]  # sources, destinations and ascending times, [B] each

TOLERANCE = 1e-4  # relative and absolute: of logits computed in another batch, order or thread
NOTICEABLE = 1e-3  # a change of logits that rounding does not explain
MANY = 5_000  # pairs, more than are scored at once
BYTES_PER_PAIR = 1_024  # beside the pair and its score, however many pairs are asked about
DRAWS = 200  # of a score that depends on a random sample of the past


def check_system(config: Settings, promises: Iterable[str] | None = None, *, events: Events | None = None) -> None:
    """Raise AssertionError with a line for each promise that a system breaks; None are all of `PROMISES`.

    The system is trained on the CPU for a few steps. It must be registered, see `cawn.systems.register`.

    Args:
        config: The settings of the system. Small ones suffice: few epochs, batches of about 50 links, narrow layers.
        promises: Which promises to check, by their names in `PROMISES`.
        events: A network of a few hundred links; by default a random one with simultaneous and repeated links,
            self-loops and hubs.
    """
    asked = list(PROMISES if promises is None else promises)
    if unknown := [name for name in asked if name not in PROMISES]:
        raise QueryError(f"promise {brief(unknown[0])}: there are {', '.join(PROMISES)}")
    case, broken = Case(config, random_network() if events is None else events), []
    for name in asked:
        try:
            PROMISES[name](case)
        except AssertionError as error:
            broken.append(f"{name}: {error}")
    if broken:
        found = f"{systems.name_of(config)} breaks {len(broken)} of {len(asked)} promises"
        raise AssertionError("\n  ".join([found, *broken]))


def random_network(seed: int = 5, *, num_nodes: int = 20, num_links: int = 400, span: int = 250) -> Events:
    """Links with ties, self-loops, repeated links and hubs."""
    rng = np.random.default_rng(seed)
    popularity = rng.dirichlet(np.full(num_nodes, 0.7))
    src, dst = rng.choice(num_nodes, (2, num_links), p=popularity)
    return Events(src, dst, rng.integers(0, span, num_links), num_nodes=num_nodes)


@dataclass(frozen=True, eq=False)
class Case:
    """A system to check, and the network it is checked on."""

    config: Settings
    events: Events

    @property
    def entry(self) -> systems.Entry:
        return systems.entry(systems.name_of(self.config))

    @cached_property
    def without_ties(self) -> Events:
        """The same links, one at a time."""
        events = self.events
        return Events(events.src, events.dst, np.arange(len(events)), num_nodes=events.num_nodes)

    @cached_property
    def system(self) -> System:
        """The system after a few steps; its weights are no longer those it began with."""
        trainer = self.trainer(self.without_ties)
        for _ in islice(trainer.steps(0, 0), 4):
            pass
        return trainer.system

    def trainer(self, events: Events, **options: Any) -> Trainer:
        torch.manual_seed(0)
        return Trainer(events, self.config, task=Task(negatives=("random",)), quiet=True, device="cpu", **options)

    def scorer(self, events: Events) -> Scorer:
        return self.system.scorer(events)

    def pairs(self, events: Events, size: int = 60) -> Pairs:
        """Pairs at ascending times, most of them in the later half of the stream, many at the times of links."""
        rng = np.random.default_rng(0)
        t = np.sort(rng.choice(events.t[len(events) // 3 :], size))
        return rng.integers(0, events.num_nodes, size), rng.integers(0, events.num_nodes, size), t


def assert_same(found: Any, expected: Any, what: str) -> None:
    """Raise if logits differ by more than rounding."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, f"{what}: {len(expected)} pairs have scores of shape {found.shape}"
    over = np.abs(found - expected) - TOLERANCE * (1 + np.abs(expected))
    if not (over <= 0).all():  # also where one is NaN
        worst = int(np.argmax(np.where(np.isnan(over), np.inf, over)))
        raise AssertionError(f"{what}: the score of pair {worst} was {expected[worst]:.6g} and is {found[worst]:.6g}")


def follows_the_past(case: Case) -> None:
    """Scores are finite, differ between pairs, and change if the past does."""
    events = case.without_ties
    asked = case.pairs(events)
    scores = np.asarray(case.scorer(events)(*asked))
    assert scores.shape == asked[0].shape, f"{len(asked[0])} pairs have scores of shape {scores.shape}"
    assert np.isfinite(scores).all(), f"{(~np.isfinite(scores)).sum()} of {len(scores)} scores are not finite"
    assert len(np.unique(scores)) > 1, f"all pairs have the score {scores[0]:.6g}"
    other = Events(events.src[::-1], events.dst[::-1], events.t, num_nodes=events.num_nodes)
    changed = np.abs(case.scorer(other)(*asked) - scores).max()
    assert changed > NOTICEABLE, f"with another past, scores differ by at most {changed:.2g}"


def ignores_the_future(case: Case) -> None:
    """Changing, removing or adding links at or after the time of a query changes no score."""
    events = case.events
    now, rng = events.t[len(events) * 5 // 8], np.random.default_rng(1)
    src, dst, t = case.pairs(events)
    asked, later = (src, dst, np.minimum(t, now)), events.t >= now
    ends = [
        np.where(later, rng.integers(0, events.num_nodes, len(events)), column) for column in (events.src, events.dst)
    ]
    times = np.where(later, now + rng.integers(0, 10_000, len(events)), events.t)
    new = events.num_nodes + np.arange(2)
    more = Events(np.append(events.src, new[0]), np.append(events.dst, new[1]), np.append(events.t, now))
    expected = case.scorer(events)(*asked)
    futures = {
        "changed": Events(ends[0], ends[1], times, num_nodes=events.num_nodes),
        "removed": events[~later],
        "added": more,
    }
    for what, other in futures.items():
        assert_same(case.scorer(other)(*asked), expected, f"links at or after the queries were {what}")


def answers_each_pair_alone(case: Case) -> None:
    """A score does not depend on the other pairs of the call."""
    scorer, asked = case.scorer(case.events), case.pairs(case.events)
    expected = scorer(*asked)
    for some in ([7], [59], [3], np.arange(0, 60, 7), np.repeat(np.arange(20, 40), 3), np.arange(60), []):
        rows = np.asarray(some, dtype=np.int64)
        found = scorer(*(column[rows] for column in asked))
        assert_same(found, expected[rows], f"{len(rows)} of 60 pairs were asked again")


def answers_threads(case: Case) -> None:
    """Several threads may ask a scorer at the same time."""
    scorer, asked = case.scorer(case.events), case.pairs(case.events, 40)
    expected = scorer(*asked)
    parts = [slice(i % 40, i % 40 + 10) for i in range(0, 160, 7)]
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda part: scorer(*(column[part] for column in asked)), parts)
        for part, found in zip(parts, answers, strict=True):
            assert_same(found, expected[part], "four threads asked at the same time")


def ignores_names(case: Case) -> None:
    """Renaming nodes changes no score; where a system is registered with new_nodes=False, it changes some."""
    events = case.without_ties
    to = np.random.default_rng(2).permutation(events.num_nodes)
    renamed = Events(to[events.src], to[events.dst], events.t, num_nodes=events.num_nodes)
    src, dst, t = case.pairs(events)
    expected, found = case.scorer(events)(src, dst, t), case.scorer(renamed)(to[src], to[dst], t)
    if case.entry.new_nodes:
        assert_same(found, expected, "nodes were renamed")
    else:
        same = np.abs(found - expected).max() <= NOTICEABLE
        assert not same, "scores do not depend on the names of nodes: register the system with new_nodes=True"


def ignores_the_order_of_ties(case: Case) -> None:
    """The order in which simultaneous links are given changes no score, or no law of a score that is drawn."""
    events = case.events
    rows = np.random.default_rng(3).permutation(len(events))
    mixed = Events(events.src[rows], events.dst[rows], events.t[rows], num_nodes=events.num_nodes)
    assert not np.array_equal(mixed.src, events.src), "the network has no simultaneous links; give another"
    one, other, asked = case.scorer(events), case.scorer(mixed), case.pairs(events)
    if isinstance(one, Seeded) and isinstance(other, Seeded):
        _assert_same_law(one, other, asked)
    else:
        assert_same(other(*asked), one(*asked), "simultaneous links were given in another order")


def _assert_same_law(one: Seeded, other: Seeded, asked: Pairs) -> None:
    """Equal means over independent draws; for 60 pairs, a false alarm has a probability below 1e-6. Seeds are fixed."""
    draws = [
        np.stack([scorer.logits(*asked, seed=first + i) for i in range(DRAWS)])
        for scorer, first in ((one, 0), (other, DRAWS))
    ]
    error = np.sqrt(sum(found.var(axis=0, ddof=1) / DRAWS for found in draws)) + 1e-6
    deviation = np.abs(draws[0].mean(axis=0) - draws[1].mean(axis=0)) / error
    worst = int(np.argmax(deviation))
    assert deviation[worst] < 6.5, (
        f"simultaneous links were given in another order: over {DRAWS} draws, "
        f"the mean score of pair {worst} moved by {deviation[worst]:.1f} standard errors"
    )


def knows_new_nodes(case: Case) -> None:
    """Nodes beyond those of the network, and nodes that join it, have finite scores."""
    events = case.events
    new, end = events.num_nodes + 5, events.t[-1]
    src, dst = np.array([new, 0, new, new]), np.array([0, new, new, new + 100])
    t = np.array([events.t[0], events.t[len(events) // 2], end, end + 1_000_000])
    grown = Events(np.append(events.src, new), np.append(events.dst, 0), np.append(events.t, end))
    for what, past in {"unknown": events, "new": grown}.items():
        found = np.asarray(case.scorer(past)(src, dst, t))
        assert np.isfinite(found).all(), f"scores of {what} nodes are {found}"


def sees_what_it_may(case: Case) -> None:
    """If the scorer has `score_after`, it uses the first `visible` links and no others."""
    events = case.without_ties
    scorer, asked = case.scorer(events), case.pairs(events)
    if not isinstance(scorer, PrefixScorer):
        return  # evaluation then builds a scorer for each batch
    strict = np.searchsorted(events.t, asked[2])
    assert_same(scorer.score_after(*asked, strict), scorer(*asked), "score_after was given the links before each query")
    fewer = np.maximum(strict - 90, 0)
    found = scorer.score_after(*asked, fewer)
    for b in (5, 30, 59):
        alone = case.scorer(events[: fewer[b]])(*(column[b : b + 1] for column in asked))
        assert_same(found[b : b + 1], alone, f"score_after was given {fewer[b]} links")


def takes_attributes(case: Case) -> None:
    """Links and nodes may have attributes, in training and in scoring."""
    plain, rng = case.without_ties, np.random.default_rng(4)
    columns = {"msg": rng.normal(size=(len(plain), 3)), "x": rng.normal(size=(plain.num_nodes, 2))}
    events = Events(plain.src, plain.dst, plain.t, num_nodes=plain.num_nodes, **columns)
    trainer = case.trainer(events)
    losses = [float(loss) for loss in islice(trainer.steps(0, 0), 2)]
    assert np.isfinite(losses).all(), f"with attributes, the first losses are {losses}"
    scores = trainer.system.scorer(trainer.events)(*case.pairs(events, 10))
    assert np.isfinite(scores).all(), f"with attributes, scores are {scores}"


def resumes(case: Case) -> None:
    """A run that was stopped twice ends like one that was not, bit for bit, and its folder gives the same scores."""
    with tempfile.TemporaryDirectory() as folder:
        out, whole = Path(folder, "run"), case.trainer(case.events).fit()
        run = _stopped_in(case, out, epoch=1) or _stopped_in(case, out, epoch=2, resume=True)
        run = run or case.trainer(case.events, out=out, resume=True).fit()
        for name, value in whole.model.state_dict().items():
            same = torch.equal(value, run.model.state_dict()[name])
            assert same, f"the weights {name} of a resumed run are not those of one that was not stopped"
        assert run.results == whole.results, "the results of a resumed run differ"
        facts = [json.dumps(each.facts) for each in (run, whole)]  # tuples are read back as lists
        assert facts[0] == facts[1], f"the facts of a resumed run differ: {facts[0]} for {facts[1]}"
        asked, loaded = case.pairs(case.events), load_system(read_run(out), torch.device("cpu"))
        found = loaded.scorer(case.events)(*asked)
        assert_same(found, whole.scorer(*asked), "a run was loaded")


def _stopped_in(case: Case, out: Path, *, epoch: int, resume: bool = False) -> Run | None:
    """Train until the first step of an epoch is reported; the run if it has ended before."""
    trainer = case.trainer(case.events, out=out, resume=resume)

    def stop(now: Progress) -> None:
        trainer.interrupt.asked |= now.stage == "training" and now.epoch == epoch

    trainer.listeners.all.append(stop)
    try:
        return trainer.fit()
    except KeyboardInterrupt:
        return None


def learns(case: Case) -> None:
    """The loss falls over five epochs."""
    trainer = case.trainer(case.without_ties)
    if not trainer.num_steps:
        return  # nothing is trained
    losses = [np.mean([float(loss) for loss in trainer.steps(epoch, 0)]) for epoch in range(5)]
    assert losses[-1] < losses[0], f"the mean loss of an epoch went from {losses[0]:.4g} to {losses[-1]:.4g} in five"


def scores_in_bounded_memory(case: Case) -> None:
    """Memory grows by at most `BYTES_PER_PAIR` with each pair: many pairs are scored in pieces."""
    scorer, asked = case.scorer(case.events), case.pairs(case.events, 2 * MANY)
    scorer(*(column[:1] for column in asked))  # what is built once
    few, more = (_memory_of(scorer, tuple(column[:size] for column in asked)) for size in (MANY, 2 * MANY))
    growth = (more - few) / MANY
    assert growth <= BYTES_PER_PAIR, (
        f"{MANY:,} pairs took {few / 1e6:,.1f} MB, twice as many {more / 1e6:,.1f} MB: {growth:,.0f} bytes per pair"
    )


def _memory_of(scorer: Scorer, asked: Any) -> int:
    """Bytes of NumPy's arrays at their peak, and of the largest tensor."""
    tracemalloc.start()
    try:
        with _LargestTensor() as largest:  # type: ignore[no-untyped-call]
            scorer(*asked)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak + int(largest.nbytes)


class _LargestTensor(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the bytes of the largest tensor that is made."""

    nbytes: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else [made]:
            if isinstance(tensor, torch.Tensor):
                self.nbytes = max(self.nbytes, tensor.untyped_storage().nbytes())
        return made


PROMISES: dict[str, Callable[[Case], None]] = {
    "follows the past": follows_the_past,
    "ignores the future": ignores_the_future,
    "answers each pair alone": answers_each_pair_alone,
    "answers threads": answers_threads,
    "ignores names": ignores_names,
    "ignores the order of ties": ignores_the_order_of_ties,
    "knows new nodes": knows_new_nodes,
    "sees what it may": sees_what_it_may,
    "takes attributes": takes_attributes,
    "resumes": resumes,
    "learns": learns,
    "bounded memory": scores_in_bounded_memory,
}
