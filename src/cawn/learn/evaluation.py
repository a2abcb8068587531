"""Accuracy of scorers on the same links, against the same negatives.

All pairs of an evaluation form one table of distinct pairs in time order, which is passed to every scorer. A stateful
scorer can therefore replay the stream once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events, by_first_appearance
from cawn.data.hashing import digest
from cawn.learn import metrics
from cawn.learn.calibration import Calibration, RollingCalibration, sigmoid
from cawn.learn.clocks import Clock
from cawn.learn.negatives import Negatives, linked_share, part_negatives, seen_before
from cawn.learn.ranking import random_candidates
from cawn.learn.reliability import reliability
from cawn.learn.splits import TRAINING_LINKS, Split
from cawn.progress import Report
from cawn.systems.base import Scorer
from cawn.walks.candidates import Candidates

Array = npt.NDArray[Any]

MODEL = "model"  # name of the scorer that is evaluated; all others are its baselines
RANKED_LINKS, CANDIDATES = 1_000, 100  # links to rank, and random destinations for each
RECALL_LINKS = 200
_PIECE = 1 << 14  # pairs scored between two progress reports


class Questions:
    """Pairs to score: blocks are added one by one, then all are scored at once."""

    def __init__(self) -> None:
        self._blocks: list[tuple[Array, Array, Array]] = []

    def add(self, src: Array, dst: Array, t: Array) -> int:
        """Add pairs; returns the index of their block."""
        self._blocks.append((src, dst, t))
        return len(self._blocks) - 1

    def ask(self, scorer: Scorer, report: Report = lambda _: None) -> list[Array]:
        """The logits of each block. Equal pairs are scored once; `report` is called with the fraction of pairs done."""
        src, dst, t = (np.concatenate(column) for column in zip(*self._blocks, strict=True))
        order = np.lexsort((by_first_appearance(dst), by_first_appearance(src), t))  # however nodes are numbered
        columns = src[order], dst[order], t[order]
        is_new = np.ones(len(order), bool)
        is_new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
        number = np.empty(len(order), np.int64)  # index of each pair among the distinct ones
        number[order] = np.cumsum(is_new) - 1
        distinct = [column[is_new] for column in columns]
        logits = []
        for first in range(0, len(distinct[0]), _PIECE):
            logits.append(scorer(*(column[first : first + _PIECE] for column in distinct)))
            report(min(first + _PIECE, len(distinct[0])) / len(distinct[0]))
        ends = np.cumsum([len(block[0]) for block in self._blocks])[:-1]
        return np.split(np.concatenate(logits)[number], ends) if logits else [np.empty(0) for _ in self._blocks]


def score_contrast(
    scorer: Scorer, src: Array, dst: Array, negative: Array, t: Array, report: Report = lambda _: None
) -> tuple[Array, Array]:
    """Logits of the pairs (src, dst) and of the pairs (src, negative): [B] each."""
    questions = Questions()
    questions.add(src, dst, t)
    questions.add(src, negative, t)
    positive, wrong = questions.ask(scorer, report)
    return positive, wrong


class _Test(NamedTuple):
    """One row of an evaluation: links, their negatives, and the blocks of both in `Questions`."""

    links_name: str
    kind: str
    links: Array
    negatives: Negatives
    true: tuple[int, ...]
    false: tuple[int, ...]
    ranked: _Ranked | None = None

    def logits(self, answers: list[Array]) -> tuple[Array, Array]:
        """Of the links and of their negatives, in the order of the links."""
        true, false = (np.concatenate([answers[block] for block in blocks]) for blocks in (self.true, self.false))
        order = self.links.argsort(kind="stable")
        return true[order], false[order]


class _Ranked(NamedTuple):
    """Links to rank among random destinations: [n] and [n, CANDIDATES]."""

    links: Array
    candidates: Array
    true: int
    false: int


class Evaluation(NamedTuple):
    """The tests of an evaluation, see `cawn.learn.results`, and the calibration after the last test link."""

    tests: list[dict[str, Any]]
    calibration: RollingCalibration


def evaluate(*args: Any, **options: Any) -> list[dict[str, Any]]:
    """The tests of `evaluate_and_calibrate`, with the same arguments."""
    return evaluate_and_calibrate(*args, **options).tests


def evaluate_and_calibrate(
    scorers: Mapping[str, Scorer],
    events: Events,
    split: Split,
    calibration: Calibration | RollingCalibration,
    *,
    seed: int,
    trained_with: str = "",
    report: Report = lambda _: None,
) -> Evaluation:
    """A row per kind of test links and negatives: AUC and AP of every scorer, pooled and in batches of 30.

    DyGLib's protocol also has batches of 200. The paper's protocol leaves out the last link of each kind, as its code
    does. Inductive test links are evaluated by kind and, in rows named "all", together.

    Test links with user-given negatives also get a row "own". Rows with random negatives also have "ranks" (MRR and
    Hits@k of evenly spaced test links, among random destinations) and "reliability" (errors of the probabilities of the
    model: "raw"; "calibrated" on validation links; "rolling", refitted on the test links before each and those of their
    negatives that were destinations by then).

    Args:
        scorers: By name; all except "model" are baselines. They must follow the clock of the split's task.
        trained_with: The kind of negatives the model was trained with, recorded in each row.
        report: Called with the fraction that is done.
    """
    questions = Questions()
    task, timed = split.task, Clock(split.task.clock).on(events)
    tests = list(_tests(questions, events, timed.t, split, seed))
    if task.nodes == "inductive" and "all" not in split.test:
        tests += _together(tests)
    answers: dict[str, list[Array]] = {}
    for i, (name, scorer) in enumerate(scorers.items()):
        first = i / len(scorers)

        def part_done(share: float, before: float = first) -> None:
            report(before + share / len(scorers))

        answers[name] = questions.ask(scorer, part_done)
    given = events.negative is not None and bool((events.negative[split.train] >= 0).any())
    about = {"protocol": task.protocol, "clock": task.clock, "trained_with": "own, " * given + trained_with}
    about["weights"] = TRAINING_LINKS
    rolling = _follow(RollingCalibration.of(calibration).initial, tests, answers.get(MODEL, []), timed)
    return Evaluation([_row(test, answers, rolling, events, timed.t, split, about) for test in tests], rolling)


def _follow(
    calibration: RollingCalibration, tests: list[_Test], answers: list[Array], events: Events
) -> RollingCalibration:
    """Refit on all test links that have random negatives."""
    random = [test for test in tests if test.kind == "random"]
    if not random:
        return calibration
    test = max(random, key=lambda test: len(test.links))
    order = test.links.argsort(kind="stable")
    t = events.t[test.links[order]]
    known = seen_before(events, test.negatives.dst[order], t)
    return calibration.follow(t, *test.logits(answers), known)


def _tests(questions: Questions, events: Events, times: Array, split: Split, seed: int) -> Iterator[_Test]:
    """The rows to evaluate; adds their pairs to `questions`, at the `times` of the links."""
    for name, links in split.test.items():
        kept = links[:-1] if split.task.protocol == "paper" else links
        if len(kept) == 0:
            continue
        drawn = {kind: part_negatives(events, split, name, kind, seed).first(len(kept)) for kind in split.task.kinds}
        tested = {kind: (kept, found) for kind, found in drawn.items()}
        if events.negative is not None and len(some := kept[events.negative[kept] >= 0]):
            tested["own"] = some, Negatives(events.negative[some], 0.0)
        for kind, (some, found) in tested.items():
            src, dst, t = events.src[some], events.dst[some], times[some]
            true = questions.add(src, dst, t)
            false = questions.add(src if found.src is None else found.src, found.dst, t)
            ranked = _ranked(questions, events, times, kept, seed) if kind == "random" else None
            yield _Test(name, kind, some, found, (true,), (false,), ranked)


def _together(tests: list[_Test]) -> Iterator[_Test]:
    """All inductive test links as one kind, "all", for each kind of negatives."""
    for kind in dict.fromkeys(test.kind for test in tests):
        same = [test for test in tests if test.kind == kind]
        counts = [len(test.links) for test in same]
        drawn = Negatives(
            np.concatenate([test.negatives.dst for test in same]),
            float(np.average([test.negatives.fallback for test in same], weights=counts)),
        )
        links = np.concatenate([test.links for test in same])
        true, false = zip(*((test.true[0], test.false[0]) for test in same), strict=True)
        yield _Test("all", kind, links, drawn, true, false)


def _ranked(questions: Questions, events: Events, times: Array, links: Array, seed: int) -> _Ranked:
    some = spread(links, RANKED_LINKS)
    src, dst, t = events.src[some], events.dst[some], times[some]
    candidates = random_candidates(events, some, CANDIDATES, seed)
    repeated = np.repeat(src, CANDIDATES), candidates.ravel(), np.repeat(t, CANDIDATES)
    return _Ranked(some, candidates, questions.add(src, dst, t), questions.add(*repeated))


def _row(
    test: _Test,
    answers: dict[str, list[Array]],
    calibration: RollingCalibration,
    events: Events,
    times: Array,
    split: Split,
    about: dict[str, str],
) -> dict[str, Any]:
    batches = split.task.rules.batches
    figures = {name: _figures(*test.logits(logits), batches) for name, logits in answers.items()}
    row: dict[str, Any] = {
        "links": test.links_name,
        "negatives": test.kind,
        **about,
        "count": len(test.links),
        "fallback": round(test.negatives.fallback, 4),
        "linked": round(linked_share(events, test.links, test.negatives), 4),
        "split": split.digest,
        "digest": test.negatives.digest,
    }
    if (ranked := test.ranked) is not None:
        shape = ranked.candidates.shape
        for name, found in answers.items():
            ranks = metrics.ranks(found[ranked.true], found[ranked.false].reshape(shape))
            figures[name] |= _rank_figures(ranks)
        row["ranks"] = {
            "links": shape[0],
            "candidates": shape[1],
            "digest": digest(ranked.links, ranked.candidates),
        }
        logits, t = test.logits(answers[MODEL]), np.sort(times[test.links])
        row["reliability"] = {
            "rolling": reliability(*(calibration.probability(each, t) for each in logits)),
            "calibrated": reliability(*(calibration.steps[0].probability(each) for each in logits)),
            "raw": reliability(*map(sigmoid, logits)),
        }
    return row | {"model": figures.pop(MODEL), "baselines": figures}


def candidate_recall(candidates: Candidates, events: Events, links: Array) -> dict[str, float]:
    """How often the true destination of a test link is among the candidates that `rank` would choose."""
    places, sizes = [], []
    some = spread(links, RECALL_LINKS)
    for link in some:
        found = list(candidates.choose(int(events.src[link]), events.t[link]))
        sizes.append(len(found))
        places.append(found.index(int(events.dst[link])) if int(events.dst[link]) in found else math.inf)
    at = {f"recall@{k}": float(np.mean(np.array(places) < k)) for k in (10, 100)}
    return {"links": len(some), "size": float(np.mean(sizes)), **at, "recall": float(np.mean(np.isfinite(places)))}


def spread(links: Array, most: int) -> Array:
    """At most `most` of the links, evenly spaced."""
    return np.asarray(links[np.linspace(0, len(links) - 1, min(most, len(links))).astype(int)])


def _rank_figures(ranks: Array) -> dict[str, float]:
    return {"mrr": metrics.mrr(ranks)} | {f"hits@{k}": metrics.hits(ranks, k) for k in (1, 3, 10)}


def _figures(true: Array, false: Array, batches: tuple[int, ...]) -> dict[str, float]:
    """Pooled, and means over batches of these sizes."""
    found = {}
    for name, metric in (("auc", metrics.auc), ("ap", metrics.average_precision)):
        found[name] = metric(true, false)
        found |= {f"{name}_batch{size}": metrics.batch_mean(metric, true, false, size) for size in batches}
    return found
