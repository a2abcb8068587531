"""Figures 8 and 9 of the paper: the shapes of causal anonymous walks (CAWs) and of anonymous walks (AWs) with the
highest and lowest scores, and how often they occur with positive and negative links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

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
from cawn.paper import training
from cawn.paper.experiments import Experiment, Plot, Request, Section, Table
from cawn.paper.measurements import Measurement, Task
from cawn.paper.published import display_name
from cawn.paper.results import Cell, Result, Results, cell
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
                    trained = training.training(
                        network, config.with_(identity=identity), task="transductive", seed=seed, label=label
                    )
                    settings = {**trained.settings, "links": LINKS}
                    measurements.append(Measurement(network, "shapes", settings, trained.label))
        return measurements

    def show(self, results: Results) -> Section | None:
        section = Section(
            [
                "A model with mean pooling and a linear head, so that the logit of a pair is the mean score of its "
                f"walks (M = {SETTINGS['num_walks']}, m = {SETTINGS['length']}), is trained once with the identities "
                "of causal anonymous walks (CAWs) and once with those of anonymous walks (AWs). Shapes are counted on "
                f"up to {LINKS:,} test links and as many random negatives. The score of a shape is the mean score of "
                "its walks; a shape occurs with a pair if one of the pair's 2M walks has it. Shapes that occur with "
                f"fewer than {100 * MIN_SHARE:g} % of the pairs are not listed. Coordinates are those of the paper: "
                "(d_uw, d_vw) are the positions at which node w first appears in the walks from the source u and in "
                "those from the destination v, ∞ if it does not appear.",
                "The discriminatory power of CAWs, or of AWs, is the total variation distance between the "
                "distributions of their shapes over the walks of positives and of negatives: 0 if the distributions "
                "are equal, 1 if they have no shape in common. It is cross-validated over ten parts of the links.",
                f"Paper (Wikipedia): the {SHOWN} highest-scored CAWs almost never occur with negative links, the "
                f"{SHOWN} lowest-scored seldom with positive ones; the highest is {PRINTED}. AWs are highly mixed.",
            ]
        )
        for network in results.networks:
            caws, aws = (
                sorted(results.labelled(label, network), key=lambda one: int(one.settings["seed"]))
                for label in _LABELS.values()
            )
            if caws:
                section.used.extend([*caws, *aws])
                _show_network(section, display_name(network), caws, aws)
        return section if section.used else None


# The measurement.


def measure(task: Task, send: Send) -> dict[str, Any]:
    """Train a model and collect the shapes of its walks."""
    found = training.measure(task, send)
    run = read_run(task.folder)
    scorer = walk_scorer(load_system(run, pick_device(task.device), task.threads).scorer(run.events))
    links = links_of_run(task.folder, run.events, task.settings["links"])
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

    def total(weights: Array) -> Array:
        return np.bincount(number, weights=weights, minlength=len(keys))

    pairs, walks = total(np.ones(len(number))), total(count)
    score = num_walks * total(contribution) / walks
    with_positives, with_negatives = total(positive) / links, total(~positive) / links
    frequent = np.flatnonzero(pairs >= max(MIN_SHARE * 2 * links, LEAST_PAIRS))
    rows = [
        {
            **_describe(keys[i], length),
            "rank": rank,
            "score": round(float(score[i]), 6),
            "with_positives": round(float(with_positives[i]), 6),
            "with_negatives": round(float(with_negatives[i]), 6),
        }
        for rank, i in enumerate(frequent[np.argsort(-score[frequent], kind="stable")], start=1)
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


# The report.


class Claim(NamedTuple):
    """A claim of the paper, and whether the results confirm it."""

    text: str
    confirmed: bool

    def __str__(self) -> str:
        return f"{self.text}: **{'confirmed' if self.confirmed else 'not confirmed'}**."


def _show_network(section: Section, name: str, caws: list[Result], aws: list[Result]) -> None:
    """The tables, plots and claims of one network; shapes are those of the first seed."""
    first = caws[0].value
    highest, lowest = extremes(first["shapes"])
    claims = caw_claims(highest, lowest)
    section.tables.append(_table([*highest, *lowest], f"{name}: the highest- and lowest-scored CAWs", _rare(first)))
    section.plots.append(Plot(f"{name}: CAWs", _bars([*highest, *lowest]), (8.0, 3.4)))
    if aws:
        rows = aws[0].value["shapes"]
        steps = max((row["steps"] for row in rows), default=0)
        complete = sum(row["steps"] == steps for row in rows)
        note = f"{complete} shapes have {steps} steps (paper, Wikipedia: 4); the others end for lack of earlier links."
        section.tables.append(_table(rows, f"{name}: all AWs", note))
        section.plots.append(Plot(f"{name}: AWs", _bars(rows), (8.0, 3.0)))
        section.tables.append(_power_table(name, caws, aws))
        claims.append(power_claim(_power(caws), _power(aws)))
    section.text.append(f"**{name}.** {' '.join([*map(str, claims), _printed(first)])}")


def extremes(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The shapes with the highest and the lowest scores, in descending order; none is in both."""
    number = min(SHOWN, len(rows) // 2)
    return rows[:number], rows[len(rows) - number :]


def positive_share(row: dict[str, Any]) -> float:
    """Of the pairs with a walk of this shape, the share of positives."""
    return float(row["with_positives"] / (row["with_positives"] + row["with_negatives"]))


def caw_claims(highest: list[dict[str, Any]], lowest: list[dict[str, Any]]) -> list[Claim]:
    """The claims about the highest- and the lowest-scored shapes."""
    if not highest:
        return []
    most = max(1 - positive_share(row) for row in highest)
    least = max(positive_share(row) for row in lowest)
    return [
        Claim(
            f"Of the pairs with one of the {len(highest)} highest-scored shapes, at most {100 * most:.1f} % per shape "
            f"are negatives (“almost never” is taken as at most {100 * _NEVER:g} %)",
            most <= _NEVER,
        ),
        Claim(
            f"Of the pairs with one of the {len(lowest)} lowest-scored shapes, at most {100 * least:.1f} % per shape "
            f"are positives (“seldom” is taken as at most {100 * _SELDOM:g} %)",
            least <= _SELDOM,
        ),
    ]


def power_claim(caw: tuple[float, float], aw: tuple[float, float]) -> Claim:
    """The claim that CAWs separate positives from negatives better than AWs: their intervals do not overlap."""
    text = f"CAWs have more discriminatory power than AWs ({caw[0]:.3f} against {aw[0]:.3f})"
    return Claim(text, caw[0] - caw[1] > aw[0] + aw[1])


def _power(results: list[Result]) -> tuple[float, float]:
    """Discriminatory power and half the width of its interval: over seeds, or over the folds of a single one."""
    values = [one.value["power"] for one in results]
    if len(values) == 1:
        return values[0][0], values[0][1]
    return mean_and_interval([value for value, _ in values])


def _printed(value: dict[str, Any]) -> str:
    """The rank of the shape that the paper prints."""
    row = value["printed"]
    if row is None:
        return f"The paper's highest-scored shape {PRINTED} is too rare to be ranked."
    return (
        f"The paper's highest-scored shape {PRINTED} has rank {row['rank']} of {value['ranked']}, score "
        f"{row['score']:+.2f}; {100 * positive_share(row):.1f} % of the pairs with it are positives."
    )


def _rare(value: dict[str, Any]) -> str:
    return f"Number of shapes frequent enough to be ranked: {value['ranked']:,}; rarer ones: {value['rare']:,}."


def _table(rows: list[dict[str, Any]], title: str, note: str) -> Table:
    headings = [
        "shape",
        "score of a walk",
        "with positives",
        "with negatives",
        "positives among these pairs",
        "in words",
    ]
    if not any(row["meaning"] for row in rows):
        headings = headings[:-1]
    lines = [
        [
            row["shape"],
            f"{row['score']:+.2f}",
            f"{100 * row['with_positives']:.2f} %",
            f"{100 * row['with_negatives']:.2f} %",
            f"{100 * positive_share(row):.1f} %",
            row["meaning"],
        ][: len(headings)]
        for row in rows
    ]
    return Table(headings, lines, title, note)


def _power_table(name: str, caws: list[Result], aws: list[Result]) -> Table:
    rows = []
    for kind, results in (("CAW", caws), ("AW", aws)):
        power, half = _power(results)
        auc = cell(results, "auc", links="all", negatives="random", clock="strict")
        rows.append([kind, str(Cell(power, half, len(results))), "" if auc is None else str(auc), str(len(results))])
    headings = ["identities", "discriminatory power", "AUC of the model, %", "seeds"]
    note = (
        "Intervals are over seeds; for a single seed, that of the discriminatory power is over the ten parts of the "
        "links. The shapes listed are those of the lowest seed."
    )
    return Table(headings, rows, f"{name}: discriminatory power", note)


def _bars(rows: list[dict[str, Any]]) -> Callable[[Any], None]:
    """Paired bars: the positives and the negatives among the pairs with a walk of each shape."""

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        places, shares = np.arange(len(rows)), np.array([100 * positive_share(row) for row in rows])
        for shift, kind, values, colour in (
            (-0.19, "positives", shares, COLOURS[0]),
            (0.19, "negatives", 100 - shares, COLOURS[1]),
        ):
            axis.bar(places + shift, values, 0.36, color=colour, label=kind)
        labels = [f"{row['score']:+.2f}\n" + row["shape"].replace(" → ", "\n→ ") for row in rows]
        axis.set_xticks(places, labels, fontsize=7)
        axis.set_ylabel("% of the pairs with the shape")
        figure.legend(loc="outside upper right", ncols=2)

    return draw
