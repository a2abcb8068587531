"""The end of a run: the baselines, the evaluation and the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cawn import systems
from cawn.data.events import Events
from cawn.kernels.rng import seed_for
from cawn.learn.calibration import STEP, Calibration, RollingCalibration, fit_and_check
from cawn.learn.clocks import Clock
from cawn.learn.evaluation import MODEL, Evaluation, candidate_recall, evaluate_and_calibrate, score_contrast
from cawn.learn.negatives import known_negatives
from cawn.learn.ranks import shared
from cawn.learn.results import Results
from cawn.learn.run_info import current_versions
from cawn.learn.runs import Record
from cawn.learn.splits import TRAINING_LINKS, Split
from cawn.learn.task import Task
from cawn.learn.tgb import rank_rows
from cawn.progress import Report
from cawn.systems import baselines
from cawn.systems.base import Context, Scorer, System
from cawn.systems.indexed import IndexedScorer
from cawn.systems.ranks import SINGLE
from cawn.systems.settings import Settings
from cawn.systems.training import Optimizer, TrainingLinks
from cawn.walks.candidates import Candidates

BASELINES: dict[str, tuple[str, dict[str, Any]]] = {  # trained for every table: system and settings
    "rates only": ("rates", {}),
    "counts": ("counts", {"epochs": 10}),
}
BASELINE_LINKS = 100_000  # per epoch
MOST_RECALIBRATED = 2_000  # links scored to recalibrate after an update


@dataclass(frozen=True, slots=True)
class Run:
    """A finished training: the system with its best weights, its data and its accuracy."""

    system: System = field(repr=False)
    scorer: Scorer = field(repr=False)  # on all links
    events: Events = field(repr=False)
    config: Settings
    task: Task
    seed: int
    calibration: RollingCalibration
    results: Results = field(repr=False)
    report: dict[str, Any] = field(repr=False)
    epochs: list[dict[str, Any]] = field(default_factory=list, repr=False)
    folder: Path | None = None
    record: Record = field(default_factory=lambda: Record({}, {}), repr=False)

    @property
    def model(self) -> torch.nn.Module:
        """The network with its best weights."""
        return self.system.module

    @property
    def facts(self) -> dict[str, Any]:
        """Values derived from the training links; for CAW-N the decays, the time unit and the widths."""
        facts: dict[str, Any] = self.record.description["facts"]
        return facts

    @property
    def alpha(self) -> tuple[float, ...]:
        """The decays that were used, for a system with decays."""
        return tuple(self.facts["alpha"])


def train_baseline(name: str, context: Context, report: Report = lambda _: None) -> System:
    """One of `BASELINES`, trained in seconds on the links and negatives that `context` has for training.

    `report` is called with the fraction that is done.
    """
    kind, changes = BASELINES[name]
    training = spread_links(context.train, BASELINE_LINKS)
    config = systems.settings_type(kind)().with_(**changes, negatives=_negatives_of(kind, context.config.negatives))
    if "directed" in config.to_dict():
        config = config.with_(directed=context.config.uses_direction)
    changed: dict[str, Any] = {"batch_size": config.batch_size, "seed": training.seed_for(name), "ranks": SINGLE}
    training = replace(training, **changed, num_negatives=1)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a fixed order of summation, so that results are reproducible
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(training.seed_for("weights"))
            own = Context(config, context.events, training.seed, torch.device("cpu"), context.threads, training)
            system = systems.build(kind, own)
        optimizer = Optimizer(system.module, config, training.steps_per_epoch)
        for epoch in range(config.epochs):
            for step, loss in enumerate(system.updates(epoch, 0, optimizer)):
                optimizer.set_learning_rate(optimizer.learning_rate(epoch, step))
                optimizer.minimise(loss)
            report((epoch + 1) / config.epochs)
    finally:
        torch.set_num_threads(threads)
    return system


def _negatives_of(kind: str, negatives: str) -> str:
    """The setting of a baseline; the loss of counts compares destinations of one source, so it cannot have pairs."""
    return "mixed" if (kind, negatives) == ("counts", "pairs") else negatives


def spread_links(training: TrainingLinks, most: int) -> TrainingLinks:
    """At most `most` of the links to train on, spread evenly over the training period."""
    n = len(training.positions)
    some = np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(np.int64)
    return replace(
        training,
        positions=training.positions[some],
        own_negatives=training.own_negatives[some],
        random=training.random.of(some),
        historical=None if training.historical is None else training.historical.of(some),
        recent=None if training.recent is None else training.recent.of(some),
        pairs=None if training.pairs is None else training.pairs.of(some),
    )


def candidates_on(scorer: Scorer, events: Events, config: Settings) -> Candidates:
    """Candidates from the history of a scorer, or from a new one if it has none."""
    history = scorer.history if isinstance(scorer, IndexedScorer) else None
    return Candidates(events, history, directed=config.uses_direction)


def evaluate_system(
    context: Context,
    system: System,
    scorer: Scorer,
    events: Events,
    split: Split,
    calibration: Calibration | RollingCalibration,
    report: Callable[[Any], Report],
) -> Evaluation:
    """The accuracy of a system and, if its task asks for them, of the baselines on the test links.

    See `evaluate_and_calibrate`.

    In TGB's protocol, links are ranked, and only untrained baselines are compared; see `rank_rows`. Several ranks
    divide the pairs that the system scores; rank 0 alone evaluates the baselines.

    Args:
        scorer: The system's, on all events.
        report: Takes the name of a stage and returns the function that reports its progress.
    """
    task, ranks, clock = split.task, context.ranks, Clock(split.task.clock)
    timed = clock.on(events)
    strict, trained = {MODEL: scorer if timed is events else system.scorer(timed)}, {MODEL: system}
    if task.baselines and ranks.first:
        strict |= baselines.scorers(timed)
        for i, name in enumerate(() if task.ranked else BASELINES):
            trained[name] = train_baseline(name, context, _part(report("baseline"), i, len(BASELINES)))
            strict[name] = trained[name].scorer(timed)

    def following(name: str, first: int) -> Scorer:
        """A scorer that follows the clock, with batches from position `first` on."""
        found = clock.scorer(strict[name], timed, first, trained[name].scorer if name in trained else None)
        return shared(found, ranks) if name == MODEL else found

    about: dict[str, Any] = {"trained_with": context.config.negatives, "report": report("testing")}
    if task.ranked:
        tests = rank_rows({name: partial(following, name) for name in strict}, events, split, model=MODEL, **about)
        found = Evaluation(tests, RollingCalibration.of(calibration))
    else:
        scorers = {name: following(name, split.first_test) for name in strict}
        about["seed"] = seed_for(context.seed, "test")
        found = evaluate_and_calibrate(scorers, events, split, calibration, **about)
    return Evaluation(*ranks.broadcast((_named(found.tests, context, split), found.calibration)))


def _named(tests: list[dict[str, Any]], context: Context, split: Split) -> list[dict[str, Any]]:
    """The tests with what was trained: the system, the task and the seed."""
    trained = {"system": systems.name_of(context.config), "task": split.task.nodes, "seed": int(context.seed)}
    return [trained | test for test in tests]


def recalibrate(calibration: RollingCalibration, scorer: Scorer, events: Events) -> RollingCalibration:
    """Refit on links that are newer than the last fit, each scored with the links before it; unchanged if too few.

    Only the newest `MOST_RECALIBRATED` are used. Negatives are random destinations before the time of each link.
    """
    since = calibration.since[-1]
    first = 0 if since is None else np.searchsorted(events.t, since, side="right")
    links = np.arange(max(int(first), len(events) - MOST_RECALIBRATED), len(events))
    if len(links) < STEP or (events.dst == events.dst[0]).all():
        return calibration
    negatives = known_negatives(events, links, seed_for(0, "recalibration"))
    src, dst, t, known = events.src[links], events.dst[links], events.t[links], negatives >= 0
    return calibration.follow(t, *score_contrast(scorer, src, dst, np.where(known, negatives, dst), t), known)


def _part(report: Report, index: int, count: int) -> Report:
    """Reports the fraction done of one of `count` equal parts."""
    return lambda share: report((index + share) / count)


def finish(
    context: Context,
    system: System,
    events: Events,
    split: Split,
    validation: tuple[Any, Any],
    stage: Callable[[Any], Report],
) -> Run:
    """Calibrate a trained system on the logits of validation links and negatives, and evaluate it on the test links."""
    scorer, checked = system.scorer(events), fit_and_check(events.t[split.val], *validation)
    tests, calibration = evaluate_system(context, system, scorer, events, split, checked.calibration, stage)
    candidates = candidates_on(scorer, events, context.config)
    tested = np.unique(np.concatenate(list(split.test.values())))
    report = {
        "calibration": calibration.to_dict() | checked.to_dict(),
        "candidates": candidate_recall(candidates, events, tested),
        "served": TRAINING_LINKS,
        "versions": current_versions() | {"device": context.device.type},
    }
    return Run(
        system=system,
        scorer=scorer,
        events=events,
        config=context.config,
        task=split.task,
        seed=context.seed,
        calibration=calibration,
        results=Results(tests),
        report=report,
    )
