"""Results as a person reads them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cawn.events import Events
from cawn.metrics import mean_and_interval
from cawn.predictor import Ranked


def show_results(
    runs: list[list[dict[str, Any]]], *, batch_metrics: bool = False, console: Console | None = None
) -> None:
    """One table: a row for each kind of test links and negatives, the rules beside the model; means over runs."""
    title = f"mean of {len(runs)} seeds, ± 95 % interval" if len(runs) > 1 else None
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    for name in ("links", "against", "count", "AUC", "AP"):
        table.add_column(name, justify="left" if name in ("links", "against") else "right", no_wrap=True)
    if batch_metrics:
        table.add_column("batches of 30", justify="right")
    for name in ("MRR", "recency", "EdgeBank", "popular"):
        table.add_column(name, justify="right")
    for same in zip(*runs, strict=True):
        row = same[0]
        cells = [row["links"], row["negatives"], f"{row['count']:,}"]
        cells += [_figure([r["model"][key] for r in same], bold=True) for key in ("auc", "ap")]
        if batch_metrics:
            cells.append(" / ".join(_figure([r["model"][f"{key}_batch30"] for r in same]) for key in ("auc", "ap")))
        cells.append(_mean([r["ranks"]["model"]["mrr"] for r in same]) if "ranks" in row else "")
        cells += [_mean([r["rules"][rule]["ap"] for r in same]) for rule in ("recency", "edgebank", "popularity")]
        table.add_row(*cells)
    console = console or Console()
    console.print(table)
    console.print("recency, EdgeBank, popular: AP of rules that learn nothing, on the same links.", style="dim")
    ranked = [r for rows in runs for r in rows if "ranks" in r]
    if ranked:
        most = max(ranked, key=lambda row: row["count"])
        console.print(
            f"MRR: up to {most['ranks']['links']} links, each among {most['ranks']['candidates']} random destinations. "
            f"Probabilities are off by {most['reliability']['calibrated']['ece']:.3f} on average "
            f"(ECE, {most['links']} links, one false for each true one).",
            style="dim",
        )


def show_next(folder: Path, events: Events, console: Console | None = None) -> None:
    """Commands to try on a run, with names and times that exist in it."""
    name, t = events.labels[events.src[-1]], events.t[-1]
    place = shlex.quote(str(folder))
    console = console or Console(stderr=True)
    console.print("\nNext:", style="bold")
    for line in (
        f"cawn rank {place} --node {shlex.quote(str(name))} --time {t:.15g} -k 5",
        f"cawn predict {place} pairs.csv -o scored.csv",
        f"cawn evaluate {place}",
    ):
        console.print(f"  {line}", highlight=False, soft_wrap=True)


def show_ranking(ranked: list[Ranked], console: Console | None = None) -> None:
    """The best candidates, one below the other."""
    table = Table("", "node", "probability", "found as")
    for place, row in enumerate(ranked, start=1):
        table.add_row(str(place), str(row.name), f"{row.probability:.4f}", row.found)
    (console or Console()).print(table if ranked else "no candidates: nothing has linked before this time")


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.3f}"


def _figure(values: list[float], *, bold: bool = False) -> str:
    mean, half = mean_and_interval(values)
    text = f"{mean:.4f}" + (f" ± {half:.4f}" if len(values) > 1 else "")
    return f"[bold]{text}[/]" if bold else text
