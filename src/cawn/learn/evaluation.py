"""Accuracy of a model and of its baselines on the same links, against the same negatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cawn.data.events import Events
from cawn.data.hashing import digest
from cawn.learn import metrics
from cawn.learn.calibration import Calibration, reliability, sigmoid
from cawn.learn.negatives import Kind, Negatives, destinations, negatives
from cawn.learn.splits import Split
from cawn.progress import Report, progress
from cawn.systems.baselines import Past, Rule
from cawn.systems.cawn import fused
from cawn.systems.cawn.batches import PAIRS_PER_BATCH, WALK_SEED, Batch, Batcher, ahead, pairs_within, width_of_x
from cawn.systems.cawn.device_batches import DeviceBatcher
from cawn.systems.cawn.device_scoring import of_contrast, of_one
from cawn.systems.cawn.model import CAWN
from cawn.walks.candidates import Candidates

Array = npt.NDArray[Any]

RANKED_LINKS, CANDIDATES = 200, 100  # of the one-against-many view of a run's results


@torch.no_grad()
def score_contrast(
    model: CAWN,
    batcher: Batcher | DeviceBatcher,
    src: Array,
    dst: Array,
    false: Array,
    t: Array,
    *,
    seed: int = WALK_SEED,
    report: Report = lambda _: None,
) -> tuple[Array, Array]:
    """Logits of the pairs (src, dst) and (src, false): [B] each. `report` is told how many links are done."""
    model.eval()
    if isinstance(batcher, DeviceBatcher):
        found = of_contrast(partial(fused.logits, model), batcher, src, dst, false, t, seed=seed)
        report(len(src))
        return found

    def task(part: slice) -> Callable[[], Batch]:
        return lambda: batcher.contrast(src[part], dst[part], false[part], t[part], seed=seed)

    tasks = [task(slice(i, i + PAIRS_PER_BATCH)) for i in range(0, len(src), PAIRS_PER_BATCH)]
    logits = []
    for i, batch in enumerate(ahead(tasks, 1), start=1):
        logits.append(model(batch).view(2, -1))
        report(min(i * PAIRS_PER_BATCH, len(src)))
    true, wrong = torch.cat(logits, dim=1).double().cpu().numpy()
    return true, wrong


def evaluate(
    model: CAWN,
    batcher: Batcher | DeviceBatcher,
    events: Events,
    parts: Split,
    kinds: tuple[Kind, ...],
    calibration: Calibration,
    *,
    seed: int,
    baselines: dict[str, Rule] | None = None,
    quiet: bool = True,
) -> list[dict[str, Any]]:
    """A row for each kind of test links and of negatives: AUC and AP, pooled and in batches of 30, model and baselines.

    Test links that have negatives of their own make a row "own". Rows of random negatives also have "ranks", MRR and
    Hits@k of links spread over the test period among random destinations, and "reliability", the errors of the
    probabilities. `baselines` are reported beside the untrained ones; each row says what negatives training used.
    """
    rules = Past(events).rules() | (baselines or {})
    questions = list(_questions(events, parts, kinds, seed))
    rows, done = [], 0
    with progress("testing", sum(len(links) for _, _, links, _ in questions), quiet=quiet) as report:
        for links_name, kind, links, drawn in questions:
            src, dst, t = events.src[links], events.dst[links], events.t[links]

            def part_done(count: float, before: int = done) -> None:
                report(before + count)

            true, false = score_contrast(model, batcher, src, dst, drawn.dst, t, report=part_done)
            done += len(links)
            row: dict[str, Any] = {
                "links": links_name,
                "negatives": kind,
                "trained_with": _training_negatives(model, events, parts),
                "count": len(links),
                "fallback": round(drawn.fallback, 4),
                "split": parts.digest,
                "digest": drawn.digest,
                "model": _figures(true, false),
                "rules": {name: _figures(rule(src, dst, t), rule(src, drawn.dst, t)) for name, rule in rules.items()},
            }
            if kind == "random":
                row["ranks"] = _among_many(model, batcher, events, links, rules, seed)
                row["reliability"] = {
                    "calibrated": reliability(*(calibration.probability(logits) for logits in (true, false))),
                    "raw": reliability(sigmoid(true), sigmoid(false)),
                }
            rows.append(row)
    return rows


def _questions(
    events: Events, parts: Split, kinds: tuple[Kind, ...], seed: int
) -> Iterator[tuple[str, str, Array, Negatives]]:
    """What is tested: the name of the test links, the kind of negatives, the links and their negatives."""
    for name, links in parts.test.items():
        if len(links) == 0:
            continue
        for kind in kinds:
            yield name, kind, links, negatives(events, links, kind, seen=parts.train, seed=seed)
        if events.negative is not None and len(some := links[events.negative[links] >= 0]):
            yield name, "own", some, Negatives(events.negative[some], 0.0)


def _training_negatives(model: CAWN, events: Events, parts: Split) -> str:
    """Which negatives the model was trained with."""
    given = events.negative is not None and bool((events.negative[parts.train] >= 0).any())
    return "own, " * given + model.config.negatives


def candidate_recall(batcher: Batcher, links: Array) -> dict[str, float]:
    """How often the true destination is among the candidates that `rank` would choose: some links of the test."""
    events = batcher.events
    some = links[np.linspace(0, len(links) - 1, min(RANKED_LINKS, len(links))).astype(int)]
    choice = Candidates(events, batcher.history, directed=batcher.config.directed)
    places, sizes = [], []
    for link in some:
        found = list(choice.choose(int(events.src[link]), events.t[link]))
        sizes.append(len(found))
        places.append(found.index(int(events.dst[link])) if int(events.dst[link]) in found else math.inf)
    at = {f"recall@{k}": float(np.mean(np.array(places) < k)) for k in (10, 100)}
    return {"links": len(some), "size": float(np.mean(sizes)), **at, "recall": float(np.mean(np.isfinite(places)))}


def _among_many(
    model: CAWN, batcher: Batcher | DeviceBatcher, events: Events, links: Array, rules: dict[str, Rule], seed: int
) -> dict[str, Any]:
    """Ranks of some links among random destinations: model, recency and rates only."""
    some = links[np.linspace(0, len(links) - 1, min(RANKED_LINKS, len(links))).astype(int)]
    src, dst, t = events.src[some], events.dst[some], events.t[some]
    pool, place = destinations(events, links[-1] + 1)
    drawn = np.random.default_rng(seed).integers(0, len(pool) - 1, (len(some), CANDIDATES))
    candidates = pool[drawn + (drawn >= place[dst][:, None])]  # any but the true one
    ranks = {"model": rank_links(model, batcher, src, dst, t, candidates)}
    flat = (np.repeat(src, CANDIDATES), candidates.ravel(), np.repeat(t, CANDIDATES))
    for name in ("recency", "rates only"):
        if name in rules:
            others = rules[name](*flat).reshape(candidates.shape)
            ranks[name] = metrics.ranks(rules[name](src, dst, t), others)
    figures = {name: _rank_figures(found) for name, found in ranks.items()}
    return {"links": len(some), "candidates": CANDIDATES, "digest": digest(some, candidates)} | figures


def _rank_figures(ranks: Array) -> dict[str, float]:
    return {"mrr": metrics.mrr(ranks)} | {f"hits@{k}": metrics.hits(ranks, k) for k in (1, 3, 10)}


@torch.no_grad()
def rank_links(
    model: CAWN,
    batcher: Batcher | DeviceBatcher,
    src: Array,
    dst: Array,
    t: Array,
    candidates: Array,
    *,
    seed: int = WALK_SEED,
    byte_budget: int = 1 << 28,
) -> Array:
    """The rank of each true link (src, dst, t) [B] among false destinations `candidates` [B, K]; see `metrics.ranks`.

    The walks of a source are sampled once for all its candidates; pairs go through the network in pieces that keep
    its tensors within `byte_budget`.
    """
    model.eval()
    piece = pairs_within(byte_budget, model.config, width_of_x(model.config, batcher.events))
    ranks = np.empty(len(src))
    for i in range(len(src)):
        others = np.concatenate([dst[i : i + 1], candidates[i]])
        if isinstance(batcher, DeviceBatcher):
            logits = of_one(
                partial(fused.logits, model), batcher, src[i], others, t[i], seed=seed, byte_budget=byte_budget
            )
        else:
            pieces = batcher.one_against_many(src[i], others, t[i], piece, seed=seed)
            logits = np.concatenate([model(batch).double().cpu().numpy() for batch in pieces])
        ranks[i] = metrics.ranks(logits[:1], logits[None, 1:])[0]
    return ranks


def _figures(true: Array, false: Array) -> dict[str, float]:
    return {
        "auc": metrics.auc(true, false),
        "ap": metrics.average_precision(true, false),
        "auc_batch30": metrics.batch_mean(metrics.auc, true, false, 30),
        "ap_batch30": metrics.batch_mean(metrics.average_precision, true, false, 30),
    }


def mean_rows(runs: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The rows of several seeds as one: mean and half-width of the 95 % confidence interval of each figure."""
    merged = []
    for same in zip(*runs, strict=True):
        row = {"links": same[0]["links"], "negatives": same[0]["negatives"], "seeds": len(same)}
        for figure in same[0]["model"]:
            row[figure] = metrics.mean_and_interval([r["model"][figure] for r in same])
        merged.append(row)
    return merged
