"""A run as a model card in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cawn.cli.reports import facts_of_run
from cawn.errors import printable
from cawn.learn.results import METRICS, Results

_DATA = ("data", "period", "columns", "names", "added since", "links digest")
_MODEL = ("system", "settings", "decays", "versions", "weights digest", "size")
_TRAINING = ("state", "task", "protocol", "epochs", "served", "cost", "split digest")
_PROBABILITIES = ("calibration", "expected drift")
_LIMITS = (
    "A score at time t uses only links strictly before t. A node without earlier links has no history.",
    "Probabilities assume one negative per positive. If fewer pairs will link, give the expected share as the prior.",
    "The accuracy is that on the test links of this network. It may be lower on later links; `cawn serve` measures it "
    "on links as they arrive.",
)


def model_card(info: dict[str, Any]) -> str:
    """The result of `run_info`, with the live state as `live`."""
    facts = facts_of_run(info)
    name = Path(info["run"]).absolute().name
    parts = [
        f"# Model card: {_escaped(name)}",
        "The probability that two nodes of a temporal network link at a given time, from the links before it.",
        *_section("Data", {each: facts[each] for each in _DATA}),
        *_section("Model", {each: facts[each] for each in _MODEL}),
        *_section("Training", {each: facts[each] for each in _TRAINING}),
        *_accuracy(info),
        *_section("Probabilities", {each: facts[each] for each in _PROBABILITIES}),
        *_section("Live state", {"links and files": facts["live"]}),
        "## Limits",
        "\n".join(f"- {each}" for each in _LIMITS),
    ]
    return "\n\n".join(parts) + "\n"


def _section(title: str, facts: dict[str, str]) -> list[str]:
    rows = [(name, text) for name, text in facts.items() if text]
    return [f"## {title}", _table(("", ""), rows)] if rows else []


def _accuracy(info: dict[str, Any]) -> list[str]:
    """A table for each kind of negatives: the model and its baselines."""
    results, parts = Results(info["results"] or []), []
    for against in results.values("negatives"):
        some = results.where(negatives=against)
        metrics = [key for key in ("auc", "ap", "mrr", "hits@10") if key in some.values("metric")]
        rows = []
        for (links, count, baseline, name), values in _figures(some).items():
            shown = f"baseline: {name}" if baseline else f"{links} links: {count:,}"
            rows.append((shown, *(f"{values[key]:.4f}" if key in values else "" for key in metrics)))
        parts += [f"Against {against} negatives:", _table(("", *(METRICS[key] for key in metrics)), rows)]
    if found := info["candidates"]:
        parts.append(
            f"A ranking considers {found['size']:,.0f} nodes on average; the true destination is among them for "
            f"{found['recall']:.0%} of {found['links']} test links."
        )
    return ["## Accuracy", f"On the test links, with the {info['clock']} clock.", *parts] if parts else []


def _figures(results: Results) -> dict[tuple[str, int, bool, str], dict[str, float]]:
    """The metrics of each system on each kind of test links."""
    found: dict[tuple[str, int, bool, str], dict[str, float]] = {}
    for row in results:
        key = row["links"], row["count"], row["baseline"], row["system"]
        found.setdefault(key, {})[row["metric"]] = row["value"]
    return found


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_escaped, line)) + " |" for line in lines)


def _escaped(text: str) -> str:
    """Text in a cell or a heading; names of files and columns may hold anything."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in printable(text))
