"""Drawings as lists of lines, dots, bars and words: written as SVG, or drawn into a PNG.

What a thing is decides its colour (`kind`), from a palette that colour-blind readers can tell apart (Okabe and Ito's)
in a light and a dark variant. `walks` says which walks it is part of, for pages that highlight them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1b1f24",
    "faint": "#57606a",
    "lane": "#d0d7de",
    "raise": "#0072b2",
    "lower": "#d55e00",
    "plain": "#8c959f",
    "end": "#1b1f24",
}
DARK = {
    "paper": "#14181d",
    "ink": "#e6edf3",
    "faint": "#9aa4af",
    "lane": "#3a424b",
    "raise": "#56b4e9",
    "lower": "#e69f00",
    "plain": "#7d8590",
    "end": "#e6edf3",
}


@dataclass(frozen=True, slots=True)
class Line:
    x1: float
    y1: float
    x2: float
    y2: float
    kind: str
    width: float = 1.0
    dashed: bool = False
    title: str = ""
    walks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Dot:
    x: float
    y: float
    r: float
    kind: str
    walks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    kind: str


@dataclass(frozen=True, slots=True)
class Words:
    x: float
    y: float
    text: str
    kind: str = "ink"
    size: float = 12
    anchor: str = "start"  # or "middle", "end"


Item = Line | Dot | Bar | Words


@dataclass(frozen=True, slots=True)
class Scene:
    """A drawing; x to the right, y down, in pixels."""

    width: float
    height: float
    items: list[Item] = field(default_factory=list)
    about: str = ""  # for those who cannot see it

    def below(self, other: Scene) -> Scene:
        """This drawing under another one."""
        moved = [_moved(item, other.height) for item in self.items]
        size = max(self.width, other.width), self.height + other.height
        return Scene(*size, [*other.items, *moved], " ".join(filter(None, (other.about, self.about))))

    def to_svg(self, *, alone: bool = True) -> str:
        """An SVG; `alone` with its colours, else in those of the page it stands in."""
        size = f'viewBox="0 0 {self.width:g} {self.height:g}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(self.about)}"'
        if alone:
            head += f' width="{self.width:g}" height="{self.height:g}"'
        paper = f'<rect width="{self.width:g}" height="{self.height:g}" fill="var(--paper)"/>' if alone else ""
        style = f"<style>{stylesheet('svg')}</style>" if alone else ""
        return f"{head}>{style}{paper}{''.join(map(_svg, self.items))}</svg>"

    def to_png(self, path: Path, *, scale: float = 2.0) -> None:
        """A PNG in the light palette; needs matplotlib."""
        from matplotlib.figure import Figure
        from matplotlib.patches import Circle, Rectangle

        figure = Figure(figsize=(self.width / 100, self.height / 100), dpi=100 * scale, facecolor=LIGHT["paper"])
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        axes.axis("off")
        for item in self.items:
            colour = LIGHT[item.kind]
            if isinstance(item, Line):
                style = "--" if item.dashed else "-"
                axes.plot([item.x1, item.x2], [item.y1, item.y2], style, color=colour, linewidth=0.72 * item.width)
            elif isinstance(item, Dot):
                axes.add_patch(Circle((item.x, item.y), item.r, color=colour, zorder=3))
            elif isinstance(item, Bar):
                axes.add_patch(Rectangle((item.x, item.y), item.width, item.height, color=colour, linewidth=0))
            else:
                place = {"start": "left", "middle": "center", "end": "right"}[item.anchor]
                words = item.text.replace("$", r"\$")
                axes.text(item.x, item.y, words, color=colour, size=0.72 * item.size, ha=place, va="baseline")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # letters that the font lacks are drawn as boxes
            figure.savefig(path, format="png")


def stylesheet(root: str) -> str:
    """The palettes as CSS variables, light or dark as the reader has it, and the font."""
    light, dark = (";".join(f"--{name}:{colour}" for name, colour in palette.items()) for palette in (LIGHT, DARK))
    font = "font-family:system-ui,sans-serif"
    return f"{root}{{{light};{font}}}@media(prefers-color-scheme:dark){{{root}{{{dark}}}}}"


def _moved(item: Item, down: float) -> Item:
    if isinstance(item, Line):
        return replace(item, y1=item.y1 + down, y2=item.y2 + down)
    return replace(item, y=item.y + down)


def _svg(item: Item) -> str:
    colour = f"var(--{item.kind})"
    walks = getattr(item, "walks", ())
    mark = f' data-walks="{" ".join(map(str, walks))}"' if walks else ""
    if isinstance(item, Line):
        dashes = ' stroke-dasharray="5 4"' if item.dashed else ""
        ends = f'x1="{item.x1:.1f}" y1="{item.y1:.1f}" x2="{item.x2:.1f}" y2="{item.y2:.1f}"'
        title = f"<title>{escape(item.title)}</title>" if item.title else ""
        return f'<line {ends} stroke="{colour}" stroke-width="{item.width:.2f}"{dashes}{mark}>{title}</line>'
    if isinstance(item, Dot):
        return f'<circle cx="{item.x:.1f}" cy="{item.y:.1f}" r="{item.r:g}" fill="{colour}"{mark}/>'
    if isinstance(item, Bar):
        place = f'x="{item.x:.1f}" y="{item.y:.1f}" width="{item.width:.1f}" height="{item.height:.1f}"'
        return f'<rect {place} fill="{colour}"/>'
    place = f'x="{item.x:.1f}" y="{item.y:.1f}" font-size="{item.size:g}" text-anchor="{item.anchor}"'
    return f'<text {place} fill="{colour}">{escape(item.text)}</text>'
