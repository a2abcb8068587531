"""Explanations as tables on a terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cawn.data.times import format_time
from cawn.errors import printable
from cawn.explain.law import Law
from cawn.explain.link import Explanation, Walk
from cawn.explain.pictures import bar_scale, contributions, format_lift, shown_walks

_BAR = 12  # characters of a full bar


def show_link(why: Explanation, console: Console | None = None) -> None:
    """Print the parts of a score, and the walks with the largest contributions."""
    console = console or Console()
    pair, probability = f"{printable(why.src)} and {printable(why.dst)}", f"{why.probability:.3f} ± {why.error:.4f}"
    console.print(Text(f"{pair} at {format_time(why.t)}: probability {probability}", style="bold"))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("log-odds", "", "part of the score", "shape", "walks"):
        table.add_column(column, overflow="fold", no_wrap=column in ("log-odds", "walks"))
    rows = [(value, Text(part, style="dim"), "", "") for _, part, value in contributions(why)]
    rows += [(walk.contribution, Text(_path(walk)), walk.shape, str(walk.count)) for walk in shown_walks(why)]
    for value, text, shape, count in rows:
        bar = "█" * round(_BAR * abs(value) / bar_scale(why)) or "·"
        table.add_row(f"{value:+.3f}", Text(bar, "blue" if value > 0 else "yellow"), text, shape, count)
    console.print(table)
    console.print(f"The dim rows add up to the log-odds before calibration, {why.logit:+.3f}.", style="dim")


def show_law(law: Law, console: Console | None = None) -> None:
    """Print the shapes with the highest and the lowest scores."""
    console = console or Console()
    console.print(Text(f"Over {law.links:,} test links and as many negatives", style="bold"))
    hidden = 0
    for title, rows in (("causal anonymous walks", law.shapes), ("anonymous walks", law.orders)):
        kept = rows if len(rows) <= 12 else [*rows[:8], *rows[-4:]]
        hidden += len(rows) - len(kept)
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for column in (title, "score", "positives", "negatives", "lift"):
            table.add_column(column, overflow="fold")
        for row in kept:
            figures = f"{row.score:+.3f}", f"{row.with_true:.3f}", f"{row.with_false:.3f}", format_lift(row)
            table.add_row(row.shape, *figures, style="bold" if row.significant else "dim")
        console.print(table if rows else f"{title}: none is frequent enough to be listed")
    if law.rare or hidden:
        console.print(f"{hidden:,} shapes in between are not shown; {law.rare:,} are too rare.", style="dim")
    console.print("Bold: significantly more or less frequent with positives than with negatives.", style="dim")


def _path(walk: Walk) -> str:
    steps = [f"→ {printable(n)} ({format_time(link.t)})" for n, link in zip(walk.nodes[1:], walk.links, strict=True)]
    return " ".join([printable(walk.nodes[0]), *steps])
