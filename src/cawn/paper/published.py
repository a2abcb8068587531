"""The numbers of the paper: its Tables 1 to 4 and 6, and the tables of TGN in its appendix.

Plots without printed numbers (sensitivity, complexity, tree, shapes) are described in words by their experiments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

Metric = Literal["auc", "ap"]

NETWORKS = ("reddit", "wikipedia", "mooc", "socialevolve", "enron", "uci")  # in the order of the paper
NAMES = {
    "reddit": "Reddit",
    "wikipedia": "Wikipedia",
    "mooc": "MOOC",
    "socialevolve": "Social Evolution",
    "enron": "Enron",
    "uci": "UCI",
    "bitcoin-otc": "Bitcoin OTC",
    "flights": "Flights",
}
CAWN = ("CAW-N-mean", "CAW-N-attn")
TESTS = {
    "new-new": ("inductive", "new-new"),
    "new-old": ("inductive", "new-old"),
    "transductive": ("transductive", "all"),
}


class PaperValue(NamedTuple):
    """A mean in percent and half the width of its 95 % confidence interval, as printed in the paper."""

    mean: float
    half: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.half:.2f}"


def display_name(network: str) -> str:
    """The name of a network in tables and sentences."""
    return NAMES.get(network, network)


def in_order(names: Iterable[str]) -> list[str]:
    """Networks in the order of the tables: those of the paper first, the others by name."""
    found = set(names)
    return [name for name in NETWORKS if name in found] + sorted(found - set(NETWORKS))


@cache
def published() -> dict[str, Any]:
    """All numbers, as in published.json. Accuracies are lists of the two fields of `PaperValue`."""
    found: dict[str, Any] = json.loads((files("cawn.paper") / "published.json").read_text(encoding="utf-8"))
    return found


@cache
def _texts() -> dict[str, list[str]]:
    """The paragraphs of texts.md by heading."""
    text = (files("cawn.paper") / "texts.md").read_text(encoding="utf-8")
    parts = (part.split("\n\n") for part in text.removeprefix("# ").split("\n\n# "))
    return {name: [" ".join(paragraph.split()) for paragraph in some] for name, *some in parts}


def paragraphs(name: str) -> list[str]:
    """What the tables of an experiment mean, as Markdown."""
    return list(_texts()[name])


def paper_value(metric: Metric, network: str, method: str, test: str) -> PaperValue | None:
    """A cell of Table 2 (AUC) or Table 6 (AP); None if the paper does not have it.

    Args:
        method: As in the paper: "CAW-N-mean", "TGAT", ...; or "best", the better of the two variants of CAW-N.
        test: "new-new", "new-old" or "transductive".
    """
    cells = published()[metric].get(network, {})
    if method == "best":
        return max(filter(None, (paper_value(metric, network, name, test) for name in CAWN)), default=None)
    found = cells.get(method, {}).get(test)
    return None if found is None else PaperValue(*found)
