"""Three kinds of negatives, from the trainings of Table 2; the paper has random ones alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from cawn.learn.plots import COLOURS
from cawn.paper.experiments import Experiment, Plot, Request, Section, Table
from cawn.paper.measurements import Measurement
from cawn.paper.published import NAMES
from cawn.paper.results import Cell, Result, Results, cell, check_same_splits
from cawn.paper.tables import Table2, table_runs
from cawn.paper.training import KINDS_OF_NEGATIVES
from cawn.paper.variants import VARIANTS
from cawn.systems.baselines import STANDING

_COLUMNS = 3  # of panels in the plot
_TASKS = ("transductive", "inductive")
_WITH_BASELINES = "rates"  # the variant whose results contain the untrained baselines
_MEANING = {
    "random": "any destination seen so far",
    "historical": "a destination that the source had in the training period, but not at this moment",
    "inductive": "a destination that the source has outside the training period only, and not at this moment",
}


class Line(NamedTuple):
    """The accuracy of one system on one network."""

    label: str
    trained_with: str  # "random", "mixed", or "" if it is not trained
    cells: dict[tuple[str, str], Cell]  # AP by task and kind of negatives

    def fall(self, task: str) -> float | None:
        """Points of AP lost from random to historical negatives; None if either is missing."""
        both = [self.cells.get((task, kind)) for kind in ("random", "historical")]
        return None if both[0] is None or both[1] is None else both[0].mean - both[1].mean


class KindsOfNegatives(Experiment):
    name = "negatives"
    title = "Beyond the paper: average precision against random, historical and inductive negatives"
    beyond = True
    options, systems = Table2.options, Table2.systems

    def plan(self, request: Request) -> list[Measurement]:
        return Table2().plan(request)

    def show(self, results: Results) -> Section | None:
        runs = table_runs(results)
        if not runs:
            return None
        check_same_splits(runs)
        lines = {network: _lines(results, network) for network in results.networks}
        lines = {network: found for network, found in lines.items() if found}
        section = Section(used=runs)
        section.text.append(
            "AP in percent, pooled over all test links (inductive: all links of hidden nodes), mean over seeds ± half "
            "of the 95 % confidence interval. Strict clock. Each test link has one negative of the same source: "
            + "; ".join(f"**{kind}**: {_MEANING[kind]}" for kind in KINDS_OF_NEGATIVES)
            + ". Links without such a destination get a random one. The paper has random negatives only. Historical "
            "and inductive negatives of DyGLib replace the source as well: figures published with it are not "
            "comparable. The best of each column is bold."
        )
        section.text.append(trained_with({variant.label: results.labelled(variant.label) for variant in VARIANTS}))
        if len(kinds_in_training(runs)) > 1:
            section.text[-1] += (
                " Systems trained with random negatives only meet historical ones for the first time in the test, so "
                "the best of them is named as well."
            )
        for network, found in lines.items():
            section.text.append(f"{NAMES.get(network, network)}: " + " ".join(findings(found)))
            section.tables.append(_table(network, found))
        section.plots.append(_plot(lines))
        return section


def _lines(results: Results, network: str) -> list[Line]:
    """The systems with results on a network, then the untrained baselines."""
    lines = []
    for variant in VARIANTS:
        runs = results.labelled(variant.label, network)
        if cells := _cells(runs):
            lines.append(Line(variant.label, " or ".join(kinds_in_training(runs)), cells))
    runs = results.labelled(_WITH_BASELINES, network)
    for name in STANDING:
        if cells := _cells(baseline_results(runs, name)):
            lines.append(Line(name, "", cells))
    return lines


def _cells(runs: list[Result]) -> dict[tuple[str, str], Cell]:
    found = {
        (task, kind): cell(
            (run for run in runs if run.settings["task"] == task), "ap", links="all", negatives=kind, clock="strict"
        )
        for task in _TASKS
        for kind in KINDS_OF_NEGATIVES
    }
    return {key: value for key, value in found.items() if value is not None}


def baseline_results(runs: Iterable[Result], name: str) -> list[Result]:
    """Results with the figures of a baseline in place of those of the system that was trained."""
    found = []
    for run in runs:
        rows = [row | row["baselines"][name] for row in run.value["rows"] if name in row.get("baselines", {})]
        found.append(replace(run, value=run.value | {"rows": rows}))
    return found


def _table(network: str, lines: list[Line]) -> Table:
    columns = [(task, kind) for task in _TASKS for kind in KINDS_OF_NEGATIVES]
    best = {
        column: max((line.cells[column].mean for line in lines if column in line.cells), default=None)
        for column in columns
    }
    rows = []
    for line in lines:
        shown = [_printed(line.cells.get(column), best[column]) for column in columns]
        rows.append([line.label, line.trained_with or "untrained", *shown])
    headings = ["system", "negatives in training", *(f"{task}, {kind}" for task, kind in columns)]
    return Table(headings, rows, NAMES.get(network, network))


def _printed(found: Cell | None, best: float | None) -> str:
    return "" if found is None else f"**{found}**" if found.mean == best else str(found)


def trained_with(runs: Mapping[str, Iterable[Result]]) -> str:
    """Which systems were trained with which negatives, in words; `runs` are the trainings of each system."""
    groups: dict[str, list[str]] = {}
    for label, found in runs.items():
        for kind in kinds_in_training(found):
            groups.setdefault(kind, []).append(label)
    meaning = {
        "random": "random negatives only",
        "mixed": "mixed negatives (a quarter are other destinations of the source)",
    }
    parts = [f"with {meaning.get(kind, kind)}: {', '.join(labels)}" for kind, labels in groups.items()]
    return f"Trained {'; trained '.join(parts)}."


def kinds_in_training(runs: Iterable[Result]) -> list[str]:
    """The kinds of negatives that systems were trained with."""
    return sorted({str(run.settings["config"]["negatives"]) for run in runs})


def findings(lines: list[Line]) -> list[str]:
    """What the figures of a network say, one sentence per task and finding."""
    sentences = []
    for task in _TASKS:
        complete = [line for line in lines if line.fall(task) is not None]
        if not complete:
            continue
        first = {kind: max(complete, key=lambda line: line.cells[task, kind].mean) for kind in KINDS_OF_NEGATIVES[:2]}
        sentences.append(f"In the {task} task {_leaders(first['random'], first['historical'], task)}.")
        falls = sorted((line for line in complete if line.trained_with), key=lambda line: line.fall(task) or 0.0)
        if len(falls) > 1:
            sentences.append(
                f"Of the trained systems, from random to historical negatives {falls[0].label} "
                f"{_change(falls[0].fall(task))} (the least) and {falls[-1].label} {_change(falls[-1].fall(task))} "
                "(the most)."
            )
        random_only = [line for line in complete if line.trained_with == "random"]
        if random_only and first["historical"].trained_with == "mixed":
            rival = max(random_only, key=lambda line: line.cells[task, "historical"].mean)
            gap = first["historical"].cells[task, "historical"].mean - rival.cells[task, "historical"].mean
            sentences.append(
                f"Of the systems trained with random negatives only, {rival.label} is the best against historical "
                f"ones, {gap:.2f} points behind {first['historical'].label}."
            )
    return sentences


def _leaders(random: Line, historical: Line, task: str) -> str:
    ap = random.cells[task, "random"].mean, historical.cells[task, "historical"].mean
    if random is historical:
        return f"{random.label} is the best against random ({ap[0]:.2f}) and against historical negatives ({ap[1]:.2f})"
    return (
        f"{random.label} is the best against random negatives ({ap[0]:.2f}), but {historical.label} against historical "
        f"ones ({ap[1]:.2f}; {random.label}: {random.cells[task, 'historical'].mean:.2f})"
    )


def _change(fall: float | None) -> str:
    assert fall is not None
    return f"loses {fall:.2f} points" if fall >= 0 else f"gains {-fall:.2f} points"


def _plot(lines: dict[str, list[Line]]) -> Plot:
    labels = {line.label for found in lines.values() for line in found}
    columns, rows = min(len(lines), _COLUMNS), -(-len(lines) // _COLUMNS)
    return Plot(
        "AP against random (filled) and historical (hollow) negatives, transductive test links; blue: trained with "
        "random negatives, orange: with mixed ones, grey: untrained",
        partial(_draw, lines),
        (2.6 * columns + 1.6, (0.2 * len(labels) + 0.9) * rows),
    )


def _draw(lines: dict[str, list[Line]], figure: Any) -> None:
    """A panel per network, a line per system from AP against random to AP against historical negatives."""
    labels = list(dict.fromkeys(line.label for found in lines.values() for line in found))
    colours = {"random": COLOURS[0], "mixed": COLOURS[1]}
    axes = figure.subplots(-(-len(lines) // _COLUMNS), min(len(lines), _COLUMNS), squeeze=False, sharey=True)
    for axis in axes.flat[len(lines) :]:
        axis.set_visible(False)
    for axis, (network, found) in zip(axes.flat, lines.items(), strict=False):
        for line in found:
            if line.fall("transductive") is None:
                continue
            y, colour = labels.index(line.label), colours.get(line.trained_with, COLOURS[-1])
            start, end = (line.cells["transductive", kind].mean for kind in ("random", "historical"))
            axis.plot([start, end], [y, y], color=colour, linewidth=1.5)
            axis.plot([start], [y], "o", color=colour, markersize=5)
            axis.plot([end], [y], "o", color=colour, markerfacecolor="none", markersize=5)
        axis.set_title(NAMES.get(network, network))
        axis.set_xlabel("AP, %")
        axis.grid(axis="x")
    axes[0, 0].set_yticks(range(len(labels)), labels)
    axes[0, 0].invert_yaxis()
