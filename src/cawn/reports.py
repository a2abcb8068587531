"""Results as a person reads them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE, SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cawn.events import Events
from cawn.metrics import mean_and_interval
from cawn.predictor import Ranked
from cawn.summary import moment, shown


def show_results(
    runs: list[list[dict[str, Any]]], *, batch_metrics: bool = False, console: Console | None = None
) -> None:
    """A table for each kind of negatives: the model and, below it, rules that learn nothing; means over runs."""
    console = console or Console()
    several = len(runs) > 1
    if several:
        console.print(f"mean of {len(runs)} seeds, ± 95 % interval")
    for against in dict.fromkeys(row["negatives"] for row in runs[0]):
        table = Table(title=f"against {against} false links", title_justify="left", box=SIMPLE, pad_edge=False)
        table.add_column("", no_wrap=True)
        for name in (
            "AUC",
            "AP",
            *(("batches of 30",) if batch_metrics else ()),
            *(("MRR",) if against == "random" else ()),
        ):
            table.add_column(name, justify="right", no_wrap=True)
        for same in zip(*runs, strict=True):
            if same[0]["negatives"] == against:
                _add_rows(table, same, batch_metrics)
        console.print(table)
    _show_verdict(runs, console)
    ranked = [r for rows in runs for r in rows if "ranks" in r]
    if ranked:
        most = max(ranked, key=lambda row: row["count"])
        console.print(
            f"MRR: up to {most['ranks']['links']} links, each among {most['ranks']['candidates']} random destinations. "
            f"Probabilities are off by {most['reliability']['calibrated']['ece']:.3f} on average "
            f"(ECE, {most['links']} links, one false for each true one).",
            style="dim",
        )


def _show_verdict(runs: list[list[dict[str, Any]]], console: Console) -> None:
    """Say where a rule that learns nothing is better."""
    for same in zip(*runs, strict=True):
        row, ap = same[0], float(np.mean([r["model"]["ap"] for r in same]))
        best = max(row["rules"], key=lambda rule: np.mean([r["rules"][rule]["ap"] for r in same]))
        if np.mean([r["rules"][best]["ap"] for r in same]) >= ap:
            console.print(
                f"{row['links']} links against {row['negatives']} ones: the rule {best!r}, which learns nothing, "
                "has the better AP. More links, or more epochs, may help.",
                style="yellow",
            )


def _add_rows(table: Table, same: tuple[dict[str, Any], ...], batch_metrics: bool) -> None:
    """The model on one kind of test links, and below it the rules that learn nothing."""
    row = same[0]
    note = f", {row['fallback']:.0%} of them random" if row["fallback"] > 0.05 else ""
    rules = {"recency": "recency", "EdgeBank": "edgebank", "popularity": "popularity"}
    for name, rule in {f"{row['links']} links: {row['count']:,}{note}": None, **rules}.items():
        figures = [r["model"] if rule is None else r["rules"][rule] for r in same]
        cells = [_figure([f[key] for f in figures]) for key in ("auc", "ap")]
        if batch_metrics:
            cells.append(" / ".join(_mean([f[f"{key}_batch30"] for f in figures]) for key in ("auc", "ap")))
        if "ranks" in row:
            by = "model" if rule is None else rule
            cells.append(_mean([r["ranks"][by]["mrr"] for r in same]) if by in row["ranks"] else "")
        table.add_row(name if rule is None else f"  {name}", *cells, style="bold" if rule is None else "dim")


def show_candidates(report: dict[str, Any], console: Console | None = None) -> None:
    """How well `rank` chooses whom to consider."""
    found = report["candidates"]
    (console or Console()).print(
        f"cawn rank considers {found['size']:,.0f} of the nodes on average; the true destination is among them "
        f"for {found['recall']:.0%} of {found['links']} test links.",
        style="dim",
    )


def show_next(folder: Path, events: Events, console: Console | None = None) -> None:
    """Commands to try on a run, with names and times that exist in it."""
    name, other = events.labels[events.src[-1]], events.labels[events.dst[-1]]
    t = moment(events.t[-1].item())
    place = shlex.quote(str(folder))
    console = console or Console(stderr=True)
    console.print("\nNext:", style="bold")
    for line in (
        f"cawn rank {place} --node {shlex.quote(str(name))} --time {t} -k 5",
        f"cawn explain {place} --src {shlex.quote(str(name))} --dst {shlex.quote(str(other))} --time {t} -o why.html",
        f"cawn predict {place} pairs.csv -o scored.csv",
        f"cawn evaluate {place}",
    ):
        console.print(f"  {line}", highlight=False, soft_wrap=True, markup=False, emoji=False)


def show_ranking(ranked: list[Ranked], console: Console | None = None) -> None:
    """The best candidates, one below the other."""
    table = Table("", "node", "probability", "found as", box=SIMPLE_HEAD, pad_edge=False)
    for place, row in enumerate(ranked, start=1):
        table.add_row(str(place), Text(shown(row.name)), f"{row.probability:.4f}", row.found)
    (console or Console()).print(table if ranked else "no candidates: nothing has linked before this time")


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.3f}"


def _figure(values: list[float]) -> str:
    mean, half = mean_and_interval(values)
    return f"{mean:.4f}" + (f" ± {half:.3f}" if len(values) > 1 else "")
