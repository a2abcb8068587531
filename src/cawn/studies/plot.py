"""The plot of a comparison: accuracy against training time and scoring speed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cawn.files import write_text
from cawn.learn.plots import COLOURS, INK, INSTALL, MARKERS, can_draw, to_svg
from cawn.learn.results import METRICS, Mean, Results, main_metric
from cawn.studies.tables import Comparison

MISSING = f"comparison.svg is not drawn: it needs matplotlib, {INSTALL}"
_AXES = {"seconds": "training time, s", "pairs_per_second": "scoring, pairs/s"}


def draw(comparison: Comparison, path: Path) -> None:
    """Plot AP (MRR for TGB) for each kind of negatives against training time and scoring speed.

    Does nothing without matplotlib.

    Each task has a row of panels, for the kind of test links with the most links.
    """
    if not can_draw() or not comparison.cost:
        return
    tests = _largest_tests(comparison)
    metric = main_metric(comparison.results)
    results = comparison.results.where(metric=metric)
    kinds = [kind for kind in results.values("negatives") if any(_found(results, test, kind) for test in tests)]
    rows = [(test, quantity) for test in tests for quantity in _AXES]

    def panels(figure: Any) -> None:
        axes = figure.subplots(len(rows), len(kinds), squeeze=False, sharey="row")
        for row, (test, quantity) in zip(axes, rows, strict=True):
            for axis, kind in zip(row, kinds, strict=True):
                _panel(axis, comparison, results, test, kind, quantity)
            row[0].set_ylabel(f"{METRICS[metric]}, {test[0]}, {test[1]} links")
        for axis, kind in zip(axes[0], kinds, strict=True):
            axis.set_title(f"{kind} negatives")
        handles = {label: handle for handle, label in zip(*axes[0][0].get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=8)

    write_text(path, to_svg(panels, (4 * len(kinds), 3.1 * len(rows) + 0.5)))


def _largest_tests(comparison: Comparison) -> list[tuple[str, str]]:
    """For each task, the kind of test links with the most links."""
    largest = {row["task"]: row for row in sorted(comparison.results, key=lambda row: row["count"])}
    return [(task, largest[task]["links"]) for task in comparison.results.values("task")]


def _found(results: Results, test: tuple[str, str], *kind: str) -> dict[str, Mean]:
    """The mean of each system on one kind of test links, against one kind of negatives."""
    found = results.where(task=test[0], links=test[1], negatives=kind)
    return {name: mean for (name,), mean in found.means("system").items()}


def _panel(
    axis: Any, comparison: Comparison, results: Results, test: tuple[str, str], kind: str, quantity: str
) -> None:
    cost = {row["system"]: row[quantity] for row in comparison.cost if row["task"] == test[0]}
    names = list(dict.fromkeys(row["system"] for row in comparison.cost))
    found = _found(results, test, kind)
    for name, mean in found.items():
        if cost.get(name):
            number = names.index(name)
            marker, colour = MARKERS[number % len(MARKERS)], COLOURS[number % len(COLOURS)]
            x, y = cost[name], 100 * mean.mean
            error = None if mean.half is None else [100 * mean.half]
            axis.errorbar([x], [y], error, fmt=marker, color=colour, label=name, markersize=6, elinewidth=1)
            axis.annotate(name, (x, y), (5, 3), textcoords="offset points", size=6.5, color=colour)
    untrained = {name: mean.mean for name, mean in found.items() if name in comparison.untrained - set(cost)}
    if untrained:
        best = max(untrained, key=lambda name: untrained[name])
        height = 100 * untrained[best]
        axis.axhline(height, color=INK, linewidth=0.8, linestyle="--")
        label = f"best untrained: {best}"
        axis.text(0.01, height, label, transform=axis.get_yaxis_transform(), va="bottom", size=7)
    shown = results.where(task=test[0], links=test[1]).means("system", "negatives").values()
    means = [100 * mean.mean for mean in shown]
    axis.set(xscale="log", xlabel=_AXES[quantity])
    axis.set_ylim(min(means) - 3, min(max(means) + 3, 101))  # intervals of few seeds can be much wider
    axis.margins(x=0.15)
    axis.grid()
