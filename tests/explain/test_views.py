"""What is shown of explanations, and that terminals, pictures and pages show all of it."""

import html
import io
import re

import pytest
from rich.console import Console

from cawn.explain.explanation import Explanation
from cawn.explain.law import Law
from cawn.explain.tables import show
from cawn.explain.views import Bar, Walk, signed
from small_explanation import hostile_explanation, small_explanation, small_law


def terminal(shown: Explanation | Law) -> str:
    console = Console(file=io.StringIO(), width=250)
    show(shown.view(), console)
    return console.file.getvalue()


def picture(shown: Explanation | Law) -> str:
    return " ".join(element.text for element in shown.to_picture().elements if element.tag == "text")


def page(shown: Explanation | Law) -> str:
    body = shown.to_html().split("<body>")[1].split("<script type=application/json")[0]
    return html.unescape(re.sub("<[^>]*>", "", body))


def assert_shown(expected: list[str], text: str) -> None:
    """Lines may be broken anywhere."""
    text = "".join(text.split())
    assert [words for words in expected if "".join(words.split()) not in text] == []


def walk(contribution: float) -> Walk:
    return Walk("src", 1, contribution, "(0,1)", ["a"], [])


def test_bars() -> None:
    """The base, then parts, largest first; those that contribute nothing are one bar."""
    found = small_explanation([walk(0.3), walk(-1.5)], background="pairs").view()
    pairs = "32 random pairs of nodes with earlier links, on average"
    small = "times on the walks, walks that do not meet"
    assert [(bar.title, bar.detail, round(bar.value, 6)) for bar in [*found.bars, found.total]] == [
        ("base", pairs, -0.6),
        ("walks along a repeated link", "4 sampled walks; +0.250 of it from exact counts", -0.95),
        ("the pair's own history", "they linked once before, the last at 5", 0.4),
        (small, "less than 0.0005 in absolute value", -0.0001),
        ("= log-odds before calibration", "", -1.1501),
    ]
    assert found.scale == 1.5
    assert found.notes.startswith(f"Each part is compared with {pairs}.")
    assert found.notes.endswith("partly redundant: they contribute 0.50 less together than separately.")
    assert found.verdict == "probability 0.500 ± 0.0100, assuming a prior of 50 % positives; mean over 8 walk samples"
    assert "overlap" not in small_explanation([], interaction=None).view().notes
    assert small_explanation([]).view().scale == pytest.approx(0.6)


def test_walks() -> None:
    """The largest contributions on either side of zero."""
    contributions = [0.9, -0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, -0.1, 0.0004, -0.0004]
    found = small_explanation([walk(value) for value in contributions]).view()
    assert [shown.contribution for shown in found.walks] == [0.9, 0.7, 0.6, 0.5, 0.4, 0.3, -0.8, -0.1]
    assert found.hidden == 3
    assert found.title(found.walks[0]) == "walks that do not meet"


@pytest.mark.parametrize("draw", [terminal, picture, page])
def test_all_of_a_link_is_shown(draw) -> None:
    why = hostile_explanation()
    view, text = why.view(), draw(why)
    bars = [*view.bars, view.total, *(Bar("", view.title(one), "", one.contribution) for one in view.walks)]
    bars += [] if draw is picture else view.shapes
    expected = [view.answer, f"probability {view.probability:.3f} ± {view.error:.4f}", view.assumptions, view.notes]
    expected += view.changes + [words for bar in bars for words in (bar.title, bar.detail, signed(bar.value))]
    assert_shown(expected, text)
    places = ["".join(text.split()).index("".join(bar.title.split())) for bar in [*view.bars, view.total]]
    assert places[1:] == sorted(places[1:])


@pytest.mark.parametrize("draw", [terminal, picture, page])
def test_all_of_a_law_is_shown(draw) -> None:
    law = small_law()
    view, text = law.view(), draw(law)
    first, second = view.evidence
    assert (first.title, first.interval, first.share, first.ap, first.drop) == (
        *("common neighbours", "+1.000 to +1.750", "110.0 %", "75.0 %", "-17.0"),
    )
    assert (second.title, second.significant, second.share) == ("the pair's own history", False, "-10.0 %")
    assert view.figures == "100 test links and as many random negatives: AUC 90.0 %, average precision 92.0 %"
    assert "they contribute 0.250 less together than separately" in view.interaction
    expected = [
        *view.sentences,
        view.figures,
        f"{view.meaning}, {view.total}.",
        view.interaction,
        "(0,1)",
        "4 (2 to 8)",
    ]
    for row in view.evidence:
        expected += [row.title, signed(row.value), row.interval, row.share, f"{row.ap} ({row.drop})", "+0.500"]
    assert_shown(expected, text)
    assert text.count("4 (2 to 8)") == (14 if draw is page else 12)
    assert ("none is frequent enough to be listed" in text.lower()) == (draw is not picture)


def test_shapes_that_are_left_out_on_a_terminal() -> None:
    assert "2 shapes in between are not shown; 3 are too rare." in terminal(small_law())
    assert "are not shown" not in terminal(small_law(shapes=[], rare=0))
