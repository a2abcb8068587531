"""Results that were never measured, for tests of tables."""

from typing import Any

from cawn.learn.results import Results


def a_test(ap: float = 0.8, *, seed: int = 0, baselines: Any = None, **changes: Any) -> dict[str, Any]:
    """A test of the system "a" as in results.json, whose AUC is its AP, and whose MRR is half of it."""
    figures = {"auc": ap, "ap": ap} | ({"mrr": ap / 2} if changes.get("negatives", "random") == "random" else {})
    about = {"system": "a", "task": "transductive", "seed": seed, "links": "all", "negatives": "random"}
    about |= {"protocol": "strict", "clock": "strict", "count": 9, "fallback": 0.0, "split": "d1", "digest": "d"}
    return about | {"model": figures, "baselines": baselines or {}} | changes


def results(*tests: dict[str, Any]) -> Results:
    return Results(tests)
