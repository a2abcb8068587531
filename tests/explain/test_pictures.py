"""Explanations as SVG and PNG: whole files for any name, and nothing on top of anything else."""

import itertools
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

import cawn
from cawn.explain.drawing import HEAD, text_width
from cawn.explain.page import DRAWING_WIDTHS
from cawn.explain.pictures import timeline
from cawn.explain.time_axis import KINDS
from cawn.explain.views import EarlierLink, Walk
from small_explanation import explain_late_link, hostile_explanation, small_explanation, small_law


def step(src: str, dst: str, t: int, event: int, contribution: float = 1.0) -> Walk:
    return Walk("src", 1, contribution, "(0,1) → (1,0)", [src, dst], [EarlierLink(src, dst, t, event, str(t))])


def test_svg_and_png(law_run, tmp_path: Path) -> None:
    predictor = cawn.LinkPredictor.load(law_run("triadic closure"))
    for i, found in enumerate((explain_late_link(predictor), predictor.law(100), hostile_explanation())):
        root = ElementTree.fromstring(found.to_svg())
        assert root.tag.endswith("svg")
        assert "http" not in found.to_svg().replace("http://www.w3.org/2000/svg", "")
        found.to_picture().to_png(tmp_path / f"{i}.png")
        assert (tmp_path / f"{i}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert "<title>" in explain_late_link(predictor).to_svg()


def test_texts_of_a_law_are_within_its_picture() -> None:
    drawing = small_law().to_picture()
    for element in drawing.elements:
        if element.tag == "text" and element.get("text-anchor") == "start":
            width = 0.8 * text_width(element.text, float(element.get("font-size")))
            assert float(element.get("x")) + width < drawing.width


def test_nothing_but_a_root() -> None:
    """A link whose walks are all empty on one side is drawn all the same."""
    why = small_explanation([Walk("src", 4, 0.5, "(0,∞)", ["a"], [])])
    assert "no link before this time" in why.to_html()
    ElementTree.fromstring(why.to_svg())
    ElementTree.fromstring(small_explanation([]).to_svg())


@pytest.mark.parametrize("kind", KINDS)
def test_links_at_one_time_stand_side_by_side(kind) -> None:
    ends = [("a", "b"), ("a", "c"), ("b", "c")]
    why = small_explanation([step(*pair, 5, i, 3.0 - i) for i, pair in enumerate(ends)])
    for drawing in (why.to_picture(), timeline(why.view(), 400, kind)):
        lines = [element for element in drawing.elements if element.tag == "line" and element.find("title") is not None]
        x = [float(line.get("x1")) for line in lines]
        assert x == sorted(x)
        assert min(b - a for a, b in itertools.pairwise(x)) >= HEAD


@pytest.mark.parametrize("pair", [("a", "b"), ("b", "a")])
def test_arrows_go_from_source_to_destination(pair: tuple[str, str], tmp_path: Path) -> None:
    drawing = timeline(small_explanation([step(*pair, 5, 0)]).view(), 400, "linear")
    lanes = {e.text: float(e.get("y")) - 4 for e in drawing.elements if e.text in ("a", "b")}
    (head,) = (element for element in drawing.elements if element.tag == "polygon")
    *base, tip = (tuple(map(float, point.split(","))) for point in head.get("points").split())
    assert tip[1] == pytest.approx(lanes[pair[1]])
    assert all(min(lanes.values()) < y < max(lanes.values()) for _, y in base)
    (tail,) = (e for e in drawing.elements if e.tag == "circle" and e.get("data-walks") == "0")
    assert float(tail.get("cy")) == pytest.approx(lanes[pair[0]])
    drawing.to_png(tmp_path / "arrow.png")


def test_a_link_of_a_node_with_itself() -> None:
    drawing = timeline(small_explanation([step("a", "a", 5, 0)]).view(), 400, "linear")
    assert [e.get("data-walks") for e in drawing.elements if e.tag == "circle"] == ["0", None, None]
    assert not [e for e in drawing.elements if e.tag == "polygon"]


@pytest.mark.parametrize("width", DRAWING_WIDTHS.values())
@pytest.mark.parametrize("kind", KINDS)
def test_labels_cover_nothing(kind, width: float) -> None:
    """Labels overlap neither each other nor the links, and are within the drawing."""
    nodes = [*"abcdefgh", "a long name of a node"]
    walks = []
    for i in range(12):
        start, middle, last = nodes[i % 2], nodes[2 + i % 7], nodes[2 + (3 * i + 1) % 7]
        links = [EarlierLink(start, middle, 5 + i % 2, i % 8, ""), EarlierLink(last, middle, 1 + i * i % 4, 20 + i, "")]
        walks.append(Walk(("src", "dst")[i % 2], 1, 1.1 - i / 6, "", [start, middle, last], links))
    drawing = timeline(small_explanation(walks).view(), width, kind)
    boxes = []
    for element in drawing.elements:
        at = {name: float(element.get(name)) for name in ("x", "y", "x1", "x2", "y1", "y2") if element.get(name)}
        if element.tag == "text":
            size = float(element.get("font-size"))
            length = text_width(element.text, size)
            left = at["x"] - length * {"start": 0, "middle": 0.5, "end": 1}[element.get("text-anchor")]
            boxes.append((left, at["y"] - 0.7 * size, left + length, at["y"]))
        elif element.tag == "line" and at["x1"] == at["x2"] and element.get("stroke") != "var(--faint)":
            boxes.append((at["x1"] - 1, min(at["y1"], at["y2"]), at["x1"] + 1, max(at["y1"], at["y2"])))
    assert all(left >= 0 and right <= width for left, _, right, _ in boxes)
    overlapping = [
        (a, b)
        for i, a in enumerate(boxes)
        for b in boxes[:i]
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ]
    assert overlapping == []


def test_long_shapes_do_not_run_into_bars() -> None:
    shape = " → ".join(["(10,10)"] * 12)
    walk = Walk("src", 64, -1.0, shape, ["a", "b" * 90], [EarlierLink("a", "b" * 90, 5, 0, "5")])
    drawing = small_explanation([walk]).to_picture()
    bars = [element.attrib for element in drawing.elements if element.tag == "rect"]
    assert drawing.width > max(float(bar["x"]) + float(bar["width"]) for bar in bars)
    left = min(float(bar["x"]) for bar in bars)
    lines = [e for e in drawing.elements if e.tag == "text" and "(10,10)" in e.text]
    assert sum(line.text.count("(10,10)") for line in lines) == 12
    assert all(float(line.get("x")) + text_width(line.text, 10) < left for line in lines)


@pytest.mark.parametrize("name", ["<!-- a", "a\x01\x1b[31m", "日本", "two\nlines", "bad\ud800", "שלום"])
def test_any_name_makes_whole_files(name: str, tmp_path: Path) -> None:
    why = small_explanation([step(name, "b", 5, 0)], src=name)
    ElementTree.fromstring(why.to_svg())
    page = why.to_html()
    held = page.split("id=data>")[1].split("</script>")[0]
    assert json.loads(held)["src"] == name
    why.to_picture().to_png(tmp_path / "why.png")
