"""AP against three kinds of negatives, from the runs of Table 2; the paper has random negatives only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from cawn.learn.plots import COLOURS
from cawn.paper.experiments import Experiment, Plot, Request, Section, Table
from cawn.paper.measurements import Measurement
from cawn.paper.published import display_name
from cawn.paper.results import MEAN_AND_INTERVAL, Cell, Result, Results, cell, check_same_splits
from cawn.paper.tables import Table2, table_runs
from cawn.paper.training import KINDS_OF_NEGATIVES
from cawn.paper.variants import VARIANTS
from cawn.systems.baselines import STANDING

_COLUMNS = 3  # of panels in the plot
_TASKS = ("transductive", "inductive")
_WITH_BASELINES = "rates"  # the variant whose results contain the untrained baselines
_MEANING = {
    "random": "any destination seen so far",
    "historical": "one that the source linked to during the training period, but not at this time",
    "inductive": "one that the source links to only outside the training period, and not at this time",
}


class Line(NamedTuple):
    """The accuracy of one system on one network."""

    label: str
    trained_with: str  # "random", "mixed", or "" if it is not trained
    cells: dict[tuple[str, str], Cell]  # AP by task and kind of negatives

    def change(self, task: str) -> float | None:
        """Points of AP gained from random to historical negatives; None if either is missing."""
        random, historical = (self.cells.get((task, kind)) for kind in ("random", "historical"))
        return None if random is None or historical is None else historical.mean - random.mean


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
            f"AP in percent, pooled over all test links (inductive: all links of hidden nodes), {MEAN_AND_INTERVAL}; "
            "strict clock. Each test link has one negative with the same source and another destination: "
            + "; ".join(f"**{kind}**, {_MEANING[kind]}" for kind in KINDS_OF_NEGATIVES)
            + ". Where there is no such destination, a random one is taken. The paper has random negatives only. "
            "DyGLib's historical and inductive negatives replace the source as well, so results published with it are "
            "not comparable. The best value of each column is bold."
        )
        section.text.append(trained_with({variant.label: results.labelled(variant.label) for variant in VARIANTS}))
        if len(kinds_in_training(runs)) > 1:
            section.text[-1] += (
                " Historical negatives are new to systems trained with random ones only, so the best of these systems "
                "is named separately."
            )
        for network, found in lines.items():
            if sentences := findings(found):
                section.text.append(f"**{display_name(network)}.** " + " ".join(sentences))
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
    """Results with the metrics of a baseline in place of those of the trained system."""
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
    return Table(headings, rows, display_name(network))


def _printed(found: Cell | None, best: float | None) -> str:
    return "" if found is None else f"**{found}**" if found.mean == best else str(found)


def trained_with(runs: Mapping[str, Iterable[Result]]) -> str:
    """Which systems were trained with which negatives, in words; `runs` are those of each system."""
    groups: dict[str, list[str]] = {}
    for label, found in runs.items():
        for kind in kinds_in_training(found):
            groups.setdefault(kind, []).append(label)
    meaning = {
        "random": "random negatives only",
        "mixed": "mixed negatives (a quarter are earlier destinations of the source)",
    }
    parts = [f"with {meaning.get(kind, kind)}: {', '.join(labels)}" for kind, labels in groups.items()]
    return f"Trained {'; trained '.join(parts)}."


def kinds_in_training(runs: Iterable[Result]) -> list[str]:
    """The kinds of negatives that systems were trained with."""
    return sorted({run.settings["config"].get("negatives", "random") for run in runs})


def findings(lines: list[Line]) -> list[str]:
    """How the systems compare on a network, one sentence per task and finding."""
    return [sentence for task in _TASKS for sentence in _task_findings(lines, task)]


def _task_findings(lines: list[Line], task: str) -> list[str]:
    changes = {line.label: change for line in lines if (change := line.change(task)) is not None}
    complete = [line for line in lines if line.label in changes]
    if len(complete) < 2:
        return []
    random, historical = (
        max(complete, key=lambda line: line.cells[task, kind].mean) for kind in ("random", "historical")
    )
    leaders = _leaders(random, historical, task)
    sentences = [f"Of the {len(complete)} systems and baselines in the {task} task, {leaders}."]
    trained = sorted((line.label for line in complete if line.trained_with), key=lambda label: changes[label])
    if len(trained) > 1:
        low, high = trained[0], trained[-1]
        sentences.append(
            f"From random to historical negatives, the AP of the trained systems changes by {changes[low]:+.2f} points "
            f"({low}) to {changes[high]:+.2f} points ({high})."
        )
    random_only = [line for line in complete if line.trained_with == "random"]
    if random_only and historical.trained_with == "mixed":
        second = max(random_only, key=lambda line: line.cells[task, "historical"].mean)
        gap = historical.cells[task, "historical"].mean - second.cells[task, "historical"].mean
        sentences.append(
            f"Of the systems trained with random negatives only, {second.label} is the best against historical ones, "
            f"{gap:.2f} points below {historical.label}."
        )
    return sentences


def _leaders(random: Line, historical: Line, task: str) -> str:
    ap = random.cells[task, "random"].mean, historical.cells[task, "historical"].mean
    if random is historical:
        return f"{random.label} has the highest AP against random ({ap[0]:.2f}) and historical negatives ({ap[1]:.2f})"
    return (
        f"{random.label} has the highest AP against random negatives ({ap[0]:.2f}) and {historical.label} against "
        f"historical ones ({ap[1]:.2f}; {random.label}: {random.cells[task, 'historical'].mean:.2f})"
    )


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
            if line.change("transductive") is None:
                continue
            y, colour = labels.index(line.label), colours.get(line.trained_with, COLOURS[-1])
            start, end = (line.cells["transductive", kind].mean for kind in ("random", "historical"))
            axis.plot([start, end], [y, y], color=colour, linewidth=1.5)
            axis.plot([start], [y], "o", color=colour, markersize=5)
            axis.plot([end], [y], "o", color=colour, markerfacecolor="none", markersize=5)
        axis.set_title(display_name(network))
        axis.set_xlabel("AP, %")
        axis.grid(axis="x")
    axes[0, 0].set_yticks(range(len(labels)), labels)
    axes[0, 0].invert_yaxis()
