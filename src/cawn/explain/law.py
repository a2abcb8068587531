"""What a model relies on: the contribution of each part of the input, and of every walk shape, over many links.

The shapes of causal anonymous walks and, for comparison, of anonymous walks, which ignore what walks have in common,
are those of the paper's Figures 8 and 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from cawn.caw.system import WalkScorer
from cawn.checks import Array
from cawn.data.events import Events
from cawn.errors import QueryError
from cawn.explain.distinct_walks import describe_shape, format_order, format_shape
from cawn.explain.game import Contributions, Game
from cawn.explain.link import walk_scorer
from cawn.explain.parts import TITLES, InputParts
from cawn.explain.renderable import Renderable
from cawn.explain.views import Evidence, LawView, Shape, interaction_in_words, scale, signed
from cawn.kernels.rng import seed_for
from cawn.learn.metrics import auc, average_precision
from cawn.learn.negatives import negatives
from cawn.learn.runs import read_description
from cawn.learn.splits import split_of_run
from cawn.systems.base import Scorer

Progress = Callable[[int, int], object]  # called with the number of links done, and of all

CONFIDENCE = 0.95  # of all intervals of a table simultaneously
MIN_SHARE = 0.005  # of the pairs: rarer shapes are only counted
EVIDENCE = (
    "Evidence is how much more a part contributes to a true link than to a false one, on average; "
    "the evidence of all parts adds up to the difference of the mean logits"
)
_LINKS_PER_CHUNK = 128


@dataclass(frozen=True, slots=True)
class MeanContribution:
    """The contribution of a part over some links."""

    links: str  # "true" or "false"
    nodes: str  # "old": training links include both ends; "new": all others
    count: int
    mean: float
    mean_absolute: float
    error: float  # standard error of the mean

    @property
    def in_words(self) -> tuple[str, str] | None:
        """The mean, and that of absolute values; None without links."""
        return (f"{signed(self.mean)} ± {self.error:.3f}", f"{self.mean_absolute:.3f}") if self.count else None


@dataclass(frozen=True, slots=True)
class LawPart:
    """What a part contributes over all links of a law.

    Its evidence is how much more it contributes to a true link than to a false one, on average; the evidence of all
    parts adds up to the mean difference of their logits.
    """

    name: str  # a key of `TITLES`
    title: str
    evidence: float  # log-odds
    share: float  # of the evidence of all parts; 0 if that is not significantly positive
    low: float  # confidence interval of the evidence, simultaneous over the table
    high: float
    means: list[MeanContribution]
    auc_without: float  # if the part is left out at test time
    ap_without: float

    @property
    def significant(self) -> bool:
        """Whether its evidence differs significantly from zero."""
        return not self.low <= 0 <= self.high

    def row(self, ap: float) -> Evidence:
        """What is shown of it; `ap` is the average precision of the whole model."""
        return Evidence(
            title=self.title,
            value=self.evidence,
            significant=self.significant,
            interval=f"{signed(self.low)} to {signed(self.high)}",
            share=f"{signed(100 * self.share, 1).removeprefix('+')} %",
            ap=f"{100 * self.ap_without:.1f} %",
            drop=signed(100 * (self.ap_without - ap), 1),
            means=[mean.in_words for mean in self.means],
        )


@dataclass(frozen=True, slots=True)
class Law(Renderable):
    """What a model relies on, over true links and as many false ones."""

    links: int  # number of positives, and of negatives
    parts: list[LawPart]  # in the order of `TITLES`
    auc: float
    ap: float
    evidence: float  # the mean logit of true links minus that of false ones
    error: float  # its standard error
    interaction: float | None  # mean interaction between the pair's own history and walks, over true links
    shapes: list[Shape]  # of causal anonymous walks, highest scores first
    orders: list[Shape]  # of anonymous walks
    rare: int  # number of shapes too rare to be listed
    background: str = "strangers"

    @property
    def significant(self) -> bool:
        """Whether true links have significantly higher logits than false ones."""
        return is_significant(self.evidence, self.error)

    @property
    def in_words(self) -> list[str]:
        """What the model relies on in a few sentences."""
        found = sorted((part for part in self.parts if part.significant), key=lambda part: -part.evidence)
        raising = [part for part in found if part.evidence > 0]
        if not raising or not self.significant:
            return ["No law was found: nothing that the model uses reliably separates true links from false ones."]
        shares = [
            f"{100 * part.share:.0f} %{' of the evidence comes' * (not i)} from {part.title}"
            for i, part in enumerate(raising[:3])
        ]
        words = [f"{_NATURE[raising[0].name]}: {_enumerate(shares)}."]
        harmful = [part.title for part in found if part.evidence < 0]
        if harmful:
            verb = "favours" if len(harmful) == 1 else "favour"
            words.append(f"On average, {_enumerate(harmful)} {verb} false links.")
        drops = sorted((part.ap_without - self.ap, part.title) for part in self.parts)[:2]
        lost = [f"{title} ({100 * drop:+.1f} points)" for drop, title in drops if drop < 0]
        if lost:
            words.append(f"Average precision ({100 * self.ap:.1f} %) drops most without {_enumerate(lost)}.")
        return words

    def to_dict(self) -> dict[str, Any]:
        """The values as types that JSON has."""
        return Renderable.to_dict(self) | {"in_words": self.in_words}

    def view(self) -> LawView:
        """What is shown: the evidence of each part, and the shapes of walks."""
        parts = sorted(self.parts, key=lambda part: -abs(part.evidence))
        size = f"{self.links:,} test links and as many random negatives"
        return LawView(
            sentences=self.in_words,
            figures=f"{size}: AUC {100 * self.auc:.1f} %, average precision {100 * self.ap:.1f} %",
            evidence=[part.row(self.ap) for part in parts],
            scale=scale([part.evidence for part in parts]),
            meaning=EVIDENCE,
            total=signed(self.evidence),
            confidence=f"{100 * CONFIDENCE:.0f} %",
            groups=[(f"{mean.links}, {mean.nodes}", f"{mean.count:,}") for mean in parts[0].means],
            interaction="" if self.interaction is None else interaction_in_words(self.interaction, mean=True),
            shapes=self.shapes,
            orders=self.orders,
            rare=self.rare,
        )


_NATURE = {
    "pair": "Links tend to repeat",
    "source": "Links depend on the activity of their source",
    "destination": "Links depend on the activity of their destination",
    "repeated": "Links tend to repeat",
    "common": "Links tend to close triangles",
    "longer": "Links follow indirect connections",
    "apart": "Links depend on what each node does elsewhere",
    "time": "Links depend on timing",
    "attributes": "Links depend on attributes",
}


def _enumerate(items: list[str]) -> str:
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


class LawLinks(NamedTuple):
    """The links that a law is explained with: positives (src, dst, t) and negatives (src, negative, t)."""

    src: Array
    dst: Array
    negative: Array
    t: Array
    old: Array  # [nodes] whether training links include the node


def law_of_run(folder: Path, scorer: Scorer, events: Events, max_links: int, progress: Progress | None = None) -> Law:
    """Explain the model of the run in `folder` on at most so many of its test links and on their random negatives."""
    return explain_law(walk_scorer(scorer), links_of_run(folder, events, max_links), progress)


def links_of_run(folder: Path, events: Events, max_links: int) -> LawLinks:
    """At most so many test links of a run, spread over time, each with a random negative."""
    found = read_description(folder)
    if len(events) != found["links"]:
        raise QueryError(f"{folder}: links were added after training; explain the run as it was trained")
    parts = split_of_run(events, found)
    links = np.sort(np.concatenate(list(parts.test.values())))
    links = links[np.linspace(0, len(links) - 1, min(max_links, len(links))).astype(int)]
    negative = negatives(events, links, "random", seen=parts.train, seed=seed_for(found["seed"], "test")).dst
    if not (events.src == events.dst).any():  # a self-loop would be an obvious negative
        kept = negative != events.src[links]
        links, negative = links[kept], negative[kept]
    old = np.zeros(events.num_nodes, bool)
    old[events.src[parts.train]] = old[events.dst[parts.train]] = True
    return LawLinks(events.src[links], events.dst[links], negative, events.t[links], old)


def explain_law(scorer: WalkScorer, links: LawLinks, progress: Progress | None = None) -> Law:
    """What the scores of positives and negatives are based on."""
    if len(links.src) < 2:
        raise QueryError(f"{len(links.src)} test links with a negative: explaining a model needs at least two")
    length, num_links = scorer.config.length, len(links.src)
    of_shapes, of_orders = _ShapeTable(num_links), _ShapeTable(num_links)  # I_CAW and I_AW
    columns: tuple[list[Contributions], list[Contributions]] = [], []  # of negatives, of positives
    for first in range(0, num_links, _LINKS_PER_CHUNK):
        some = slice(first, first + _LINKS_PER_CHUNK)
        for positive, dst in ((True, links.dst), (False, links.negative)):
            game = Game(scorer, links.src[some], dst[some], links.t[some])
            found = game.contributions()
            columns[positive].append(found)
            walks = game.walks
            for table, values in ((of_shapes, walks.shapes), (of_orders, walks.orders)):
                table.add(walks.pair, values, positive, found.walks)
        if progress is not None:
            progress(min(first + _LINKS_PER_CHUNK, num_links), num_links)
    (false_table, false), (true_table, true) = (
        (np.concatenate([one.table for one in chunks]), np.concatenate([one.parts for one in chunks]))
        for chunks in columns
    )
    parts, logits = game.parts, (true_table[:, -1], false_table[:, -1])
    pair = parts.pair_and_walks(true_table)
    old = links.old[links.src]
    is_old = old & links.old[links.dst], old & links.old[links.negative]
    return Law(
        links=num_links,
        parts=_law_parts(parts, (true_table, false_table), (true, false), is_old),
        auc=auc(*logits),
        ap=average_precision(*logits),
        evidence=float(logits[0].mean() - logits[1].mean()),
        error=float((logits[0] - logits[1]).std(ddof=1) / math.sqrt(num_links)),
        interaction=None if pair is None else float(pair.mean()),
        shapes=of_shapes.frequent(
            lambda key: format_shape(key.reshape(-1, 2), length), lambda key: describe_shape(key.reshape(-1, 2), length)
        ),
        orders=of_orders.frequent(format_order),
        rare=of_shapes.rare,
    )


def _law_parts(
    parts: InputParts, tables: tuple[Array, Array], contributions: tuple[Array, Array], is_old: tuple[Array, Array]
) -> list[LawPart]:
    """The parts of a law, from the tables [links, 2^n] and contributions [links, n] of positives and negatives."""
    (true, false), everything = contributions, tables[0].shape[1] - 1
    difference = true - false  # a link and its negative have the same source and time
    evidence, n = difference.mean(axis=0), len(parts.names)
    error = difference.std(axis=0, ddof=1) / math.sqrt(len(true))
    half = error * NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / 2 / n)
    total = difference.sum(axis=1)  # of each link
    has_shares = is_significant(float(total.mean()), float(total.std(ddof=1) / math.sqrt(len(total))))
    share = evidence / evidence.sum() if has_shares else np.zeros(n)
    columns = (column.tolist() for column in (evidence, share, evidence - half, evidence + half))
    found = []
    for i, (name, mean, part, low, high) in enumerate(zip(parts.names, *columns, strict=True)):
        without = [table[:, everything ^ 1 << i] for table in tables]
        means = [
            _mean(kind, nodes, values[:, i][old == (nodes == "old")])
            for kind, values, old in (("true", true, is_old[0]), ("false", false, is_old[1]))
            for nodes in ("old", "new")
        ]
        found.append(
            LawPart(name, TITLES[name], mean, part, low, high, means, auc(*without), average_precision(*without))
        )
    return found


def is_significant(evidence: float, error: float) -> bool:
    """Whether the lower end of the confidence interval of the total evidence is above zero."""
    return evidence > NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * error


def _mean(links: str, nodes: str, values: Array) -> MeanContribution:
    if len(values) == 0:
        return MeanContribution(links, nodes, 0, 0.0, 0.0, 0.0)
    error = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
    return MeanContribution(links, nodes, len(values), float(values.mean()), float(np.abs(values).mean()), error)


class _ShapeTable:
    """Collects how often each shape occurs and what it contributes."""

    def __init__(self, links: int) -> None:
        self._links, self.rare = links, 0
        self._parts: list[tuple[Array, Array, Array]] = []

    def add(self, pair: Array, shapes: Array, positive: bool, contribution: Array) -> None:
        """Add walks of some pairs [n], their shapes [n, ...] and their contributions to the logit [n]."""
        keys = np.column_stack([pair, shapes.reshape(len(shapes), -1)])
        groups, group = np.unique(keys, axis=0, return_inverse=True)  # walks of one shape count once for a pair
        together = np.bincount(group.reshape(-1), weights=contribution)
        self._parts.append((groups[:, 1:], np.full(len(groups), positive), together))

    def frequent(self, write: Callable[[Array], str], describe: Callable[[Array], str] = lambda _: "") -> list[Shape]:
        """The shapes that are not rare, highest score first.

        Args:
            write: The text of a shape.
            describe: Its meaning.
        """
        shapes, positive, contribution = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        keys, number = np.unique(shapes, axis=0, return_inverse=True)
        number = number.reshape(-1)
        with_true, with_false, total, squares = (
            np.bincount(number, weights=values, minlength=len(keys))
            for values in (positive, ~positive, contribution, contribution**2)
        )
        count = with_true + with_false
        score = total / count
        error = np.sqrt(np.maximum(squares / count - score**2, 0) / count)
        frequent = count >= max(MIN_SHARE * 2 * self._links, 5)
        self.rare = int((~frequent).sum())
        z = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / 2 / max(frequent.sum(), 1))
        columns = (column[frequent].tolist() for column in (score, error, with_true, with_false))
        rows = [
            Shape(write(key), mean, doubt, *self._shares(true, false, z), describe(key))
            for key, mean, doubt, true, false in zip(keys[frequent], *columns, strict=True)
        ]
        return sorted(rows, key=lambda row: -row.score)

    def _shares(self, true: float, false: float, z: float) -> tuple[float, float, float, float, float]:
        """Two shares, and the lift: their ratio, with the usual interval, symmetric in its logarithm."""
        links = self._links
        p, q = (true + 0.5) / (links + 1), (false + 0.5) / (links + 1)
        half = z * math.sqrt((1 - p) / (p * links) + (1 - q) / (q * links))
        return true / links, false / links, p / q, p / q * math.exp(-half), p / q * math.exp(half)
