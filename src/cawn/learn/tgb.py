"""The evaluation of the Temporal Graph Benchmark (TGB): links are ranked among negatives of the same source.

The candidates of a link are drawn as TGB's generator does, with the same stream of random numbers: up to half of them
are destinations that the source had in training, the rest are destinations that it did not have. Destinations that it
has at exactly the same time are left out. If more are asked for than there are, all destinations are candidates.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.data.hashing import digest
from cawn.learn import metrics
from cawn.learn.clocks import Clock
from cawn.learn.ranking import NO_CANDIDATE, Measure, groups, rank_among, rank_among_all
from cawn.learn.results import Results
from cawn.learn.splits import Split
from cawn.progress import Report
from cawn.systems.base import Scorer

Array = npt.NDArray[Any]
Nodes = npt.NDArray[np.int32]

DEFAULT_CANDIDATES = 1_000  # per link, if there are more destinations
HITS = 10
_HISTORICAL = 0.5
_SEED = 42


class Part(NamedTuple):
    """Links to rank, and their candidates [n, K]; None if these are all destinations of the pool."""

    name: str
    links: Array
    candidates: Nodes | None
    pool: Nodes
    asked: int  # number of candidates

    @property
    def description(self) -> str:
        """The candidates in words."""
        if self.candidates is None:
            return "all destinations"
        return f"{self.asked:,} destinations"

    @property
    def digest(self) -> str:
        return digest(self.links, self.pool if self.candidates is None else self.candidates)

    def figures(self, scorer: Scorer, events: Events, times: Array, measure: Measure, report: Report) -> Array:
        """Reciprocal rank and whether it is a hit, of each link: [n, 2] float32."""
        options: dict[str, Any] = {"measure": measure, "report": report}
        if self.candidates is None:
            return rank_among_all(scorer, events, self.links, self.pool, times=times[self.links], **options)
        columns = events.src[self.links], events.dst[self.links], events.t[self.links]
        number, first = groups(*columns)  # equal links have equal candidates
        found = rank_among(
            scorer, events, self.links[first], self.candidates[first], times=times[self.links[first]], **options
        )
        return np.asarray(found[number])


def parts(events: Events, split: Split) -> Iterator[Part]:
    """Validation and test links with their candidates, in the order in which TGB draws them."""
    pool = all_destinations(events)
    count = split.task.candidates or _default_count(len(pool))
    generator = np.random.RandomState(_SEED)
    for name, links in (("validation", split.val), ("test", split.test["test"])):
        found = None
        if int(_HISTORICAL * count) < len(pool):
            found = draw_candidates(events, links, split.train, pool, count, generator)
        yield Part(name, links, found, pool, count)


def _default_count(destinations: int) -> int:
    """A count that includes all destinations if they are at most `DEFAULT_CANDIDATES`."""
    return 2 * destinations if destinations <= DEFAULT_CANDIDATES else DEFAULT_CANDIDATES


def all_destinations(events: Events) -> Nodes:
    """Every id from the smallest to the largest destination, whether or not it occurs, except sources if the network is
    bipartite."""
    pool = np.arange(events.dst.min(), events.dst.max() + 1, dtype=np.int32)
    bipartite = not np.isin(events.src, events.dst).any()
    return pool[~np.isin(pool, events.src)] if bipartite else pool


def draw_candidates(
    events: Events, links: Array, train: Array, pool: Nodes, count: int, generator: np.random.RandomState
) -> Nodes:
    """The candidates of each link, as TGB's generator draws them: [n, K]; NO_CANDIDATE where there are fewer.

    TGB stores them by source, destination and time, so the last draw of several equal links counts for all.

    Args:
        links: Positions [n] of a part, ascending; they determine which destinations are left out.
        train: Positions of the training links.
        pool: All destinations, ascending.
        count: The number of candidates to draw for each link.
    """
    seen = _Lists(events.src[train], np.searchsorted(pool, events.dst[train]), events.num_nodes)
    src, place = events.src[links], np.searchsorted(pool, events.dst[links])
    group, _ = groups(src, events.t[links])
    together = _Lists(group, place, len(links))
    drawn, most = [], int(count * _HISTORICAL)
    for i in range(len(links)):
        known, own = seen.of(src[i]), together.of(group[i])
        is_free = np.ones(len(pool), bool)
        is_free[known] = is_free[own] = False
        historical, rest = np.setdiff1d(known, own, assume_unique=True), np.flatnonzero(is_free)
        if len(historical):
            historical = generator.choice(historical, min(most, len(historical)), replace=False)
        missing = count - len(historical)
        if missing <= len(rest):
            rest = generator.choice(rest, missing, replace=False)
        drawn.append(pool[np.concatenate([historical, rest])])
    found = np.full((len(links), max(map(len, drawn), default=0)), NO_CANDIDATE, np.int32)
    for row, nodes in zip(found, drawn, strict=True):
        row[: len(nodes)] = nodes
    equal, _ = groups(src, place, events.t[links])
    last = np.zeros(len(links), np.int64)
    np.maximum.at(last, equal, np.arange(len(links)))
    return found[last[equal]]


class _Lists:
    """The distinct values of each key, ascending."""

    def __init__(self, keys: Array, values: Array, number_of_keys: int) -> None:
        width = int(values.max(initial=0)) + 1
        codes = np.unique(keys.astype(np.int64) * width + values)
        self._values = codes % width
        self._starts = np.searchsorted(codes, np.arange(number_of_keys + 1) * width)

    def of(self, key: int) -> Array:
        return self._values[self._starts[key] : self._starts[key + 1]]


def rank_rows(
    scorers: Mapping[str, Callable[[int], Scorer]],
    events: Events,
    split: Split,
    *,
    model: str,
    trained_with: str,
    report: Report = lambda _: None,
) -> list[dict[str, Any]]:
    """A row for test links and one for validation links: MRR and Hits@10 of every scorer.

    Args:
        scorers: By name; a function of the position of the first link of a part, where batches of the clock start.
        model: The name of the scorer that is evaluated; all others are its baselines.
        trained_with: The kind of negatives the model was trained with, recorded in each row.
        report: Called with the fraction that is done.
    """
    times, (measure, evaluator) = Clock(split.task.clock).on(events).t, best_measure()
    rows: list[dict[str, Any]] = []
    for index, part in enumerate(parts(events, split)):
        figures = {}
        for number, (name, scorer) in enumerate(scorers.items()):

            def part_done(share: float, before: int = index * len(scorers) + number) -> None:
                report((before + share) / (2 * len(scorers)))

            scorer_of_part = scorer(int(part.links[0]))
            figures[name] = _means(part.figures(scorer_of_part, events, times, measure, part_done))
        row = {
            "links": part.name,
            "negatives": part.description,
            "protocol": split.task.protocol,
            "clock": split.task.clock,
            "trained_with": trained_with,
            "count": len(part.links),
            "fallback": 0.0,
            "split": split.digest,
            "digest": part.digest,
            "evaluator": evaluator,
            "model": figures.pop(model),
            "baselines": figures,
        }
        rows.insert(0, row)
    return rows


def _means(figures: Array) -> dict[str, float]:
    """MRR and Hits@10, summed in float32 as TGB's Evaluator does."""
    reciprocal, hits = (np.ascontiguousarray(column, np.float32).mean() for column in figures.T)
    return {"mrr": float(reciprocal), f"hits@{HITS}": float(hits)}


def reciprocal_ranks(true: Array, candidates: Array) -> Array:
    """Reciprocal rank and whether it is a hit, of each link: [n, 2] float32."""
    ranks = metrics.ranks(true, candidates)
    return np.stack([1 / ranks.astype(np.float32), (ranks <= HITS).astype(np.float32)], axis=1)


def best_measure() -> tuple[Measure, str]:
    """TGB's own Evaluator if py-tgb is installed, else `reciprocal_ranks`, which agrees with it; and its name."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of packages that it imports
            from tgb.linkproppred.evaluate import Evaluator  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return reciprocal_ranks, "cawn"
    evaluator = Evaluator("tgbl-wiki", k_value=HITS)  # the metrics do not depend on the dataset

    def measure(true: Array, candidates: Array) -> Array:
        found = [
            evaluator.eval({"y_pred_pos": score, "y_pred_neg": negatives, "eval_metric": ["mrr"]})
            for score, negatives in zip(true[:, None], candidates[:, None], strict=True)
        ]
        return np.array([[each["mrr"], each[f"hits@{HITS}"]] for each in found], np.float32)

    return measure, f"py-tgb {metadata.version('py-tgb')}"


class Benchmark(NamedTuple):
    """A dataset of TGB for link prediction."""

    dataset: str | None = None  # of our catalog, with the same links; None if its file must be given
    protocol: str = "tgb"
    two_sided: bool = False  # whether a source and a destination of the same name are two nodes in TGB's loader


BENCHMARKS = {
    "wiki": Benchmark("wikipedia"),
    "enron": Benchmark("enron", two_sided=True),
    "uci": Benchmark("uci", two_sided=True),
    "subreddit": Benchmark("reddit"),
    "lastfm": Benchmark(),
    "review": Benchmark(protocol="tgb:100"),
    "coin": Benchmark(protocol="tgb:20"),
    "comment": Benchmark(protocol="tgb:20"),
    "flight": Benchmark(protocol="tgb:20"),
}


def two_sided(events: Events) -> Events:
    """The same links between sources and copies of the destinations, which have the ids after the largest source."""
    return Events(events.src, events.dst.astype(np.int64) + events.src.max() + 1, events.t, events.msg)


def summarise(results: Results) -> dict[str, dict[str, dict[str, float | None]]]:
    """Mean, standard deviation and half of the 95 % interval of each metric over runs, by part; None for a single
    run."""
    found: dict[str, dict[str, dict[str, float | None]]] = {}
    for (part, metric), mean in results.where(baseline=False).means("links", "metric").items():
        found.setdefault(part, {})[metric] = {"mean": mean.mean, "std": mean.std, "interval": mean.half}
    return found
