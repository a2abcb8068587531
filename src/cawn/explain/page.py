"""Explanations as one HTML file that opens anywhere: no script, font or image is loaded from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any, cast

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cawn.errors import printable
from cawn.explain import pictures
from cawn.explain.drawing import stylesheet
from cawn.explain.law import CONFIDENCE, Law, Shape
from cawn.explain.link import Explanation
from cawn.explain.report import Report
from cawn.explain.time_axis import KINDS

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


_pages = environment("cawn.explain")
_pages.filters |= {
    "printable": printable,
    "time": pictures.time_text,
    "lift": pictures.format_lift,
    "signed": pictures.signed,
    "percent": pictures.percent,
}


def page(report: Report) -> str:
    """The page of an `Explanation` or a `Law`."""
    return _link_page(report) if isinstance(report, Explanation) else _law_page(cast(Law, report))


def frame(report: Report) -> str:
    """The page in a frame of its own, for notebooks: neither can change how the other looks."""
    title = "Why a link has its score" if isinstance(report, Explanation) else "What a model relies on"
    style = f"width:100%;height:{FRAME_HEIGHT}px;border:0"
    return f'<iframe title="{title}" sandbox="allow-scripts" style="{style}" srcdoc="{escape(page(report))}"></iframe>'


def _link_page(why: Explanation) -> str:
    walks = list(enumerate(pictures.shown_walks(why)))
    return _render(
        "link.html",
        why,
        why=why,
        rows=pictures.part_rows(why),
        notes=pictures.notes(why),
        probability_note=pictures.probability_note(why),
        largest=pictures.bar_scale(why),
        shapes=sorted(why.shapes, key=lambda part: -abs(part.contribution)),
        part_titles={part.name: part.title for part in why.parts},
        axis=pictures.better_timeline(why, DRAWING_WIDTHS["wide"]).kind,
        drawings=[
            (kind, size, Markup(pictures.timeline(why, width, kind).to_svg(standalone=False)))
            for kind in KINDS
            for size, width in DRAWING_WIDTHS.items()
        ],
        raised=[(i, walk) for i, walk in walks if walk.contribution > 0],
        lowered=[(i, walk) for i, walk in walks if walk.contribution < 0],
    )


def _law_page(law: Law) -> str:
    return _render(
        "law.html",
        law,
        law=law,
        figures=pictures.law_figures(law),
        parts=pictures.largest_evidence(law),
        largest=pictures.evidence_scale(law),
        evidence_note=pictures.EVIDENCE,
        interaction=pictures.interaction_note(law),
        tables={name: _fold(rows) for name, rows in (("shapes", law.shapes), ("orders", law.orders))},
        confidence=CONFIDENCE,
    )


def _render(template: str, report: Report, **values: Any) -> str:
    palette = Markup(stylesheet(":root"))
    return _pages.get_template(template).render(palette=palette, data=report.to_dict(), **values)


def _fold(rows: list[Shape]) -> tuple[list[Shape], list[Shape]]:
    """The significant shapes with both ends of the list, and the others, which are folded away."""
    shown = [row.significant or i < 8 or i >= len(rows) - 4 for i, row in enumerate(rows)]
    first, others = ([row for row, first in zip(rows, shown, strict=True) if first == kept] for kept in (True, False))
    return first, others
