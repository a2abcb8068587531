"""The plot of a comparison: accuracy against training time and scoring speed."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cawn.files import write_text

if TYPE_CHECKING:
    from cawn.learn.field.table import Comparison

INSTALL = "comparison.svg is not drawn: it needs matplotlib, pip install 'cawn[plots]'"
_AXES = {"seconds": "training time, s", "pairs_per_second": "scoring, pairs/s"}
_INK, _GRID = {"light": "#1b1f24", "dark": "#e6edf3"}, {"light": "#d0d7de", "dark": "#3a424b"}
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8c6bb1", "#999999")  # Okabe and Ito
_MARKERS = "osD^vPX*<>"


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw(comparison: Comparison, path: Path) -> None:
    """Plot AP for each kind of negatives against training time and scoring speed; does nothing without matplotlib.

    Each task has a row of panels, for the kind of test links with the most links.
    """
    if not can_draw() or not comparison.cost:
        return
    import matplotlib
    from matplotlib.figure import Figure

    tests = _largest_tests(comparison)
    kinds = list(dict.fromkeys(kind for test in tests for kind in comparison.kinds(*test)))
    style = dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK["light"]
    )
    sizes = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    with (
        matplotlib.rc_context({"svg.hashsalt": "cawn", "svg.fonttype": "none"} | style | sizes),
        warnings.catch_warnings(action="ignore"),  # about characters missing from the font
    ):
        rows = [(test, quantity) for test in tests for quantity in _AXES]
        figure = Figure(figsize=(4 * len(kinds), 3.1 * len(rows) + 0.5), layout="constrained")
        axes = figure.subplots(len(rows), len(kinds), squeeze=False, sharey="row")
        for panels, (test, quantity) in zip(axes, rows, strict=True):
            for axis, kind in zip(panels, kinds, strict=True):
                _panel(axis, comparison, test, kind, quantity)
            panels[0].set_ylabel(f"AP, {test[0]}, {test[1]} links")
        for axis, kind in zip(axes[0], kinds, strict=True):
            axis.set_title(f"{kind} negatives")
        handles = {label: handle for handle, label in zip(*axes[0][0].get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=8, frameon=False)
        text = StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    write_text(path, _with_themes(text.getvalue()))


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
        mean, half = row["ap"]
        if row["system"] in cost and cost[row["system"]]:
            number = names.index(row["system"])
            marker, colour = _MARKERS[number % len(_MARKERS)], _COLOURS[number % len(_COLOURS)]
            x, y = cost[row["system"]], 100 * mean
            error = None if half is None else [100 * half]
            axis.errorbar([x], [y], error, fmt=marker, color=colour, label=row["system"], markersize=6, elinewidth=1)
            axis.annotate(row["system"], (x, y), (5, 3), textcoords="offset points", size=6.5, color=colour)
    untrained = [row for row in found if not row["trained"] and row["system"] not in cost]
    if untrained:
        best = max(untrained, key=lambda row: row["ap"][0])
        axis.axhline(100 * best["ap"][0], color=_INK["light"], linewidth=0.8, linestyle="--")
        label = f"best untrained: {best['system']}"
        axis.text(0.01, 100 * best["ap"][0], label, transform=axis.get_yaxis_transform(), va="bottom", size=7)
    means = [100 * row["ap"][0] for row in comparison.accuracy if (row["task"], row["links"]) == test]
    shown = min(means) - 3, min(max(means) + 3, 101)  # intervals of few seeds can be much wider
    axis.set(xscale="log", xlabel=_AXES[quantity], ylim=shown)
    axis.margins(x=0.15)
    axis.grid(color=_GRID["light"], linewidth=0.6)
    axis.set_axisbelow(True)


def _with_themes(svg: str) -> str:
    """Text, axes and grid in colours that follow the reader's light or dark theme."""
    for name, colours in (("ink", _INK), ("grid", _GRID)):
        svg = svg.replace(colours["light"], f"var(--{name})")
    light, dark = (f"--ink:{_INK[theme]};--grid:{_GRID[theme]}" for theme in ("light", "dark"))
    style = f"<style>svg{{{light}}}text{{fill:var(--ink)}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}</style>"
    head, _, rest = svg.partition("<defs>")
    return f"{head}{style}\n<defs>{rest}"
