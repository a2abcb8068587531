"""The tables of a comparison, and its plot."""

import json
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest

from cawn.studies import plot
from cawn.studies.tables import Comparison

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
    "settings": {"b": {"epochs": 3}},
    "versions": {"cawn": "1", "torch": "2"},
}


def accuracy(system: str, negatives: str, ap: float, *, trained: bool = True) -> dict:
    where = {"task": "transductive", "links": "all", "negatives": negatives, "system": system}
    mrr = [ap / 2, 0.01] if negatives == "random" else None
    return where | {"trained": trained, "seeds": [0, 1], "count": 9.0, "ap": [ap, 0.01], "auc": [ap, None], "mrr": mrr}


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
    rows = [
        accuracy(system, kind, ap - (kind == "historical") / 4, trained=system != "c")
        for system, ap in (("a", 0.8), ("b", 0.9), ("c", 0.95))
        for kind in ("random", "historical")
    ]
    failed = [{"system": "d", "task": "transductive", "seed": 1, "reason": "out of memory"}]
    return Comparison(ABOUT, rows, [cost("b", 300), cost("a", 4.2)], failed)


def test_the_best_are_bold_and_the_untrained_last(comparison: Comparison) -> None:
    headings, rows = comparison.accuracy_table("transductive", "all")
    assert headings == ["system", "AP random", "AP historical", "AUC random", "AUC historical", "MRR random", "seeds"]
    assert [row[0] for row in rows] == ["b", "a", "c (untrained)"]
    assert rows[1] == ["a", "80.00 ± 1.00", "55.00 ± 1.00", "80.00", "55.00", "40.00 ± 1.00", "2"]
    assert rows[2][1] == "**95.00 ± 1.00**"


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
        "- Settings of b: epochs=3",
        "| a | 4 s | 2.1 | 2 | 1,234 | 10,000 | 2.50 GB | 1,000 |",
        "| b | 5 min | 150 | 2 | 1,234 | 10,000 | 2.50 GB | 1,000 |",
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
        "best untrained: c",
    ):
        assert word in text
    assert "prefers-color-scheme:dark" in text
    monkeypatch.setattr(plot, "can_draw", lambda: False)
    plot.draw(comparison, tmp_path / "none.svg")
    assert not (tmp_path / "none.svg").exists()
