"""Explanations as tables on a terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cawn.errors import printable
from cawn.explain import pictures
from cawn.explain.law import Law, Shape
from cawn.explain.link import Explanation, Walk
from cawn.explain.pictures import Row, signed

_BAR = 12  # characters of a full bar


def show_link(why: Explanation, console: Console | None = None) -> None:
    """Print the answer, the parts of the score, and the walks with the largest contributions."""
    console = console or Console()
    console.print(Text(why.answer, style="bold"))
    probability = f"probability {why.probability:.3f} ± {why.error:.4f}, {pictures.probability_note(why)}"
    console.print(Text(probability, style="dim"))
    largest, table = pictures.bar_scale(why), _table("log-odds", "", "part of the score")
    for row in pictures.part_rows(why):
        table.add_row(signed(row.value), _bar(row.value, largest), _described(row))
    table.add_section()
    table.add_row(signed(why.logit), _bar(why.logit, largest), Text("= log-odds before calibration"), style="bold")
    console.print(table)
    console.print(Text(" ".join(pictures.notes(why)), style="dim"))
    walks = pictures.shown_walks(why)
    if walks:
        table = _table("log-odds", "", "walk", "part", "walks")
        for walk in walks:
            title = Text(pictures.part_title(why, walk), style="dim")
            bar = _bar(walk.contribution, largest)
            table.add_row(signed(walk.contribution), bar, Text(_path(walk)), title, str(walk.count))
        console.print(table)
    if why.shapes:
        table = _table("log-odds", "", "walk shape")
        for part in sorted(why.shapes, key=lambda part: -abs(part.contribution)):
            error = f" ± {part.error:.3f}" if part.error else ""
            row = Row(part.name, part.title, part.name if part.num_walks else "", part.contribution)
            table.add_row(f"{signed(part.contribution)}{error}", _bar(part.contribution, largest), _described(row))
        console.print(table)
    for sentence in why.what_if.in_words if why.what_if else []:
        console.print(Text(sentence))


def show_law(law: Law, console: Console | None = None) -> None:
    """Print what a model relies on: the evidence of each part, and the highest and lowest scores of shapes."""
    console = console or Console()
    for i, sentence in enumerate(law.in_words):
        console.print(Text(sentence, style="" if i else "bold"))
    console.print(Text(f"{pictures.law_figures(law)}.", style="dim"))
    table = _table("part", "evidence", "", "interval", "share", "AP without it")
    for part in pictures.largest_evidence(law):
        table.add_row(
            part.title,
            signed(part.evidence),
            _bar(part.evidence, pictures.evidence_scale(law)),
            f"{signed(part.low)} to {signed(part.high)}",
            pictures.percent(part.share),
            f"{100 * part.ap_without:.1f} % ({signed(100 * (part.ap_without - law.ap), 1)})",
            style="bold" if part.significant else "dim",
        )
    console.print(table)
    console.print(Text(f"{pictures.EVIDENCE}, {signed(law.evidence)}.", style="dim"))
    if law.interaction is not None:
        console.print(Text(pictures.interaction_note(law)))
    hidden = sum(
        _show_shapes(title, rows, console)
        for title, rows in (("causal anonymous walks", law.shapes), ("anonymous walks", law.orders))
    )
    if law.rare or hidden:
        console.print(f"{hidden:,} shapes in between are not shown; {law.rare:,} are too rare.", style="dim")
    console.print("Bold: evidence significantly different from 0, or lift significantly different from 1.", style="dim")


def _show_shapes(title: str, rows: list[Shape], console: Console) -> int:
    """Print a table of shapes; returns the number of those left out."""
    kept = rows if len(rows) <= 12 else [*rows[:8], *rows[-4:]]
    table = _table(title, "score", "positives", "negatives", "lift")
    for row in kept:
        figures = signed(row.score), f"{row.with_true:.3f}", f"{row.with_false:.3f}", pictures.format_lift(row)
        table.add_row(row.shape, *figures, style="bold" if row.significant else "dim")
    console.print(table if rows else f"{title}: none is frequent enough to be listed")
    return len(rows) - len(kept)


def _table(*columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        numbers = column in ("log-odds", "walks", "evidence", "score", "share")
        table.add_column(column, overflow="fold", no_wrap=numbers)
    return table


def _bar(value: float, largest: float) -> Text:
    return Text("█" * round(_BAR * abs(value) / largest) or "·", "blue" if value > 0 else "yellow")


def _described(row: Row) -> Text:
    text = Text(row.title)
    return text.append(f" ({row.detail})", "dim") if row.detail else text


def _path(walk: Walk) -> str:
    steps = [f"→ {printable(n)} ({pictures.time_text(x)})" for n, x in zip(walk.nodes[1:], walk.links, strict=True)]
    return " ".join([printable(walk.nodes[0]), *steps])
