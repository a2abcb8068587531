"""AUC of CAW-N against one setting, the others fixed: sensitivity to M, alpha and m, and tree-structured sampling."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from cawn.caw.config import Config
from cawn.data.decays import PAPER_RATIO
from cawn.data.events import Events
from cawn.paper.experiments import Content, Experiment, Finding, Plot, Request, Table
from cawn.paper.measurements import Measurement, inductive
from cawn.paper.published import display_name
from cawn.paper.records import BySeed, Records, comparable, first_run, main_settings
from cawn.paper.results import Result
from cawn.paper.variants import paper_config

Curve = dict[float, BySeed]  # AUC by the place on the axis, in ascending order
AS_IN_PAPER = {"metric": "auc_batch30", "scorer": "", "links": "all", "negatives": "random", "clock": "strict"}


def read_curve(records: Records, setting: str, base: str, x: Callable[[Result], float]) -> Curve:
    """The runs that differ from the base run in one setting only; the place of each value is the mean over its runs."""
    groups: dict[str, Records] = {}
    for record in comparable(records.where(**AS_IN_PAPER), base, lambda _: (setting,)):
        value = json.dumps(record.run.settings["config"][setting])
        groups.setdefault(value, Records(records.results, [])).append(record)
    found = {fmean(map(x, group.runs)): group.seeds() for group in groups.values()}
    return {place: found[place] for place in sorted(found)}


def best_of(curve: Curve) -> float:
    """Where the mean is highest."""
    return max(curve, key=lambda x: curve[x].mean)


def draw_curve(axis: Any, curve: Curve) -> None:
    """Means joined by a line, with intervals."""
    halves = [auc.half or 0.0 for auc in curve.values()]
    axis.errorbar(list(curve), [auc.mean for auc in curve.values()], halves, marker="o", markersize=4, capsize=3)
    axis.grid()


# Sensitivity

VALUES: dict[str, tuple[float, ...]] = {"num_walks": (8, 16, 32, 64, 128), "length": (1, 2, 3, 4, 5)}
FACTORS = (1 / 30, 1 / 10, 1 / 3, 1.0, 3.0, 10.0, 30.0)  # of the best alpha
BEST = "sensitivity, best settings"
AXES: dict[str, tuple[str, Callable[[Result], float]]] = {  # the setting of a symbol, and its value in a run
    "M": ("num_walks", lambda run: float(run.settings["config"]["num_walks"])),
    "alpha": ("alpha", lambda run: float(run.value["facts"]["alpha"][0])),
    "m": ("length", lambda run: float(run.settings["config"]["length"])),
}


class Sensitivity(Experiment):
    name = "sensitivity"
    title = "Sensitivity: AUC of CAW-N-mean against M, alpha and m, varied one at a time"
    texts = ("inductive", "sensitivity")
    networks = ("uci", "wikipedia")
    systems = ("paper-mean",)
    seeds = 3

    def plan(self, request: Request) -> list[Measurement]:
        found = []
        for seed in request.seeds_of("inductive"):
            for network, events in request.networks.items():
                best = paper_config(request, network)
                found.append(inductive(network, best, seed, BEST))
                for symbol, (setting, _) in AXES.items():
                    for value in values_of(setting, best, events):
                        shown = f"{value:.3g}" if isinstance(value, float) else value
                        config = best.with_(**{setting: value})
                        if config != best:
                            found.append(inductive(network, config, seed, f"sensitivity, {symbol} = {shown}"))
        return found

    def show(self, records: Records) -> Content | None:
        found = records.labelled("sensitivity")
        section = Content(found.runs)
        for network in found.networks:
            own = found.where(network=network)
            if (best := first_run(own, BEST)) is not None:
                curves = {symbol: read_curve(own, setting, BEST, x) for symbol, (setting, x) in AXES.items()}
                tau = tau_of(comparable(own, BEST, lambda _: ("alpha",)).runs)
                section.claims.extend(_claims(network, curves, tau))
                section.tables.extend(_table(network, symbol, curve, tau) for symbol, curve in curves.items())
                title = f"Sensitivity on {display_name(network)} ({main_settings(best)})"
                section.plots.append(Plot(title, partial(_draw, curves, tau), (9.0, 3.0)))
        return section if section.tables else None


def values_of(setting: str, best: Config, events: Events) -> list[Any]:
    """The values to measure: for alpha zero, the paper's rule, tau / 5, and a logarithmic grid around the best."""
    if setting != "alpha":
        return list(VALUES[setting])
    tau = events.intensity
    centre = best.decays(tau)[0] or tau / PAPER_RATIO
    return [0.0, "paper", *(float(f"{centre * factor:.3g}") for factor in FACTORS)]


def tau_of(runs: list[Result]) -> float | None:
    """Tau of the training links, mean over the runs whose alpha is chosen by the paper's rule; None without any."""
    alphas = [AXES["alpha"][1](run) for run in runs if run.settings["config"]["alpha"] == "paper"]
    return PAPER_RATIO * fmean(alphas) if alphas else None


def _claims(network: str, curves: dict[str, Curve], tau: float | None) -> list[Finding]:
    """Those of the paper about each setting."""
    found = []
    walks, alpha, lengths = curves.values()
    if len(walks) > 2:
        a, b, *_, y, z = (*walks, *list(walks)[-2:])
        text = f"the gain from M = {a:g} to {b:g} is larger than from M = {y:g} to {z:g}"
        found.append(Finding.of(text, network, (walks[b] - walks[a]) - (walks[z] - walks[y])))
    ends = {"alpha = 0 (uniform sampling)": 0.0, f"alpha = {max(alpha):.3g}": max(alpha)}
    ends |= {f"tau / alpha = {PAPER_RATIO:g}": tau / PAPER_RATIO} if tau else {}
    for name, x in ends.items():
        if x in alpha and len(alpha) > 1:
            claim = Finding.of(f"{name} is worse than the best alpha", network, alpha[best_of(alpha)] - alpha[x])
            found.append(claim._replace(verdict="contradicted: the best") if x == best_of(alpha) else claim)
    if len(lengths) > 1:
        inside = min(lengths) < best_of(lengths) < max(lengths)
        text = f"AUC peaks inside the range of m, at m = {best_of(lengths):g}"
        found.append(Finding.that(text, network, inside))
    return found


def _table(network: str, symbol: str, curve: Curve, tau: float | None) -> Table:
    best, rows = best_of(curve), []
    for x, auc in curve.items():
        row = [f"{x:.3g}", f"**{auc}**" if x == best else str(auc)]
        row += ["" if x == best else (auc - curve[best]).signed, str(len(auc))]
        if symbol == "alpha" and tau:
            row.insert(1, f"{tau / x:.3g}" if x else "infinite")
        rows.append(row)
    headings = [symbol, "AUC", "difference from the best", "seeds"]
    if symbol == "alpha" and tau:
        headings.insert(1, "tau / alpha")
    return Table(headings, rows, f"{display_name(network)}: {symbol}")


def _draw(curves: dict[str, Curve], tau: float | None, figure: Any) -> None:
    """A panel for each setting; that of alpha has a logarithmic axis, tau / alpha above it, and alpha = 0 as a line."""
    panels = dict(zip(curves, figure.subplots(1, len(curves), sharey=True), strict=True))
    for symbol, axis in panels.items():
        axis.set_xlabel(symbol)
        curve = {x: auc for x, auc in curves[symbol].items() if x > 0}
        draw_curve(axis, curve)
        if symbol == "M":
            axis.set_xscale("log", base=2)
        if symbol != "alpha":
            axis.set_xticks(list(curve), [f"{x:g}" for x in curve])
    panels["M"].set_ylabel("AUC, %")
    axis = panels["alpha"]
    axis.set_xscale("log")
    if 0.0 in curves["alpha"]:
        axis.axhline(curves["alpha"][0.0].mean, color="C1", linestyle="--", label="alpha = 0")
        axis.legend()
    if tau:
        convert = partial(_divide, tau)
        axis.secondary_xaxis("top", functions=(convert, convert)).set_xlabel("tau / alpha")


def _divide(tau: float, alpha: Any) -> Any:
    return tau / np.maximum(alpha, np.finfo(float).tiny)


# Trees

NUM_WALKS, LENGTH = 64, 2
FIRST = (1, 2, 4, 8, 16, 32, 64)  # k_1; k_2 is M / k_1
SMALL, LARGE = FIRST[:3], FIRST[3:6]  # k_1 whose losses are compared
INDEPENDENT = "tree, independent walks"


class Tree(Experiment):
    name = "tree"
    title = "Tree-structured sampling: AUC of CAW-N-mean against k_1 for M = 64 walks of length 2"
    texts = ("inductive", "tree")
    networks = ("uci", "wikipedia")
    systems = ("paper-mean",)
    seeds = 3

    def plan(self, request: Request) -> list[Measurement]:
        found = []
        for seed in request.seeds_of("inductive"):
            for network in request.networks:
                config = paper_config(request, network).with_(num_walks=NUM_WALKS, length=LENGTH, tree=())
                for k in FIRST[:-1]:
                    tree = config.with_(tree=(k, NUM_WALKS // k))
                    found.append(inductive(network, tree, seed, f"tree, k1 = {k}"))
                found.append(inductive(network, config, seed, INDEPENDENT))
        return found

    def show(self, records: Records) -> Content | None:
        found = records.labelled("tree")
        curves = {network: _tree_curve(found.where(network=network)) for network in found.networks}
        curves = {network: curve for network, curve in curves.items() if NUM_WALKS in curve}
        if not curves:
            return None
        claims = [claim for network, curve in curves.items() for claim in _tree_claims(network, curve)]
        plot = Plot("AUC against k_1", partial(_draw_trees, curves), (1.0 + 3.5 * len(curves), 3.0))
        return Content(found.runs, [_tree_table(curves)], [plot], claims)


def _tree_curve(records: Records) -> Curve:
    return read_curve(records, "tree", INDEPENDENT, lambda run: (run.settings["config"]["tree"] or [NUM_WALKS])[0])


def _tree_claims(network: str, curve: Curve) -> list[Finding]:
    """Whether trees are worse, and less so for large k_1."""
    losses = {k: curve[NUM_WALKS] - auc for k, auc in curve.items() if k != NUM_WALKS}
    small, large = (BySeed.average(losses.get(k, BySeed()) for k in some) for some in (SMALL, LARGE))
    text = f"trees lose less with k_1 = {LARGE[0]} to {LARGE[-1]} than with k_1 = {SMALL[0]} to {SMALL[-1]}"
    worse = "trees with k_1 = {:g} are worse than independent walks"
    return [Finding.of(worse.format(k), network, loss) for k, loss in losses.items()] + [
        Finding.of(text, network, small - large)
    ]


def _tree_table(curves: dict[str, Curve]) -> Table:
    rows = []
    for k in FIRST:
        drawn, most = k + NUM_WALKS, LENGTH * NUM_WALKS
        row = [str(k), str(NUM_WALKS // k), f"{drawn} ({100 * drawn / most:.0f} %)"]
        for curve in curves.values():
            auc = curve.get(k, BySeed())
            row += [str(auc), "" if k == NUM_WALKS else (auc - curve[NUM_WALKS]).signed]
        rows.append(row)
    headings = [text for network in curves for text in (display_name(network), "difference")]
    note = "Links drawn: for the walks of one node, in parentheses relative to independent walks. Difference: from "
    return Table(["k_1", "k_2", "links drawn", *headings], rows, note=f"{note}independent walks.")


def _draw_trees(curves: dict[str, Curve], figure: Any) -> None:
    """A panel per network."""
    for axis, (network, curve) in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True):
        draw_curve(axis, curve)
        axis.set_xscale("log", base=2)
        axis.set_xticks(FIRST, [str(k) for k in FIRST])
        axis.set(title=display_name(network), xlabel="k_1", ylabel="AUC, %")
