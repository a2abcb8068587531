"""Explanations on a terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cawn.explain.law import Law, Shape
from cawn.explain.link import Explanation, Walk
from cawn.explain.pictures import lift_text, shown_walks
from cawn.summary import moment, shown

_BAR = 12  # characters of the longest


def show_link(why: Explanation, console: Console | None = None) -> None:
    """The strongest walks for and against a link."""
    console = console or Console()
    title = (
        f"{shown(why.src)} and {shown(why.dst)} at {moment(why.t)}: probability {why.probability:.3f} ± {why.error:.4f}"
    )
    console.print(Text(title, style="bold"))
    walks = shown_walks(why)
    largest = max((abs(walk.contribution) for walk in walks), default=1.0) or 1.0
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("adds", "", "walk, back in time", "its shape", "walks"):
        table.add_column(column, overflow="fold", no_wrap=column in ("adds", "walks"))
    for walk in walks:
        bar = Text("█" * max(round(_BAR * abs(walk.contribution) / largest), 1), _style(walk.contribution))
        table.add_row(f"{walk.contribution:+.3f}", bar, Text(_told(walk)), walk.shape, str(walk.count))
    console.print(table)
    rates = "" if why.rates is None else f", counted past {why.rates:+.3f}"
    walked = sum(walk.contribution for walk in why.walks)
    how = {"additive": "these add up", "leave-group-out": "each left out by itself: these need not add up"}[why.method]
    console.print(
        f"log-odds {why.logit:+.3f}: base {why.base:+.3f}{rates}, all walks {walked:+.3f} ({how})", style="dim"
    )


def show_law(law: Law, console: Console | None = None) -> None:
    """The shapes with the highest and the lowest scores."""
    console = console or Console()
    console.print(Text(f"Over {law.links:,} true links and as many false ones", style="bold"))
    for title, rows in (("causal anonymous walks", law.shapes), ("anonymous walks", law.orders)):
        kept = rows if len(rows) <= 12 else [*rows[:8], *rows[-4:]]
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for column in (title, "adds", "with true", "false", "lift"):
            table.add_column(column, overflow="fold")
        for row in kept:
            table.add_row(*_cells(row), style="bold" if row.tells else "dim")
        console.print(table if rows else f"{title}: none occurs often enough to be told of")
    if law.rare:
        console.print(f"{law.rare:,} shapes occur too seldom to be told of.", style="dim")
    console.print("In bold: more or less often with true links than with false ones, beyond chance.", style="dim")


def _cells(row: Shape) -> tuple[str, ...]:
    return row.shape, f"{row.score:+.3f}", f"{row.with_true:.3f}", f"{row.with_false:.3f}", lift_text(row)


def _told(walk: Walk) -> str:
    parts = [shown(walk.nodes[0])]
    for node, link in zip(walk.nodes[1:], walk.links, strict=True):
        parts.append(f"→ {shown(node)} ({moment(link.t)})")
    return " ".join(parts)


def _style(value: float) -> str:
    return "blue" if value > 0 else "yellow"
