"""Plots as SVG: one style, colours for light and dark themes, and the same bytes for the same data."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from io import StringIO
from typing import Any

INSTALL = "pip install 'cawn[plots]'"
INK, GRID = "#1b1f24", "#d0d7de"  # of text and axes, and of grids; replaced by variables that follow the theme
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8c6bb1", "#999999")  # Okabe and Ito
MARKERS = "osD^vPX*<>"
_LIGHT, _DARK = {"ink": INK, "grid": GRID}, {"ink": "#e6edf3", "grid": "#3a424b"}


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def to_svg(draw: Callable[[Any], object], size: tuple[float, float], *, standalone: bool = True) -> str:
    """Draw a plot; needs matplotlib.

    Args:
        draw: Called with an empty matplotlib figure in the common style.
        size: Width and height in inches.
        standalone: Whether to make a file of its own; else an element for an HTML page that defines the colours
            `--ink` and `--grid`.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with (
        matplotlib.rc_context(_style()),
        warnings.catch_warnings(action="ignore"),  # about characters missing from the font
    ):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        text = StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = text.getvalue().replace(INK, "var(--ink)").replace(GRID, "var(--grid)")
    return _with_themes(svg) if standalone else _inline(svg)


def _style() -> dict[str, Any]:
    from cycler import cycler

    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "legend.labelcolor")
    return dict.fromkeys(inked, INK) | {
        "axes.axisbelow": True,
        "axes.prop_cycle": cycler(color=COLOURS),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "font.size": 9,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "cawn",
    }


def _with_themes(svg: str) -> str:
    """With colours of text, axes and grid that follow the reader's light or dark theme."""
    light, dark = (";".join(f"--{name}:{colour}" for name, colour in theme.items()) for theme in (_LIGHT, _DARK))
    style = f"<style>svg{{{light}}}text{{fill:var(--ink)}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}</style>"
    head, _, rest = svg.partition("<defs>")
    return f"{head}{style}\n<defs>{rest}"


def _inline(svg: str) -> str:
    """Only the element, without the metadata, the styles and the names of groups that several on a page would share."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*|<style.*?</style>\s*", "", svg, flags=re.DOTALL)
    return re.sub(r' id="[A-Za-z.]+_\d+"', "", svg)
