"""Figures 8 and 9 of the paper: the shapes of causal anonymous walks (CAWs) and of anonymous walks (AWs) with the
highest and lowest scores, and how often they occur with positive and negative links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cawn.caw.features import WALK_SEED, Batch
from cawn.caw.system import WalkScorer
from cawn.devices import pick_device
from cawn.explain.distinct_walks import ENDED, describe_shape, distinct_walks, format_order, format_shape
from cawn.explain.law import MIN_SHARE, LawLinks, links_of_run
from cawn.explain.link import walk_scorer
from cawn.learn.metrics import mean_and_interval
from cawn.learn.plots import COLOURS
from cawn.learn.runs import load_system, read_run
from cawn.paper.experiments import Content, Experiment, Finding, Plot, Request, Table, listing
from cawn.paper.measurements import Measurement, Work, train_and_test, training
from cawn.paper.published import display_name
from cawn.paper.records import MODEL, Records
from cawn.paper.results import Result
from cawn.paper.variants import paper_config
from cawn.studies.jobs import Send

Array = npt.NDArray[Any]

SETTINGS = {"num_walks": 32, "length": 3}  # of the paper's figures
LINKS = 5_000  # test links, and as many negatives
SHOWN = 3  # highest- and lowest-scored CAWs
KEPT = 10  # of each in the results
PRINTED = "(0,∞) → (1,2) → (2,3) → (1,2)"  # the paper's highest-scored CAW on Wikipedia
LEAST_PAIRS = 5  # with a shape that is listed
_FOLDS = 10
_PAIRS_PER_CHUNK = 256
_NEVER, _SELDOM = 0.05, 0.25  # largest shares of pairs that "almost never" and "seldom" mean
_LABELS = {"caw": "Shapes of CAWs", "aw": "Shapes of AWs"}


class Shapes(Experiment):
    name = "shapes"
    title = "Figures 8 and 9: shapes of causal anonymous walks and of anonymous walks"
    networks = ("wikipedia", "uci")
    systems = ("paper-mean",)
    seeds = 1

    def plan(self, request: Request) -> list[Measurement]:
        measurements = []
        for network in request.networks:
            given = {name: value for name, value in SETTINGS.items() if name not in request.changes}
            config = paper_config(request, network).with_(**given, pooling="mean", sides="joint", head="linear")
            for identity, label in _LABELS.items():
                for seed in range(request.seeds):
                    trained = training(
                        network, config.with_(identity=identity), task="transductive", seed=seed, label=label
                    )
                    settings = {**trained.settings, "links": LINKS}
                    measurements.append(Measurement(network, "shapes", settings, trained.label))
        return measurements

    def show(self, records: Records) -> Content | None:
        section = Content([])
        for network in records.results.networks:
            found = {kind: records.results.labelled(label, network) for kind, label in _LABELS.items()}
            for results in found.values():
                results.sort(key=lambda one: int(one.settings["seed"]))
                section.used.extend(results)
            if found["caw"]:
                _show_network(section, records.where(network=network), network, found)
        return section if section.used else None


# The measurement


def measure(work: Work, send: Send) -> dict[str, Any]:
    """Train a model and collect the shapes of its walks."""
    found = train_and_test(work, send)
    run = read_run(work.folder)
    scorer = walk_scorer(load_system(run, pick_device(work.device), work.threads).scorer(run.events))
    links = links_of_run(work.folder, run.events, work.settings["links"])
    groups = walk_groups(scorer, links)
    return found | shape_table(groups, len(links.src), scorer.config.length, 2 * scorer.config.num_walks)


@dataclass(frozen=True, slots=True)
class WalkGroups:
    """The walks of some pairs, grouped by pair and shape: n groups."""

    positive: bool
    link: Array  # [n] position of the pair's link among those given
    shapes: Array  # [n, 2 L], or [n, L] for anonymous walks, as in `DistinctWalks`
    contribution: Array  # [n] of all walks of the group together, to the logit of the pair
    count: Array  # [n] number of sampled walks


def walk_groups(scorer: WalkScorer, links: LawLinks) -> Iterator[WalkGroups]:
    """The walks of positives and negatives, and their terms of the logit, for a model whose logit is a sum over walks.

    Shapes are those of the identities that the model uses.
    """
    for first in range(0, len(links.src), _PAIRS_PER_CHUNK):
        chunk = slice(first, first + _PAIRS_PER_CHUNK)
        for positive, other in ((True, links.dst), (False, links.negative)):
            batch = scorer.batcher.trace(links.src[chunk], other[chunk], links.t[chunk], seed=WALK_SEED)
            walks = distinct_walks(batch)
            values = walks.shapes if scorer.config.identity == "caw" else walks.orders
            keys = np.column_stack([walks.pair, values.reshape(len(values), -1)])
            groups, group = np.unique(keys, axis=0, return_inverse=True)
            before = np.cumsum([0, *(len(level.parent) for level in batch.levels)])  # prefixes of lower depth
            terms = walk_terms(scorer, batch)[before[walks.level] + walks.row]
            contribution, count = (np.bincount(group.reshape(-1), weights=each) for each in (terms, walks.count))
            yield WalkGroups(positive, first + groups[:, 0], groups[:, 1:], contribution, count)


@torch.no_grad()
def walk_terms(scorer: WalkScorer, batch: Batch) -> Array:
    """What the walks that end at each prefix add to the logit, for a linear head and joint sides: [n_0 + ... + n_m]."""
    module = scorer.module.eval()
    weight: Any = module.head.weight
    terms = module.pooling_terms(batch.to(weight.device)) @ weight[0, : scorer.config.dim]
    return np.asarray(terms.double().cpu().numpy())


def shape_table(groups: Iterable[WalkGroups], links: int, length: int, num_walks: int) -> dict[str, Any]:
    """The shapes with the highest and the lowest scores, in descending order, and the power of all of them.

    Args:
        groups: Of shapes of one kind.
        links: Number of positives, and of negatives.
        length: m
        num_walks: 2M, of a pair.
    """
    columns = [
        (some.shapes, np.full(len(some.link), some.positive), some.link, some.contribution, some.count)
        for some in groups
    ]
    shapes, positive, link, contribution, count = (np.concatenate(column) for column in zip(*columns, strict=True))
    keys, number = np.unique(shapes, axis=0, return_inverse=True)
    number = number.reshape(-1)
    pairs, with_positives, terms, walks = (
        np.bincount(number, weights=weights, minlength=len(keys))
        for weights in (np.ones(len(number)), positive, contribution, count)
    )
    figures = {
        "score": num_walks * terms / walks,
        "with_positives": with_positives / links,
        "with_negatives": (pairs - with_positives) / links,
    }
    frequent = np.flatnonzero(pairs >= max(MIN_SHARE * 2 * links, LEAST_PAIRS))
    order = frequent[np.argsort(-figures["score"][frequent], kind="stable")]
    rows = [
        _describe(keys[i], length) | {"rank": rank} | {name: round(float(each[i]), 6) for name, each in figures.items()}
        for rank, i in enumerate(order, start=1)
    ]
    power = discriminatory_power(number, positive, link % _FOLDS, count)
    return {
        "pairs": 2 * links,
        "shapes": [row for row in rows if row["rank"] <= KEPT or row["rank"] > len(rows) - KEPT],
        "printed": next((row for row in rows if row["shape"] == PRINTED), None),
        "ranked": len(rows),
        "rare": len(keys) - len(rows),
        "power": [round(value, 6) for value in power],
    }


def _describe(key: Array, length: int) -> dict[str, Any]:
    """A shape in the paper's notation and, if it is one of a CAW, in words; and its number of steps."""
    if len(key) == length + 1:
        return {"shape": format_order(key), "meaning": "", "steps": int((key > 0).sum()) - 1}
    shape = key.reshape(-1, 2)
    steps = int((shape[:, 0] != ENDED).sum()) - 1
    return {"shape": format_shape(shape, length), "meaning": describe_shape(shape, length), "steps": steps}


def discriminatory_power(shape: Array, positive: Array, fold: Array, count: Array) -> tuple[float, float]:
    """The total variation distance between the shapes of walks of positives and of negatives, and half the width of
    its 95 % interval over folds.

    In each fold, a shape counts for or against a link by its frequencies in the other folds; otherwise chance
    differences of rare shapes would add up.

    Args:
        shape: [n] number of a shape.
        positive: [n] whether the pair is a positive.
        fold: [n]
        count: [n] number of such walks.
    """
    sums = np.zeros((int(fold.max()) + 1, 2, int(shape.max()) + 1))  # by fold, kind of pair and shape
    np.add.at(sums, (fold, positive.astype(int), shape), count)
    distances = []
    for here in sums:
        rest = _shares(sums.sum(axis=0) - here)
        negative_share, positive_share = _shares(here)
        sign = np.sign(rest[1] - rest[0])
        distances.append(float(sign @ (positive_share - negative_share)) / 2)
    return mean_and_interval(distances)


def _shares(counts: Array) -> Array:
    """Rows that sum to 1; zeros where there is nothing: [2, shapes]."""
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))


# The report


def _show_network(section: Content, records: Records, network: str, results: dict[str, list[Result]]) -> None:
    """The tables, plots and claims of one network; shapes are those of the first seed."""
    name, first = display_name(network), results["caw"][0].value
    rows = [row for some in extremes(first["shapes"]) for row in some]
    note = f"Number of shapes frequent enough to be ranked: {first['ranked']:,}; rarer ones: {first['rare']:,}."
    section.tables.append(_table(f"{name}: the highest- and lowest-scored CAWs", rows, note))
    section.plots.append(Plot(f"{name}: CAWs", partial(_draw, rows), (8.0, 3.4)))
    section.claims.extend([*caw_claims(network, first["shapes"]), printed_claim(network, first)])
    if results["aw"]:
        rows = results["aw"][0].value["shapes"]
        steps = max((row["steps"] for row in rows), default=0)
        complete = sum(row["steps"] == steps for row in rows)
        note = f"{complete} shapes have {steps} steps (paper, Wikipedia: 4); the others end for lack of earlier links."
        section.tables.extend([_table(f"{name}: all AWs", rows, note), _power_table(name, records, results)])
        section.plots.append(Plot(f"{name}: AWs", partial(_draw, rows), (8.0, 3.0)))
        section.claims.append(power_claim(network, *map(power, results.values())))


def extremes(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The shapes with the highest and the lowest scores, in descending order; none is in both."""
    number = min(SHOWN, len(rows) // 2)
    return rows[:number], rows[len(rows) - number :]


def positive_share(row: dict[str, Any]) -> float:
    """Of the pairs with a walk of this shape, the share of positives."""
    return float(row["with_positives"] / (row["with_positives"] + row["with_negatives"]))


def caw_claims(name: str, rows: list[dict[str, Any]]) -> list[Finding]:
    """Those about the highest- and the lowest-scored shapes; for each, the largest share is decisive."""
    highest, lowest = ([positive_share(row) for row in some] for some in extremes(rows))
    if not highest:
        return []
    negatives, positives, of = 1 - min(highest), max(lowest), f"of the pairs with one of the {len(highest)}"
    texts = [
        f"{of} highest-scored shapes, at most {100 * _NEVER:g} % are negatives",
        f"{of} lowest-scored shapes, at most {100 * _SELDOM:g} % are positives",
    ]
    return [
        Finding.that(texts[0], name, negatives <= _NEVER, f"{100 * negatives:.1f} %"),
        Finding.that(texts[1], name, positives <= _SELDOM, f"{100 * positives:.1f} %"),
    ]


def power_claim(name: str, caw: tuple[float, float], aw: tuple[float, float]) -> Finding:
    """That CAWs separate positives from negatives better than AWs: their intervals do not overlap."""
    text = f"CAWs have more discriminatory power than AWs ({caw[0]:.3f} against {aw[0]:.3f})"
    return Finding.that(text, name, caw[0] - caw[1] > aw[0] + aw[1], f"{caw[0] - aw[0]:+.3f}")


def printed_claim(name: str, value: dict[str, Any]) -> Finding:
    """That the shape that the paper prints has the highest score."""
    row, found = value["printed"], "too rare to be ranked"
    if row is not None:
        share = 100 * positive_share(row)
        found = f"rank {row['rank']} of {value['ranked']}, score {row['score']:+.2f}, {share:.1f} % positives"
    text = f"the shape with the highest score is the paper's, {PRINTED}"
    return Finding.that(text, name, row is not None and row["rank"] == 1, found)


def power(results: list[Result]) -> tuple[float, float]:
    """Discriminatory power and half the width of its interval: over seeds, or over the folds of a single one."""
    values = [one.value["power"] for one in results]
    if len(values) == 1:
        return values[0][0], values[0][1]
    return mean_and_interval([value for value, _ in values])


_COLUMNS = {
    "shape": "{shape}",
    "score of a walk": "{score:+.2f}",
    "with positives": "{with_positives:.2%}",
    "with negatives": "{with_negatives:.2%}",
    "positives among these pairs": "{share:.1%}",
}


def _table(title: str, rows: list[dict[str, Any]], note: str) -> Table:
    words = {"in words": "{meaning}"} if any(row["meaning"] for row in rows) else {}
    return listing(title, _COLUMNS | words, [row | {"share": positive_share(row)} for row in rows], note)


def _power_table(name: str, records: Records, results: dict[str, list[Result]]) -> Table:
    tested = records.where(metric="auc", scorer=MODEL, label=tuple(_LABELS.values())).by("label")
    rows = []
    for kind, some in results.items():
        mean, half = power(some)
        rows.append([kind.upper(), f"{mean:.2f} ± {half:.2f}", str(tested[(_LABELS[kind],)]), str(len(some))])
    headings = ["identities", "discriminatory power", "AUC of the model, %", "seeds"]
    note = (
        "Intervals are over seeds; for a single seed, that of the discriminatory power is over the ten parts of the "
        "links. The shapes listed are those of the lowest seed."
    )
    return Table(headings, rows, f"{name}: discriminatory power", note)


def _draw(rows: list[dict[str, Any]], figure: Any) -> None:
    """Paired bars: the positives and the negatives among the pairs with a walk of each shape."""
    axis = figure.subplots()
    places, shares = np.arange(len(rows)), np.array([100 * positive_share(row) for row in rows])
    axis.bar(places - 0.19, shares, 0.36, color=COLOURS[0], label="positives")
    axis.bar(places + 0.19, 100 - shares, 0.36, color=COLOURS[1], label="negatives")
    labels = [f"{row['score']:+.2f}\n" + row["shape"].replace(" → ", "\n→ ") for row in rows]
    axis.set_xticks(places, labels, fontsize=7)
    axis.set_ylabel("% of the pairs with the shape")
    figure.legend(loc="outside upper right", ncols=2)
