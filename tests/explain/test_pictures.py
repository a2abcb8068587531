"""Explanations as SVG and PNG: whole files for any name, and nothing on top of anything else."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

import cawn
from cawn.explain.link import Explanation, Link, Walk
from small_explanation import PAST, explain_late_link, hostile_explanation


def test_svg_and_png(law_run, tmp_path: Path) -> None:
    predictor = cawn.LinkPredictor.load(law_run("triadic closure"))
    for i, found in enumerate((explain_late_link(predictor), predictor.law(100), hostile_explanation())):
        root = ElementTree.fromstring(found.to_svg())
        assert root.tag.endswith("svg")
        assert "http" not in found.to_svg().replace("http://www.w3.org/2000/svg", "")
        found.to_picture().to_png(tmp_path / f"{i}.png")
        assert (tmp_path / f"{i}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert "<title>" in explain_late_link(predictor).to_svg()


def test_nothing_but_a_root() -> None:
    """A link whose walks are all empty on one side is drawn all the same."""
    walks = [Walk("src", 4, 0.5, "(0,∞)", ["a"], [])]
    why = Explanation("a", "b", 7, 0.5, 0.0, 8, 0.3, -0.2, 0.1, "leave-group-out", walks, 4, PAST)
    assert "no link before this time" in why.to_html()
    ElementTree.fromstring(why.to_svg())


def test_links_at_one_time_stand_side_by_side() -> None:
    links = [Link("a", "b", 5, 0), Link("a", "c", 5, 1), Link("b", "c", 5, 2)]
    walks = [Walk("src", 1, 3.0 - i, "(0,1) → (1,0)", [link.src, link.dst], [link]) for i, link in enumerate(links)]
    why = Explanation("a", "b", 7, 0.5, 0.01, 8, 0.3, -0.6, None, "additive", walks, 4, PAST)
    lines = [element for element in why.to_picture().elements if element.find("title") is not None]
    assert len(lines) == len({line.get("x1") for line in lines}) == 3


def test_long_shapes_do_not_run_into_bars() -> None:
    shape = " → ".join(["(10,10)"] * 12)
    walks = [Walk("src", 64, -1.0, shape, ["a", "b"], [Link("a", "b", 5, 0)])]
    drawing = Explanation("a", "b", 7, 0.5, 0.01, 8, 0.3, -0.6, None, "additive", walks, 64, PAST).to_picture()
    (text,) = (element for element in drawing.elements if (element.text or "").startswith(shape))
    bars = [element.attrib for element in drawing.elements if element.tag == "rect"]
    assert float(text.get("x")) + 6 * len(text.text) < min(float(bar["x"]) for bar in bars)
    assert drawing.width > max(float(bar["x"]) + float(bar["width"]) for bar in bars)


@pytest.mark.parametrize("name", ["<!-- a", "a\x01\x1b[31m", "日本", "two\nlines", "bad\ud800"])
def test_any_name_makes_whole_files(name: str, tmp_path: Path) -> None:
    walks = [Walk("src", 1, 1.0, "(0,1) → (1,0)", [name, "b"], [Link(name, "b", 5, 0)])]
    why = Explanation(name, "b", 7, 0.5, 0.01, 8, 0.3, -0.6, None, "additive", walks, 4, PAST)
    ElementTree.fromstring(why.to_svg())
    page = why.to_html()
    held = page.split("id=data>")[1].split("</script>")[0]
    assert json.loads(held)["src"] == name
    why.to_picture().to_png(tmp_path / "why.png")
