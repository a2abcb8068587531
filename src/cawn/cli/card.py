"""A run as a model card in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cawn.cli.reports import facts_of_run
from cawn.errors import printable

_DATA = ("data", "period", "columns", "names", "added since", "links digest")
_MODEL = ("system", "settings", "decays", "versions", "weights digest", "size")
_TRAINING = ("state", "task", "protocol", "epochs", "served", "cost", "split digest")
_PROBABILITIES = ("calibration", "expected drift")
_METRICS = {"auc": "AUC", "ap": "AP", "mrr": "MRR", "hits@10": "Hits@10"}
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
    results, parts = info["results"] or [], []
    for against in dict.fromkeys(row["negatives"] for row in results):
        chosen = [row for row in results if row["negatives"] == against]
        metrics = [key for key in _METRICS if key in chosen[0]["model"]]
        rows = []
        for row in chosen:
            figures = {f"{row['links']} links: {row['count']:,}": row["model"]}
            figures |= {f"baseline: {name}": found for name, found in row["rules"].items()}
            rows += [(name, *(f"{found[key]:.4f}" for key in metrics)) for name, found in figures.items()]
        parts += [f"Against {against} negatives:", _table(("", *(_METRICS[key] for key in metrics)), rows)]
    if found := info["candidates"]:
        parts.append(
            f"A ranking considers {found['size']:,.0f} nodes on average; the true destination is among them for "
            f"{found['recall']:.0%} of {found['links']} test links."
        )
    return ["## Accuracy", f"On the test links, with the {info['clock']} clock.", *parts] if parts else []


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_escaped, line)) + " |" for line in lines)


def _escaped(text: str) -> str:
    """Text in a cell or a heading; names of files and columns may hold anything."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in printable(text))
