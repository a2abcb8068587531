"""Explanations as one HTML file that opens anywhere: no script, font or image is loaded from elsewhere."""

from __future__ import annotations

from typing import Any, cast

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cawn.data.times import format_time
from cawn.errors import printable
from cawn.explain.drawing import stylesheet
from cawn.explain.law import CONFIDENCE, Law, Shape
from cawn.explain.link import Explanation
from cawn.explain.pictures import bar_scale, contributions, format_lift, shown_walks, timeline
from cawn.explain.report import Report


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
_pages.filters |= {"printable": printable, "time": format_time, "lift": format_lift}


def page(report: Report) -> str:
    """The page of an `Explanation` or a `Law`."""
    return _link_page(report) if isinstance(report, Explanation) else _law_page(cast(Law, report))


def _link_page(why: Explanation) -> str:
    walks = list(enumerate(shown_walks(why)))
    return _render(
        "link.html",
        why,
        why=why,
        largest=bar_scale(why),
        contributions=contributions(why),
        drawing=Markup(timeline(why).to_svg(standalone=False)),
        raised=[(i, walk) for i, walk in walks if walk.contribution > 0],
        lowered=[(i, walk) for i, walk in walks if walk.contribution < 0],
    )


def _law_page(law: Law) -> str:
    tables = {name: _fold(rows) for name, rows in (("shapes", law.shapes), ("orders", law.orders))}
    return _render("law.html", law, law=law, tables=tables, confidence=CONFIDENCE)


def _render(template: str, report: Report, **values: Any) -> str:
    palette = Markup(stylesheet(":root"))
    return _pages.get_template(template).render(palette=palette, data=report.to_dict(), **values)


def _fold(rows: list[Shape]) -> tuple[list[Shape], list[Shape]]:
    """The significant shapes with both ends of the list, and the others, which are folded away."""
    shown = [row.significant or i < 8 or i >= len(rows) - 4 for i, row in enumerate(rows)]
    first, others = ([row for row, first in zip(rows, shown, strict=True) if first == kept] for kept in (True, False))
    return first, others
