"""Explanations as tables on a terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cawn.errors import printable
from cawn.explain.views import Bar, ExplanationView, LawView, Shape, Walk, both_ends, signed

_BAR = 12  # characters of a full bar


def show(view: ExplanationView | LawView, console: Console | None = None) -> None:
    """Print what is shown of an explanation or a law."""
    console = console or Console()
    if isinstance(view, ExplanationView):
        _show_link(view, console)
    else:
        _show_law(view, console)


def _show_link(view: ExplanationView, console: Console) -> None:
    """The answer, the parts of the score, and the walks with the largest contributions."""
    console.print(Text(view.answer, style="bold"))
    console.print(Text(view.verdict, style="dim"))
    table = _table("log-odds", "", "part of the score")
    for bar in view.bars:
        table.add_row(*_cells(bar, view.scale))
    table.add_section()
    table.add_row(*_cells(view.total, view.scale), style="bold")
    console.print(table)
    console.print(Text(view.notes, style="dim"))
    if view.walks:
        table = _table("log-odds", "", "walk", "part", "walks")
        for walk in view.walks:
            value, title = walk.contribution, Text(view.title(walk), style="dim")
            table.add_row(signed(value), _bar(value, view.scale), Text(_path(walk)), title, str(walk.count))
        console.print(table)
    if view.shapes:
        table = _table("log-odds", "", "walk shape")
        for shape in view.shapes:
            table.add_row(*_cells(shape, view.scale))
        console.print(table)
    for sentence in view.changes:
        console.print(Text(sentence))


def _show_law(view: LawView, console: Console) -> None:
    """The evidence of each part, and the highest and lowest scores of shapes."""
    for i, sentence in enumerate(view.sentences):
        console.print(Text(sentence, style="" if i else "bold"))
    console.print(Text(f"{view.figures}.", style="dim"))
    table = _table("part", "evidence", "", "interval", "share", "AP without it")
    for row in view.evidence:
        figures = signed(row.value), _bar(row.value, view.scale), row.interval, row.share, f"{row.ap} ({row.drop})"
        table.add_row(row.title, *figures, style="bold" if row.significant else "dim")
    console.print(table)
    console.print(Text(f"{view.meaning}, {view.total}.", style="dim"))
    if view.interaction:
        console.print(Text(view.interaction))
    tables = ("causal anonymous walks", view.shapes), ("anonymous walks", view.orders)
    hidden = sum(_show_shapes(title, rows, console) for title, rows in tables)
    if view.rare or hidden:
        console.print(f"{hidden:,} shapes in between are not shown; {view.rare:,} are too rare.", style="dim")
    console.print("Bold: evidence significantly different from 0, or lift significantly different from 1.", style="dim")


def _show_shapes(title: str, rows: list[Shape], console: Console) -> int:
    """Print a table of shapes; returns the number of those left out."""
    kept = both_ends(rows)
    table = _table(title, "score", "positives", "negatives", "lift")
    for row in kept:
        figures = signed(row.score), f"{row.with_true:.3f}", f"{row.with_false:.3f}", row.lift_in_words
        table.add_row(row.shape, *figures, style="bold" if row.significant else "dim")
    console.print(table if rows else f"{title}: none is frequent enough to be listed")
    return len(rows) - len(kept)


def _table(*columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        numbers = column in ("log-odds", "walks", "evidence", "score", "share")
        table.add_column(column, overflow="fold", no_wrap=numbers)
    return table


def _cells(bar: Bar, scale: float) -> tuple[str, Text, Text]:
    """The value, a bar, and what it is."""
    title, error = Text(bar.title), f" ± {bar.error:.3f}" if bar.error else ""
    if bar.detail:
        title.append(f" ({bar.detail})", "dim")
    return f"{signed(bar.value)}{error}", _bar(bar.value, scale), title


def _bar(value: float, scale: float) -> Text:
    return Text("█" * round(_BAR * abs(value) / scale) or "·", "blue" if value > 0 else "yellow")


def _path(walk: Walk) -> str:
    steps = [f"→ {printable(node)} ({link.time})" for node, link in zip(walk.nodes[1:], walk.links, strict=True)]
    return " ".join([printable(walk.nodes[0]), *steps])
