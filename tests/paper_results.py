"""Results of `cawn paper`, made by hand."""

from pathlib import Path
from typing import Any

from cawn.paper.results import Result, ResultStore


def row(ap: float, links: str = "all", negatives: str = "random", clock: str = "strict", **more: Any) -> dict[str, Any]:
    """A row of a training; all its metrics are equal."""
    figures = dict.fromkeys(("auc", "ap", "auc_batch30", "ap_batch30"), ap)
    return {"links": links, "negatives": negatives, "clock": clock, "count": 10, "split": "s", **figures} | more


def trained(label: str, *rows: dict[str, Any], network: str = "uci", **settings: Any) -> Result:
    """A training with these rows; `settings` change its settings."""
    all_settings = {
        "task": "transductive",
        "seed": 0,
        "protocol": "strict",
        "ties": "strict",
        "config": {"negatives": "random"},
    } | settings
    role = f"{label}, {all_settings['task']}, seed {all_settings['seed']}"
    return result("training", role, {"rows": list(rows)}, all_settings, network)


def result(kind: str, label: str, value: Any, settings: dict[str, Any], network: str = "uci") -> Result:
    return Result(
        key=f"{kind}, {label}",
        network=network,
        kind=kind,
        settings=settings,
        labels=[label],
        value=value,
        seconds=1.0,
        command="cawn paper",
        versions={},
        device="CPU",
        links=f"links of {network}",
    )


def searched(network: str = "uci", **best: Any) -> Result:
    """A trial of the grid search of CAW-N-mean."""
    return result(
        "trial", "grid paper-mean", {"validation": [0.9]}, {"preset": "paper-mean", "searched": best}, network
    )


def gather(*results: Result) -> ResultStore:
    """Results that are not in any folder."""
    found = ResultStore(Path("none"))
    for one in results:
        found.found.setdefault(one.network, {})[one.key] = one
    return found
