"""Statistics of networks, counted by hand, and beside those of the paper."""

from typing import Any

import pytest

import cawn
from cawn.paper.networks import Networks, statistics
from cawn.paper.results import Result
from networks import random_events
from paper_results import gather, result, searched


def value(**changes: Any) -> dict[str, Any]:
    return statistics(random_events(0)) | changes


def show(*more: Result, **networks: dict[str, Any]) -> Any:
    measured = [result("statistics", "statistics", found, {}, name) for name, found in networks.items()]
    return Networks().show(gather(*measured, *more))


def test_counted_by_hand() -> None:
    src = [0, 0, 1, 0, 0, 2, 0, 1, 0, 3]
    dst = [1, 1, 0, 2, 2, 0, 1, 2, 3, 0]
    t = [0, 0, 10, 20, 30, 30, 40, 50, 86400, 86410]  # 7 training links, 1 for validation, 2 test links
    found = statistics(cawn.Events(src, dst, t, num_nodes=9))
    assert (found["nodes"], found["links"], found["seconds"], found["distinct_times"]) == (4, 10, 86410.0, 8)
    assert found["intensity"] == pytest.approx(2 * 10 / (4 * 86410))
    assert not found["bipartite"]
    assert found["ties"] == pytest.approx(4 / 10)
    assert found["identical"] == pytest.approx(1 / 10)
    assert found["repeats_directed"] == pytest.approx(3 / 10)
    assert found["repeats_undirected"] == pytest.approx(6 / 10)
    assert (found["surprise"], found["unseen"]) == (1.0, 1.0)


def test_test_links_that_were_seen() -> None:
    src, dst = [0, 1] * 10, [2, 3] * 10
    found = statistics(cawn.Events(src, dst, list(range(20))))
    assert (found["surprise"], found["unseen"]) == (0.0, 0.0)
    assert found["bipartite"]
    swapped = statistics(cawn.Events([*src[:-1], dst[-1]], [*dst[:-1], src[-1]], list(range(20))))
    assert (swapped["surprise"], swapped["unseen"]) == (pytest.approx(1 / 3), 0.0)  # pairs are directed


def test_every_network_has_a_row() -> None:
    section = show(uci=value())
    table = section.tables[0]
    assert [row[0] for row in table.rows[:6]] == ["Reddit", "Wikipedia", "MOOC", "Social Evolution", "Enron", "UCI"]
    assert table.rows[0][1:] == ["(10,985)", "(672,447)", "(172)", "(172)", "(4.57e-05)", "", ""]
    assert table.rows[5][2] == "60<br>(59,835)"
    assert all(cell == "" for cell in section.tables[1].rows[0][1:])
    assert len(section.tables) == 2  # without a grid search there is no best alpha


def test_differences_from_the_paper_are_said() -> None:
    mooc = value(nodes=7144, intensity=4.48e-5) | {"link attributes": 0}
    uci = value(nodes=1899, links=59835, intensity=3.59e-6, seconds=17555000.0)
    text = " ".join(show(mooc=mooc, uci=uci).text)
    assert "MOOC: the paper counts one node more, the id 0, which has no links." in text
    assert "MOOC: our copy lacks link attributes." in text
    assert (
        "UCI: the paper's τ is 10 times ours; by its formula, the links would span 20 days, but they span 203." in text
    )
    assert "MOOC: the paper's τ" not in text


@pytest.mark.parametrize(
    ("alpha", "claim"),
    [
        (2e-6, "is confirmed: within a factor of 2 of 5 are 1 of 1 ratio;"),
        (1e-7, "is not confirmed: within a factor of 2 of 5 are 0 of 1 ratio;"),
    ],
)
def test_tau_over_alpha(alpha: float, claim: str) -> None:
    section = show(searched(alpha=alpha), uci=value(intensity=1e-5))
    assert section.tables[2].rows == [["UCI", f"{1e-5 / alpha:.3g} (α = {alpha:.2g})", ""]]
    assert claim in section.text[-1]


def test_nothing_to_show() -> None:
    assert Networks().show(gather()) is None
