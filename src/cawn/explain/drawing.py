"""SVG drawings, and the same as PNG.

Colours have names, each with a light and a dark value from a palette for colour-blind readers (Okabe and Ito's).
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, tostring

COLOURS = {  # light and dark
    "paper": ("#ffffff", "#14181d"),
    "ink": ("#1b1f24", "#e6edf3"),
    "faint": ("#57606a", "#9aa4af"),
    "lane": ("#d0d7de", "#3a424b"),
    "raise": ("#0072b2", "#56b4e9"),
    "lower": ("#d55e00", "#e69f00"),
}
HEAD = 8.0  # length of the head of an arrow
_ISOLATES = dict.fromkeys(map(ord, "\u2068\u2069"))


def text_width(text: str, size: float = 12) -> float:
    """The width of a line of text in pixels, rather too large than too small."""
    return size * sum(1.05 if unicodedata.east_asian_width(letter) in "WF" else 0.6 for letter in text)


def wrap(text: str, width: float, size: float = 12) -> list[str]:
    """The lines of a text that is at most so wide; breaks words only if one is too long for a line."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if text_width(joined, size) <= width:
            lines[-1] = joined
            continue
        lines += [word] if lines[-1] else []
        lines[-1] = word
        while text_width(lines[-1], size) > width and len(lines[-1]) > 1:
            rest, fits = lines[-1], max(int(width / (1.05 * size)), 1)
            while text_width(rest[: fits + 1], size) <= width:
                fits += 1
            lines[-1:] = [rest[:fits], rest[fits:]]
    return lines


def isolate(text: str) -> str:
    """Text that does not reorder what is written around it, even if it is read from right to left."""
    from_right = any(unicodedata.bidirectional(letter) in ("R", "AL", "AN") for letter in text)
    return f"\u2068{text}\u2069" if from_right else text


class Mark(NamedTuple):
    """What an element of a drawing is about."""

    walks: tuple[int, ...] = ()  # those it belongs to, for pages that highlight a walk
    title: str = ""  # shown when the pointer is on it


UNMARKED = Mark()


class Drawing:
    """A drawing that grows downwards: y is measured from `top`, which `extend` moves to the bottom.

    Args:
        width: In pixels, as all lengths.
    """

    def __init__(self, width: float, label: str = "") -> None:
        self.width, self.top, self.label = width, 0.0, label
        self.elements: list[Element] = []

    def extend(self, height: float) -> None:
        """End a section of this height: what follows is drawn below it."""
        self.top += height

    def line(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        colour: str,
        *,
        width: float = 1.0,
        dashed: bool = False,
        mark: Mark = UNMARKED,
    ) -> None:
        """Draw a line."""
        (x1, y1), (x2, y2) = start, end
        style = {"stroke": _variable(colour), "stroke-width": f"{width:.2f}"}
        if dashed:
            style["stroke-dasharray"] = "5 4"
        self._add("line", {"x1": x1, "y1": self.top + y1, "x2": x2, "y2": self.top + y2}, style, mark)

    def arrow(
        self, x: float, ends: tuple[float, float], colour: str, *, width: float = 1.0, mark: Mark = UNMARKED
    ) -> None:
        """Draw a vertical arrow from the first to the second y."""
        start, tip = ends
        down = 1 if tip > start else -1
        base, half = tip - down * HEAD, 2.5 + width / 2
        self.line((x, start), (x, base), colour, width=width, mark=mark)
        corners = ((x - half, base), (x + half, base), (x, tip))
        points = " ".join(f"{a:.1f},{self.top + b:.1f}" for a, b in corners)
        self._add("polygon", {}, {"points": points, "fill": _variable(colour)}, mark)

    def dot(self, x: float, y: float, radius: float, colour: str, mark: Mark = UNMARKED) -> None:
        """Draw a filled circle."""
        self._add("circle", {"cx": x, "cy": self.top + y, "r": radius}, {"fill": _variable(colour)}, mark)

    def bar(self, zero: float, y: float, length: float, height: float, colour: str) -> None:
        """Draw a bar from x = `zero` to the right, or to the left for a negative length; it is never invisible."""
        size = max(abs(length), 0.5)
        place = {"x": zero if length > 0 else zero - size, "y": self.top + y, "width": size, "height": height}
        self._add("rect", place, {"fill": _variable(colour)})

    def text(
        self,
        x: float,
        y: float,
        text: str,
        colour: str = "ink",
        *,
        size: float = 12,
        anchor: str = "start",
        bold: bool = False,
        mark: Mark = UNMARKED,
    ) -> None:
        """Write a line of text; `anchor` is "start", "middle" or "end"."""
        style = {"font-size": f"{size:g}", "text-anchor": anchor, "fill": _variable(colour)}
        if bold:
            style["font-weight"] = "bold"
        self._add("text", {"x": x, "y": self.top + y}, style, mark)
        self.elements[-1].text = text

    def paragraph(
        self, x: float, text: str, width: float, colour: str = "ink", *, size: float = 12, bold: bool = False
    ) -> None:
        """Write text of any length, and end a section below it."""
        for line in wrap(text, width, size):
            self.extend(1.4 * size)
            self.text(x, 0, line, colour, size=size, bold=bold)

    def to_svg(self, *, standalone: bool = True) -> str:
        """The drawing as SVG: with its own colours, or with those of the page it is part of."""
        size = {"width": f"{self.width:g}", "height": f"{self.top:g}"}
        root = Element(
            "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {self.width:g} {self.top:g}", role="img"
        )
        root.set("aria-label", self.label)
        if standalone:
            root.attrib |= size
            SubElement(root, "style").text = stylesheet("svg")
            SubElement(root, "rect", size, fill=_variable("paper"))
        root.extend(self.elements)
        return tostring(root, encoding="unicode")

    def to_png(self, path: Path, *, scale: float = 2.0) -> None:
        """The drawing as PNG in the light palette; needs matplotlib."""
        from matplotlib.figure import Figure
        from matplotlib.patches import Circle, Polygon, Rectangle

        figure = Figure(figsize=(self.width / 100, self.top / 100), dpi=100 * scale, facecolor=COLOURS["paper"][0])
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, self.width), ylim=(self.top, 0))
        axes.axis("off")
        for element in self.elements:
            given = element.attrib
            colour, _ = COLOURS[re.findall(r"\w+", given.get("fill", given.get("stroke", "")))[-1]]
            number = {name: float(value) for name, value in given.items() if re.fullmatch(r"-?[\d.]+", value)}
            if element.tag == "line":
                x, y = (number["x1"], number["x2"]), (number["y1"], number["y2"])
                style = "--" if "stroke-dasharray" in given else "-"
                axes.plot(x, y, style, color=colour, linewidth=0.72 * number["stroke-width"])
            elif element.tag == "circle":
                axes.add_patch(Circle((number["cx"], number["cy"]), number["r"], color=colour, zorder=3))
            elif element.tag == "polygon":
                corners = [tuple(map(float, point.split(","))) for point in given["points"].split()]
                axes.add_patch(Polygon(corners, color=colour, linewidth=0, zorder=3))
            elif element.tag == "rect":
                corner = (number["x"], number["y"])
                axes.add_patch(Rectangle(corner, number["width"], number["height"], color=colour, linewidth=0))
            else:
                place = {"start": "left", "middle": "center", "end": "right"}[given["text-anchor"]]
                text = (element.text or "").translate(_ISOLATES).replace("$", r"\$")
                size, weight = 0.72 * number["font-size"], given.get("font-weight", "normal")
                axes.text(number["x"], number["y"], text, color=colour, size=size, weight=weight, ha=place)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # letters that the font lacks are drawn as boxes
            figure.savefig(path, format="png")

    def _add(self, tag: str, place: dict[str, float], style: dict[str, str], mark: Mark = UNMARKED) -> None:
        attributes = {name: f"{value:.1f}" for name, value in place.items()} | style
        if mark.walks:
            attributes["data-walks"] = " ".join(map(str, mark.walks))
        self.elements.append(Element(tag, attributes))
        if mark.title:
            SubElement(self.elements[-1], "title").text = mark.title


def stylesheet(selector: str) -> str:
    """The palettes as CSS variables, light or dark by the reader's preference, and the font."""
    light, dark = (";".join(f"--{name}:{colours[i]}" for name, colours in COLOURS.items()) for i in (0, 1))
    font = "font-family:system-ui,sans-serif"
    return f"{selector}{{{light};{font}}}@media(prefers-color-scheme:dark){{{selector}{{{dark}}}}}"


def _variable(colour: str) -> str:
    return f"var(--{colour})"
