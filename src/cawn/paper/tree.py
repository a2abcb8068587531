"""Tree-structured sampling: AUC against k_1, the number of links drawn at the first step, for fixed M."""

from __future__ import annotations

from functools import partial
from typing import Any

from cawn.paper.curves import (
    METHOD,
    Curve,
    average,
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
from cawn.paper.published import display_name
from cawn.paper.results import Cell, Result, Results, check_same_splits
from cawn.paper.variants import paper_config

NUM_WALKS, LENGTH = 64, 2
FIRST = (1, 2, 4, 8, 16, 32, 64)  # k_1; k_2 is M / k_1
SMALL, LARGE = FIRST[:3], FIRST[3:6]  # k_1 whose losses are compared
INDEPENDENT = "tree, independent walks"


class Tree(Experiment):
    name = "tree"
    title = "Tree-structured sampling: AUC of CAW-N-mean against k_1 for M = 64 walks of length 2"
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

    def show(self, results: Results) -> Section | None:
        section = Section(
            [
                METHOD,
                f"k_1 links are drawn at the first step and k_2 = {NUM_WALKS} / k_1 after each of them; with k_1 = "
                f"{NUM_WALKS} the walks are independent. Other settings are those that the grid search found, or "
                "those of the preset if there was no search. The paper claims that trees are slightly worse than "
                "independent walks, and less so for large k_1.",
            ]
        )
        curves = []
        for network in results.networks:
            if (independent := lowest_seed(results.labelled(INDEPENDENT, network))) is not None:
                curve = read_curve(results, network, "tree", "tree", _first, independent)
                curves.append(curve)
                section.used.extend(run for point in curve.points for run in point.runs)
                name = display_name(network)
                section.text.append(f"**{name}** ({main_settings(independent)}). {' '.join(statements(curve))}")
        if not curves:
            return None
        check_same_splits(section.used)
        section.tables.append(_table(curves))
        section.plots.append(Plot("AUC against k_1", partial(_draw, curves), (1.0 + 3.5 * len(curves), 3.0)))
        return section


def _first(run: Result) -> float:
    """k_1 of a run."""
    tree = run.settings["config"]["tree"]
    return float(tree[0] if tree else NUM_WALKS)


def statements(curve: Curve) -> list[str]:
    """Whether trees are worse, and less so for large k_1."""
    by_seed = {int(point.x): point.gains(curve.points[-1]) for point in curve.points[:-1]}
    gains = {k: gain for k, values in by_seed.items() if (gain := Cell.of(values.values())) is not None}
    if not gains:
        return []
    groups: dict[str, list[str]] = {"contradicted": [], "confirmed": [], "undecided": []}
    for k, gain in gains.items():
        groups[verdict(gain)].append(str(k))
    words = {
        "contradicted": "clearly worse than independent walks",
        "confirmed": "clearly better than independent walks",
        "undecided": "not clearly different from independent walks",
    }
    parts = [f"{words[group]} for k_1 = {', '.join(values)}" for group, values in groups.items() if values]
    worst = min(gains, key=lambda k: gains[k].mean)
    lowest = (
        f"the largest loss is {gains[worst].signed} (k_1 = {worst})"
        if gains[worst].mean < 0
        else "none has a lower mean"
    )
    lines = [f"Trees are {'; '.join(parts)}; {lowest}."]
    if all(k in gains for k in (*SMALL, *LARGE)):
        less = difference(*(average(by_seed[k] for k in some) for some in (LARGE, SMALL)))
        shown = "" if less is None else f" ({less.signed} for {_range(LARGE)} against {_range(SMALL)}, on average)"
        lines.append(f"The claim that the loss is smaller for large k_1 is {verdict(less)}{shown}.")
    return lines


def _range(values: tuple[int, ...]) -> str:
    return f"k_1 = {values[0]} to {values[-1]}"


def _table(curves: list[Curve]) -> Table:
    rows = []
    for k in FIRST:
        drawn, most = k + NUM_WALKS, LENGTH * NUM_WALKS
        row = [str(k), str(NUM_WALKS // k), f"{drawn} ({100 * drawn / most:.0f} %)"]
        for curve in curves:
            point = curve.at(k)
            gain = None if point is None or k == NUM_WALKS else point.gain(curve.points[-1])
            row += ["" if point is None else str(point.auc), "" if gain is None else gain.signed]
        rows.append(row)
    headings = [text for curve in curves for text in (display_name(curve.network), "difference")]
    note = "Links drawn: for the walks of one node, in parentheses relative to independent walks. Difference: from "
    note += "independent walks."
    return Table(["k_1", "k_2", "links drawn", *headings], rows, note=note)


def _draw(curves: list[Curve], figure: Any) -> None:
    """A panel per network."""
    for axis, curve in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves, strict=True):
        draw_curve(axis, curve.points)
        axis.set_xscale("log", base=2)
        axis.set_xticks(FIRST, [str(k) for k in FIRST])
        axis.set(title=display_name(curve.network), xlabel="k_1", ylabel="AUC, %")
