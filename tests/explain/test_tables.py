"""Explanations as tables on a terminal."""

import io

from rich.console import Console

from cawn.explain.law import Law, Shape
from cawn.explain.tables import show_law, show_link
from small_explanation import hostile_explanation


def shown(show, report) -> str:
    console = Console(file=io.StringIO(), width=200)
    show(report, console)
    return console.file.getvalue()


def test_a_link() -> None:
    text = shown(show_link, hostile_explanation())
    assert "probability 0.500 ± 0.0100" in text
    assert "+1.500" in text
    assert "-0.500" in text
    assert "add up to the log-odds before calibration, +0.300" in text


def test_a_model() -> None:
    shape = Shape("(0,1)", 0.5, 0.1, 0.4, 0.1, 4.0, 2.0, 8.0, "source")
    text = shown(show_law, Law(100, "additive", [shape] * 14, [], 3))
    assert "Over 100 test links and as many negatives" in text
    assert text.count("4 (2 to 8)") == 12
    assert "anonymous walks: none is frequent enough to be listed" in text
    assert "2 shapes in between are not shown; 3 are too rare." in text
