"""The tables of a comparison, and its plot."""

import json
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest

from cawn.studies import plot
from cawn.studies.tables import Comparison
from small_results import a_test, results

ABOUT = {
    "data": {"links": 5_000, "nodes": 70},
    "digest": "abc",
    "clock": "strict",
    "protocol": "strict",
    "negatives": ["random", "historical"],
    "seeds": [0, 1],
    "splits": {"transductive": ["d1", "d2"]},
    "device": "CPU",
    "jobs": 2,
    "settings": {"rates": {"epochs": 3}},
    "versions": {"cawn": "1", "torch": "2"},
}


def cost(system: str, seconds: float) -> dict:
    figures = {
        "links_per_second": 1234.5,
        "pairs_per_second": 10_000.0,
        "weights": 1_000.0,
        "peak_memory": 2_500_000_000,
    }
    return {
        "task": "transductive",
        "system": system,
        "epochs": 2.0,
        "seconds": seconds,
        "seconds_per_epoch": seconds / 2,
    } | figures


@pytest.fixture
def comparison() -> Comparison:
    tests = [
        a_test(ap - (kind == "historical") / 4 + noise, seed=seed, negatives=kind, system=system)
        for system, ap in (("cawn", 0.8), ("rates", 0.9), ("recency", 0.95))
        for kind in ("random", "historical")
        for seed, noise in enumerate((0.01, -0.01))
    ]
    failed = [{"system": "d", "task": "transductive", "seed": 1, "reason": "out of memory"}]
    return Comparison(ABOUT, results(*tests), [cost("rates", 300), cost("cawn", 4.2)], failed)


def test_the_best_are_bold_and_the_untrained_last(comparison: Comparison) -> None:
    headings, rows = comparison.accuracy_table("transductive", "all")
    assert headings == ["system", "AP random", "AP historical", "AUC random", "AUC historical", "MRR random", "seeds"]
    assert [row[0] for row in rows] == ["rates", "cawn", "recency (untrained)"]
    both = ["80.00 ± 12.71", "55.00 ± 12.71"]
    assert rows[1] == ["cawn", *both, *both, "40.00 ± 6.35", "2"]
    assert rows[2][1] == "**95.00 ± 12.71**"


def test_markdown(comparison: Comparison, tmp_path: Path) -> None:
    comparison.write(tmp_path)
    text = (tmp_path / "comparison.md").read_text()
    assert json.loads((tmp_path / "comparison.json").read_text()) == comparison.to_dict()
    for line in (
        "- Data: 5,000 links, 70 nodes; digest `abc`",
        "- Clock: strict (links at earlier times are known)",
        "- Protocol: strict",
        "- Seeds (split, negatives, weights): 0, 1",
        "- Split digests, transductive: `d1`, `d2`",
        "- Device: CPU; up to 2 runs at a time",
        "- Settings of rates: epochs=3",
        "| cawn | 4 s | 2.1 | 2 | 1,234 | 10,000 | 2.50 GB | 1,000 |",
        "| rates | 5 min | 150 | 2 | 1,234 | 10,000 | 2.50 GB | 1,000 |",
        "- d, transductive, seed 1: out of memory",
    ):
        assert f"{line}\n" in text


def test_the_plot(comparison: Comparison, tmp_path: Path, monkeypatch) -> None:
    plot.draw(comparison, tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text()
    assert fromstring(text).tag.endswith("svg")
    for word in (
        "training time, s",
        "scoring, pairs/s",
        "random negatives",
        "historical negatives",
        "best untrained: recency",
    ):
        assert word in text
    assert "prefers-color-scheme:dark" in text
    monkeypatch.setattr(plot, "can_draw", lambda: False)
    plot.draw(comparison, tmp_path / "none.svg")
    assert not (tmp_path / "none.svg").exists()
