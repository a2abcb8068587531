"""The plot of a comparison: accuracy against training time and scoring speed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cawn.files import write_text
from cawn.learn.plots import COLOURS, INK, INSTALL, MARKERS, can_draw, to_svg
from cawn.studies.tables import Comparison, main_figure

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
    kinds = list(dict.fromkeys(kind for test in tests for kind in comparison.kinds(*test)))
    rows = [(test, quantity) for test in tests for quantity in _AXES]
    metric = "MRR" if comparison.accuracy[0]["ap"] is None else "AP"

    def panels(figure: Any) -> None:
        axes = figure.subplots(len(rows), len(kinds), squeeze=False, sharey="row")
        for row, (test, quantity) in zip(axes, rows, strict=True):
            for axis, kind in zip(row, kinds, strict=True):
                _panel(axis, comparison, test, kind, quantity)
            row[0].set_ylabel(f"{metric}, {test[0]}, {test[1]} links")
        for axis, kind in zip(axes[0], kinds, strict=True):
            axis.set_title(f"{kind} negatives")
        handles = {label: handle for handle, label in zip(*axes[0][0].get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=8)

    write_text(path, to_svg(panels, (4 * len(kinds), 3.1 * len(rows) + 0.5)))


def _largest_tests(comparison: Comparison) -> list[tuple[str, str]]:
    """For each task, the kind of test links with the most links."""
    counts: dict[str, dict[str, float]] = {}
    for row in comparison.accuracy:
        counts.setdefault(row["task"], {})[row["links"]] = row["count"]
    return [(task, max(found, key=lambda links: found[links])) for task, found in counts.items()]


def _panel(axis: Any, comparison: Comparison, test: tuple[str, str], kind: str, quantity: str) -> None:
    cost = {row["system"]: row[quantity] for row in comparison.cost if row["task"] == test[0]}
    names = list(dict.fromkeys(row["system"] for row in comparison.cost))
    found = [row for row in comparison.accuracy if (row["task"], row["links"], row["negatives"]) == (*test, kind)]
    for row in found:
        mean, half = main_figure(row)
        if row["system"] in cost and cost[row["system"]]:
            number = names.index(row["system"])
            marker, colour = MARKERS[number % len(MARKERS)], COLOURS[number % len(COLOURS)]
            x, y = cost[row["system"]], 100 * mean
            error = None if half is None else [100 * half]
            axis.errorbar([x], [y], error, fmt=marker, color=colour, label=row["system"], markersize=6, elinewidth=1)
            axis.annotate(row["system"], (x, y), (5, 3), textcoords="offset points", size=6.5, color=colour)
    untrained = [row for row in found if not row["trained"] and row["system"] not in cost]
    if untrained:
        best = max(untrained, key=lambda row: main_figure(row)[0])
        height = 100 * main_figure(best)[0]
        axis.axhline(height, color=INK, linewidth=0.8, linestyle="--")
        label = f"best untrained: {best['system']}"
        axis.text(0.01, height, label, transform=axis.get_yaxis_transform(), va="bottom", size=7)
    means = [100 * main_figure(row)[0] for row in comparison.accuracy if (row["task"], row["links"]) == test]
    shown = min(means) - 3, min(max(means) + 3, 101)  # intervals of few seeds can be much wider
    axis.set(xscale="log", xlabel=_AXES[quantity], ylim=shown)
    axis.margins(x=0.15)
    axis.grid()
