"""Explanations as tables on a terminal."""

import io

from rich.console import Console

from cawn.explain.tables import show
from small_explanation import hostile_explanation, small_explanation, small_law


def shown(report) -> str:
    console = Console(file=io.StringIO(), width=250)
    show(report.view(), console)
    return console.file.getvalue()


def test_a_link() -> None:
    why = hostile_explanation()
    text = shown(why)
    assert text.startswith(why.answer)
    assert "probability 0.500 ± 0.0100, assuming a prior of 50 % positives" in text
    rows = [line.split()[0] for line in text.splitlines() if line[1:2] in "+-" and line.strip()]
    assert rows[:3] == ["-0.600", "+0.850", "+0.400"]  # the base, then the largest part
    assert "(4 sampled walks; +0.250 of it from exact counts)" in text
    assert "times on the walks, walks that do not meet (less than 0.0005 in absolute value)" in text
    (total,) = (line for line in text.splitlines() if "= log-odds before calibration" in line)
    assert total.split()[0] == f"{why.logit:+.3f}" == "+0.650"
    assert "two strangers: nodes without any links" in text
    assert "partly redundant: they contribute 0.50 less together" in text
    assert "+1.500" in text
    assert "+1.200 ± 0.050" in text
    assert all(sentence in text for sentence in why.what_if.in_words)


def test_a_link_without_walks() -> None:
    text = shown(small_explanation([], background="pairs", interaction=None))
    assert "compared with 32 random pairs of nodes with earlier links, on average" in text
    assert "overlap" not in text


def test_a_model() -> None:
    law = small_law()
    text = shown(law)
    assert text.startswith(law.in_words[0])
    assert "100 test links and as many random negatives: AUC 90.0 %, average precision 92.0 %." in text
    lines = [" ".join(line.split()) for line in text.splitlines()]
    rows = [line for line in lines if line.startswith(("common neighbours", "the pair's own history"))]
    assert [value in row for row, value in zip(rows, ("+1.375", "-0.125"), strict=True)] == [
        True,
        True,
    ]  # largest first
    assert rows[0].endswith("+1.000 to +1.750 110.0 % 75.0 % (-17.0)")
    assert "adds up to the difference of the mean logits, +1.250." in text
    assert "they contribute 0.250 less together than separately" in text
    assert text.count("4 (2 to 8)") == 12
    assert "anonymous walks: none is frequent enough to be listed" in text
    assert "2 shapes in between are not shown; 3 are too rare." in text
