"""The sensitivity of AUC to M, alpha and m, varied one at a time around the best settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from cawn.caw.config import Config
from cawn.data.decays import PAPER_RATIO
from cawn.data.events import Events
from cawn.paper.curves import (
    METHOD,
    Curve,
    Point,
    difference,
    draw_curve,
    inductive,
    lowest_seed,
    main_settings,
    read_curve,
    verdict,
)
from cawn.paper.experiments import Experiment, Plot, Request, Section, Table
from cawn.paper.measurements import Measurement
from cawn.paper.published import display_name, published
from cawn.paper.results import Cell, Result, Results, check_same_splits
from cawn.paper.variants import paper_config

NUM_WALKS = (8, 16, 32, 64, 128)
LENGTHS = (1, 2, 3, 4, 5)
FACTORS = (1 / 30, 1 / 10, 1 / 3, 1.0, 3.0, 10.0, 30.0)  # of the best alpha
BEST = "sensitivity, best settings"


class Axis(NamedTuple):
    """A setting that is varied."""

    symbol: str
    setting: str
    x: Callable[[Result], float]  # its value in a run


AXES = (
    Axis("M", "num_walks", lambda run: float(run.settings["config"]["num_walks"])),
    Axis("alpha", "alpha", lambda run: float(run.value["facts"]["alpha"][0])),
    Axis("m", "length", lambda run: float(run.settings["config"]["length"])),
)


class Sensitivity(Experiment):
    name = "sensitivity"
    title = "Sensitivity: AUC of CAW-N-mean against M, alpha and m, varied one at a time"
    networks = ("uci", "wikipedia")
    systems = ("paper-mean",)
    seeds = 3

    def plan(self, request: Request) -> list[Measurement]:
        found = []
        for seed in request.seeds_of("inductive"):
            for network, events in request.networks.items():
                best = paper_config(request, network)
                found.append(inductive(network, best, seed, BEST))
                for axis in AXES:
                    for value in values_of(axis.setting, best, events):
                        shown = f"{value:.3g}" if isinstance(value, float) else value
                        config = best.with_(**{axis.setting: value})
                        if config != best:
                            found.append(inductive(network, config, seed, f"sensitivity, {axis.symbol} = {shown}"))
        return found

    def show(self, results: Results) -> Section | None:
        section = Section(
            [
                METHOD,
                "M is the number of walks, m their length, alpha the decay, and tau the number of links of an average "
                "node per unit of time. One setting is varied at a time; the others, in parentheses, are those that "
                "the grid search found, or those of the preset if there was no search. The paper claims that few "
                "walks suffice and the gain saturates as M grows; that alpha has an optimal interval, where "
                "tau / alpha is about 5, and that smaller and larger values are worse; and that AUC peaks at some m. "
                "The best value is the one with the highest mean AUC.",
            ]
        )
        for network in results.networks:
            if (best := lowest_seed(results.labelled(BEST, network))) is not None:
                found = read_sensitivities(results, network, best)
                name = display_name(network)
                section.used.extend(found.runs)
                section.text.append(f"**{name}** ({main_settings(best)}). {' '.join(found.statements())}")
                section.tables.extend(found.tables())
                section.plots.append(Plot(f"Sensitivity on {name}", found.draw, (9.0, 3.0)))
        check_same_splits(section.used)
        return section if section.used else None


def values_of(setting: str, best: Config, events: Events) -> list[Any]:
    """The values to measure: for alpha zero, the paper's rule, tau / 5, and a logarithmic grid around the best."""
    if setting != "alpha":
        return list({"num_walks": NUM_WALKS, "length": LENGTHS}[setting])
    tau = events.intensity
    centre = best.decays(tau)[0] or tau / PAPER_RATIO
    return [0.0, "paper", *(float(f"{centre * factor:.3g}") for factor in FACTORS)]


def read_sensitivities(results: Results, network: str, best: Result) -> Sensitivities:
    """The curves of a network through the point with the best settings."""
    curves = {axis.symbol: read_curve(results, network, "sensitivity", axis.setting, axis.x, best) for axis in AXES}
    return Sensitivities(network, curves, next(filter(_by_rule, curves["alpha"].points), None))


def _by_rule(point: Point) -> bool:
    """Whether alpha is chosen by the paper's rule."""
    return bool(point.runs[0].settings["config"]["alpha"] == "paper")


@dataclass(frozen=True)
class Sensitivities:
    """The curves of one network."""

    network: str
    curves: dict[str, Curve]  # by symbol
    rule: Point | None  # where alpha is tau / 5, tau being that of the training links

    @property
    def tau(self) -> float | None:
        """Of the training links, mean over seeds."""
        return None if self.rule is None else PAPER_RATIO * self.rule.x

    @property
    def runs(self) -> list[Result]:
        found = {run.key: run for curve in self.curves.values() for point in curve.points for run in point.runs}
        return list(found.values())

    # In words

    def statements(self) -> list[str]:
        statements = {"M": self._walks, "alpha": self._decays, "m": self._lengths}
        return [line for symbol, lines in statements.items() if len(self.curves[symbol].points) > 1 for line in lines()]

    def _walks(self) -> list[str]:
        curve = self.curves["M"]
        best, least = curve.best, curve.near_best()[0]
        fewer = "all smaller values are clearly worse" if least is best else f"M = {least.x:g} is not clearly worse"
        lines = [f"M = {best.x:g} is the best; {'it is the smallest' if best is curve.points[0] else fewer}."]
        steps = [(b.gains(a), a, b) for a, b in pairwise(curve.points)]
        if len(steps) > 1:
            less = difference(steps[0][0], steps[-1][0])
            shown = [f"by {_signed(gains)} from M = {a.x:g} to {b.x:g}" for gains, a, b in (steps[0], steps[-1])]
            lines.append(f"AUC changes {' and '.join(shown)}: the claim that the gain saturates is {verdict(less)}.")
        return lines

    def _decays(self) -> list[str]:
        curve = self.curves["alpha"]
        best, near = curve.best, curve.plateau()
        lines = [] if self.tau is None else [f"tau is {self.tau:.3g} on the training links{self._published_tau()}."]
        lines += [f"alpha = {best.x:.3g} is the best{self._ratios(best)}."]
        if len(near) > 1:
            lines.append(f"Values from {near[0].x:.3g} to {near[-1].x:.3g} are not clearly worse{self._ratios(*near)}.")
        ends = {"alpha = 0 (uniform sampling)": curve.at(0.0), f"alpha = {curve.points[-1].x:.3g}": curve.points[-1]}
        for name, point in ends.items():
            if point is best:
                lines.append(f"The claim that {name} is worse is contradicted: it is the best.")
            elif point is not None and (gain := point.gain(best)) is not None:
                lines.append(f"The claim that {name} is worse is {verdict(best.gain(point))} ({gain.signed}).")
        return lines + self._five()

    def _published_tau(self) -> str:
        found = published()["networks"].get(self.network)
        return "" if found is None else f" ({found['intensity']:.3g} in the paper's Table 1)"

    def _five(self) -> list[str]:
        """Whether tau / alpha of about 5 is the best."""
        best, rule = self.curves["alpha"].best, self.rule
        if rule is None:
            return []
        claim = f"The paper's tau / alpha = {PAPER_RATIO:g} is"
        if rule is best:
            return [f"{claim} the best."]
        far = verdict(best.gain(rule)) == "confirmed"
        gain = rule.gain(best)
        return [f"{claim} {'clearly' if far else 'not clearly'} worse than the best ({gain.signed})."] if gain else []

    def _lengths(self) -> list[str]:
        curve = self.curves["m"]
        others = ", ".join(f"{point.x:g}" for point in curve.near_best() if point is not curve.best)
        inside = curve.best not in (curve.points[0], curve.points[-1])
        return [
            f"m = {curve.best.x:g} is the best, {'inside' if inside else 'at an end of'} the range measured; "
            + (f"not clearly worse: m = {others}." if others else "all others are clearly worse.")
        ]

    def ratio(self, point: Point) -> str:
        """Tau / alpha."""
        return "infinite" if point.x == 0 else f"{(self.tau or 0.0) / point.x:.3g}"

    def _ratios(self, *points: Point) -> str:
        shown = " to ".join(dict.fromkeys(self.ratio(point) for point in (points[0], points[-1])))
        return f" (tau / alpha: {shown})" if self.tau else ""

    # Tables and plots

    def tables(self) -> list[Table]:
        return [self._table(symbol, curve) for symbol, curve in self.curves.items()]

    def _table(self, symbol: str, curve: Curve) -> Table:
        ratios = symbol == "alpha" and self.tau
        rows = []
        for point in curve.points:
            mean = f"**{point.auc}**" if point is curve.best else str(point.auc)
            gain = None if point is curve.best else point.gain(curve.best)
            row = [f"{point.x:.3g}", mean, "" if gain is None else gain.signed, str(point.auc.seeds)]
            rows.append([row[0], self.ratio(point), *row[1:]] if ratios else row)
        headings = [symbol, *(["tau / alpha"] if ratios else []), "AUC", "difference from the best", "seeds"]
        return Table(headings, rows, f"{display_name(self.network)}: {symbol}")

    def draw(self, figure: Any) -> None:
        """A panel for each setting."""
        panels = dict(zip(self.curves, figure.subplots(1, len(self.curves), sharey=True), strict=True))
        for symbol, axis in panels.items():
            axis.set_xlabel(symbol)
            points = [point for point in self.curves[symbol].points if symbol != "alpha" or point.x > 0]
            draw_curve(axis, points)
            if symbol == "M":
                axis.set_xscale("log", base=2)
            if symbol != "alpha":
                axis.set_xticks([point.x for point in points], [f"{point.x:g}" for point in points])
        panels["M"].set_ylabel("AUC, %")
        self._finish_decays(panels["alpha"])

    def _finish_decays(self, axis: Any) -> None:
        """A logarithmic axis with tau / alpha above it; alpha = 0 as a line."""
        axis.set_xscale("log")
        if (uniform := self.curves["alpha"].at(0.0)) is not None:
            axis.axhline(uniform.auc.mean, color="C1", linestyle="--", label="alpha = 0")
            axis.legend()
        if self.tau:
            convert = partial(_divide, self.tau)
            axis.secondary_xaxis("top", functions=(convert, convert)).set_xlabel("tau / alpha")


def _signed(gains: dict[int, float]) -> str:
    return gain.signed if (gain := Cell.of(gains.values())) else "not measured"


def _divide(tau: float, alpha: Any) -> Any:
    return tau / np.maximum(alpha, np.finfo(float).tiny)
