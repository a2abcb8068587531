"""Explanations as one HTML file that opens anywhere: no script, font or image is loaded from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cawn.errors import printable
from cawn.explain.drawing import stylesheet
from cawn.explain.pictures import better_timeline, timeline
from cawn.explain.time_axis import KINDS
from cawn.explain.views import ExplanationView, LawView, Shape, signed

DRAWING_WIDTHS = {"narrow": 358, "wide": 800}  # pixels, for phones and for larger screens
FRAME_HEIGHT = 640  # pixels


def environment(*packages: str) -> Environment:
    """The templates of some packages, as looked up in this order; everything is escaped."""
    pages = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.policies["json.dumps_kwargs"] = {"sort_keys": False}
    return pages


def page(view: ExplanationView | LawView, data: dict[str, Any]) -> str:
    """The page that shows a view and includes the data."""
    drawings = _drawings(view) if isinstance(view, ExplanationView) else {}
    template = _pages.get_template("link.html" if drawings else "law.html")
    return template.render(palette=Markup(stylesheet(":root")), view=view, data=data, **drawings)


def frame(view: ExplanationView | LawView, data: dict[str, Any]) -> str:
    """The page in a frame of its own, for notebooks: neither can change how the other looks."""
    title = "Why a link has its score" if isinstance(view, ExplanationView) else "What a model relies on"
    style = f"width:100%;height:{FRAME_HEIGHT}px;border:0"
    source = escape(page(view, data))
    return f'<iframe title="{title}" sandbox="allow-scripts" style="{style}" srcdoc="{source}"></iframe>'


def _drawings(view: ExplanationView) -> dict[str, Any]:
    """The links on the walks for each axis and width, and the axis that is shown first."""
    drawings = [
        (kind, size, Markup(timeline(view, width, kind).to_svg(standalone=False)))
        for kind in KINDS
        for size, width in DRAWING_WIDTHS.items()
    ]
    return {"drawings": drawings, "axis": better_timeline(view, DRAWING_WIDTHS["wide"]).kind}


def _fold(rows: list[Shape]) -> tuple[list[Shape], list[Shape]]:
    """The significant shapes with both ends of the list, and the others, which are folded away."""
    shown = [row.significant or i < 8 or i >= len(rows) - 4 for i, row in enumerate(rows)]
    first, others = ([row for row, first in zip(rows, shown, strict=True) if first == kept] for kept in (True, False))
    return first, others


_pages = environment("cawn.explain")
_pages.filters |= {"printable": printable, "signed": signed, "fold": _fold}
