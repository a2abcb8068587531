"""Explanations on a terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cawn.data.times import format_time
from cawn.errors import printable
from cawn.explain.law import Law, Shape
from cawn.explain.link import Explanation, Walk
from cawn.explain.pictures import largest_part, lift_text, parts, shown_walks

_BAR = 12  # characters of the longest


def show_link(why: Explanation, console: Console | None = None) -> None:
    """What a score is made of, and the strongest walks for and against the link."""
    console = console or Console()
    pair, how_sure = f"{printable(why.src)} and {printable(why.dst)}", f"{why.probability:.3f} ± {why.error:.4f}"
    console.print(Text(f"{pair} at {format_time(why.t)}: probability {how_sure}", style="bold"))
    largest = largest_part(why)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("adds", "", "what speaks for it or against it", "its shape", "walks"):
        table.add_column(column, overflow="fold", no_wrap=column in ("adds", "walks"))
    for _, words, value in parts(why):
        table.add_row(f"{value:+.3f}", _bar(value, largest), Text(words, style="dim"), "", "")
    for walk in shown_walks(why):
        bar = _bar(walk.contribution, largest)
        table.add_row(f"{walk.contribution:+.3f}", bar, Text(_told(walk)), walk.shape, str(walk.count))
    console.print(table)
    console.print(
        f"log-odds {why.logit:+.3f} of these walks, before calibration: the sum of the first rows", style="dim"
    )


def show_law(law: Law, console: Console | None = None) -> None:
    """The shapes with the highest and the lowest scores."""
    console = console or Console()
    console.print(Text(f"Over {law.links:,} true links and as many false ones", style="bold"))
    left = 0
    for title, rows in (("causal anonymous walks", law.shapes), ("anonymous walks", law.orders)):
        kept = rows if len(rows) <= 12 else [*rows[:8], *rows[-4:]]
        left += len(rows) - len(kept)
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for column in (title, "adds", "with true", "false", "lift"):
            table.add_column(column, overflow="fold")
        for row in kept:
            table.add_row(*_cells(row), style="bold" if row.tells else "dim")
        console.print(table if rows else f"{title}: none occurs often enough to be told of")
    if law.rare or left:
        console.print(f"{left:,} shapes between these are not shown; {law.rare:,} occur too seldom.", style="dim")
    console.print("In bold: more or less often with true links than with false ones, beyond chance.", style="dim")


def _cells(row: Shape) -> tuple[str, ...]:
    return row.shape, f"{row.score:+.3f}", f"{row.with_true:.3f}", f"{row.with_false:.3f}", lift_text(row)


def _told(walk: Walk) -> str:
    parts = [printable(walk.nodes[0])]
    for node, link in zip(walk.nodes[1:], walk.links, strict=True):
        parts.append(f"→ {printable(node)} ({format_time(link.t)})")
    return " ".join(parts)


def _bar(value: float, largest: float) -> Text:
    return Text("█" * round(_BAR * abs(value) / largest) or "·", "blue" if value > 0 else "yellow")
