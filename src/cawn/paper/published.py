"""The figures of the paper: its Tables 1 to 4 and 6, and the tables of TGN in its appendix.

Figures without printed numbers (sensitivity, complexity, tree, shapes) are described in words by their experiments.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Literal

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


@cache
def published() -> dict[str, Any]:
    """All figures, as in published.json. Accuracies are percentages with half of their 95 % confidence intervals."""
    found: dict[str, Any] = json.loads((files("cawn.paper") / "published.json").read_text(encoding="utf-8"))
    return found


def figure(metric: Metric, network: str, method: str, test: str) -> tuple[float, float] | None:
    """A cell of Table 2 (AUC) or Table 6 (AP), in percent, with half of its interval; None if the paper has none.

    Args:
        method: As in the paper: "CAW-N-mean", "TGAT", ...; or "best", the better of the two variants of CAW-N.
        test: "new-new", "new-old" or "transductive".
    """
    cells = published()[metric].get(network, {})
    if method == "best":
        return max((figure(metric, network, name, test) or (0.0, 0.0) for name in CAWN if name in cells), default=None)
    found = cells.get(method, {}).get(test)
    return None if found is None else (found[0], found[1])
