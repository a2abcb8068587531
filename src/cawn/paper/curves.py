"""CAW-N with one setting changed: AUC on all inductive links, differences paired by seed, and curves with intervals."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from statistics import fmean
from typing import Any

from cawn.paper.measurements import Measurement
from cawn.paper.results import MEAN_AND_INTERVAL, Cell, Result, Results, cell, differences
from cawn.paper.training import KINDS_OF_NEGATIVES, training
from cawn.systems.settings import Settings

METRIC = "auc_batch30"  # as in the authors' code
TESTED = {"links": "all", "negatives": "random", "clock": "strict"}
METHOD = (
    f"AUC in percent on all inductive test links (new-new and new-old together), {MEAN_AND_INTERVAL}; strict clock, "
    "random negatives, averaged over batches of 30 links as in the authors' code. Differences are paired by seed, so "
    "that both runs have the same split and the same negatives. A difference is clear if its 95 % confidence interval "
    "excludes zero; a difference from a single seed has no interval and is never clear."
)


def inductive(network: str, config: Settings, seed: int, label: str) -> Measurement:
    """A training run on the inductive task, evaluated as in table2, so that equal runs of both are made once."""
    return training(network, config, task="inductive", seed=seed, label=label, negatives=KINDS_OF_NEGATIVES)


def lowest_seed(runs: Iterable[Result]) -> Result | None:
    """The run that others are compared with. Sweeps begin with the lowest seed, so this run is from the latest one."""
    return min(runs, key=lambda run: int(run.settings["seed"]), default=None)


def comparable(runs: Iterable[Result], reference: Result, changed: Collection[str]) -> list[Result]:
    """The runs whose settings equal those of a reference, except for the changed ones.

    Other runs are left from earlier sweeps, for example with the settings of an earlier grid search.
    """
    base = reference.settings["config"]

    def same(config: Mapping[str, Any]) -> bool:
        return all(config.get(name) == base.get(name) for name in {*config, *base} - set(changed))

    return [run for run in runs if same(run.settings["config"])]


def main_settings(run: Result) -> str:
    """The settings that the paper's grid search varies, as text."""
    config = run.settings["config"]
    names = {"M": "num_walks", "m": "length", "alpha": "alpha", "learning rate": "lr"}
    values = {symbol: config[name] for symbol, name in names.items()}
    return ", ".join(f"{name} = {v if isinstance(v, str) else format(v, 'g')}" for name, v in values.items())


def verdict(difference: Cell | None) -> str:
    """Whether a difference confirms the claim that it is positive."""
    if difference is None:
        return "not measured"
    if not difference.clear:
        return "undecided"
    return "confirmed" if difference.mean > 0 else "contradicted"


def average(values: Iterable[Mapping[int, float]]) -> dict[int, float]:
    """By seed, the mean of several quantities, for the seeds that all of them have."""
    found = list(values)
    seeds = set.intersection(*map(set, found)) if found else set[int]()
    return {seed: fmean(one[seed] for one in found) for seed in sorted(seeds)}


def difference(first: Mapping[int, float], second: Mapping[int, float]) -> Cell | None:
    """How much larger one quantity is than another, paired by seed."""
    return Cell.of(first[seed] - second[seed] for seed in sorted(first.keys() & second.keys()))


@dataclass(frozen=True)
class Point:
    """The runs with one value of a setting."""

    x: float
    auc: Cell
    runs: list[Result]

    def gains(self, other: Point) -> dict[int, float]:
        """By seed, how much higher AUC is than at another point."""
        return differences(self.runs, other.runs, METRIC, **TESTED)

    def gain(self, other: Point) -> Cell | None:
        return Cell.of(self.gains(other).values())


@dataclass(frozen=True)
class Curve:
    """AUC against one setting, the others fixed."""

    network: str
    points: list[Point]  # in ascending order of x

    @property
    def best(self) -> Point:
        """The point with the highest mean."""
        return max(self.points, key=lambda point: point.auc.mean)

    def plateau(self) -> list[Point]:
        """The points around the best up to the first that is clearly below it, on either side."""
        near, best = self.near_best(), self.points.index(self.best)
        after = list(takewhile(lambda point: point in near, self.points[best:]))
        before = list(takewhile(lambda point: point in near, reversed(self.points[:best])))
        return [*reversed(before), *after]

    def near_best(self) -> list[Point]:
        """The points that are not clearly below the best, and the best."""
        return [point for point in self.points if verdict(self.best.gain(point)) != "confirmed"]

    def at(self, x: float) -> Point | None:
        return next((point for point in self.points if point.x == x), None)


def read_curve(
    results: Results, network: str, start: str, setting: str, x: Callable[[Result], float], reference: Result
) -> Curve:
    """The runs labelled `start` that differ from a reference in one setting only, grouped by its value.

    Args:
        x: The place of a run on the axis; that of a point is the mean over its seeds.
    """
    groups: dict[str, list[Result]] = {}
    for run in comparable(results.labelled(start, network), reference, (setting,)):
        groups.setdefault(json.dumps(run.settings["config"][setting]), []).append(run)
    points = []
    for runs in groups.values():
        if (mean := cell(runs, METRIC, **TESTED)) is not None:
            points.append(Point(fmean(x(run) for run in runs), mean, runs))
    return Curve(network, sorted(points, key=lambda point: point.x))


def draw_curve(axis: Any, points: list[Point]) -> None:
    """Means joined by a line, with intervals."""
    x, y = [point.x for point in points], [point.auc.mean for point in points]
    axis.errorbar(x, y, [point.auc.half or 0.0 for point in points], marker="o", markersize=4, capsize=3)
    axis.grid()
