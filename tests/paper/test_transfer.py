"""Transfer: a tiny training tested on two other networks; the section on results made by hand."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import cawn
from cawn.data.decays import time_unit
from cawn.learn.shared_links import share_links
from cawn.learn.splits import split
from cawn.paper.experiments import Request, Section
from cawn.paper.measurements import Measurement, Task
from cawn.paper.results import Result
from cawn.paper.training import measure as train
from cawn.paper.training import training
from cawn.paper.transfer import Transfer, by_test_network, measure, transferred_facts
from networks import random_events, with_columns
from paper_results import gather, result

TINY = {"alpha": "ladder", "num_walks": 8, "dim": 8, "frequencies": 4, "epochs": 1, "hidden": 8}
NETWORKS = {
    "uci": random_events(1, num_nodes=20, num_links=200, span=200),
    "enron": random_events(2, num_nodes=30, num_links=150, span=20_000),
}


def planned(system: str = "default", networks: dict[str, cawn.Events] = NETWORKS) -> list[Measurement]:
    return Transfer().plan(Request(networks, 1, gather(), TINY, (system,)))


def measured(measurement: Measurement, folder: Path, networks: dict[str, cawn.Events] = NETWORKS) -> dict[str, Any]:
    with TemporaryDirectory() as place:
        links = {name: share_links(place, name, events) for name, events in networks.items()}
        task = Task(measurement.network, dict(measurement.settings), links, "cpu", 1, folder)
        return measure(task, lambda _: None) if measurement.kind == "transfer" else train(task, lambda _: None)


@pytest.fixture(scope="module")
def value(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return measured(planned()[0], tmp_path_factory.mktemp("transfer") / "run")


def rows_of(value: dict[str, Any], network: str, scorer: str) -> list[dict[str, Any]]:
    return [one for one in value["tests"][network]["rows"] if one["scorer"] == scorer]


def test_rows_by_network_scorer_and_negatives(value: dict[str, Any]) -> None:
    scorers = {"uci": ["trained", "recency"], "enron": ["rescaled", "unchanged", "recency"]}
    assert list(value["tests"]) == list(scorers)
    for network, names in scorers.items():
        rows = value["tests"][network]["rows"]
        assert {one["scorer"] for one in rows} == set(names)
        assert all(0 < one["ap"] <= 1 for one in rows)
        for name in names:
            kinds = [one["negatives"] for one in rows_of(value, network, name)]
            assert kinds == ["random", "historical", "inductive"]


def test_where_it_was_trained_it_is_the_usual_training(value: dict[str, Any], tmp_path: Path) -> None:
    settings = planned()[0].settings
    config = cawn.Config.from_dict(settings["config"])
    kinds = tuple(settings["negatives"])
    alone = training("uci", config, task="transductive", seed=0, label="alone", negatives=kinds)
    usual = measured(alone, tmp_path / "run")["rows"]
    test = value["tests"]["uci"]
    for ours, other in zip(rows_of(value, "uci", "trained"), usual, strict=True):
        assert (ours["ap"], ours["auc"]) == (other["ap"], other["auc"])
        assert (test["split"], test["negatives"][other["negatives"]]) == (other["split"], other["digest"])


def test_the_rule_is_the_same_wherever_a_system_was_trained(value: dict[str, Any], tmp_path: Path) -> None:
    other = measured(planned("rates")[1], tmp_path / "run")
    assert list(other["tests"]) == ["enron", "uci"]
    for network in NETWORKS:
        assert rows_of(value, network, "recency") == rows_of(other, network, "recency")


def test_a_stretched_copy_of_the_network_is_no_other_network(tmp_path: Path) -> None:
    """Decays and unit follow the time scale: the same links in another unit of time have the same scores."""
    uci = NETWORKS["uci"]
    networks = {"uci": uci, "enron": cawn.Events(uci.src, uci.dst, uci.t * 1024, num_nodes=uci.num_nodes)}
    value = measured(planned("rates", networks)[0], tmp_path / "run", networks)
    here, there, unchanged = (
        [one["ap"] for one in rows_of(value, network, scorer)]
        for network, scorer in (("uci", "trained"), ("enron", "rescaled"), ("enron", "unchanged"))
    )
    assert there == pytest.approx(here, abs=1e-4)
    assert unchanged != pytest.approx(here, abs=1e-2)


def test_decays_keep_their_ratio_to_tau() -> None:
    uci, enron = NETWORKS.values()
    config = cawn.Config(alpha=(1e-3, 1e-2), num_walks=8, dim=8, frequencies=4, epochs=1)
    run = cawn.train(uci, config, task=cawn.Task(negatives=("random",), baselines=False), quiet=True, device="cpu")
    facts = transferred_facts(run, enron)
    assert facts["unchanged"] == run.facts
    train = [events[split(events, "transductive", seed=0).train] for events in (uci, enron)]
    assert np.array(facts["rescaled"]["alpha"]) / train[1].intensity == pytest.approx(
        np.array(run.facts["alpha"]) / train[0].intensity
    )
    assert set(facts["rescaled"]) == {"alpha"}  # all others are derived by the system
    assert run.facts["unit"] == time_unit(train[0])


def test_attributes_are_not_used(tmp_path: Path) -> None:
    with_msg = {name: with_columns(one, msg=np.ones((len(one), 2))) for name, one in NETWORKS.items()}
    assert all(one.settings["config"]["attributes"] is False for one in planned(networks=with_msg))
    plain = measured(planned("rates")[0], tmp_path / "a")
    value = measured(planned("rates", with_msg)[0], tmp_path / "b", with_msg)
    for network in NETWORKS:
        assert value["tests"][network]["rows"] == plain["tests"][network]["rows"]


def test_the_plan() -> None:
    request = Request(NETWORKS, 2, gather(), TINY)
    found = Transfer().plan(request)
    assert len(found) == 2 * 4 * 2
    assert found[0].label == "transfer, CAW-N-mean, transductive, seed 0"
    assert found[0].networks == ("uci", "enron")
    assert "default" in Transfer.systems
    assert "vgrnn" not in Transfer.systems  # it has a weight for each node
    with pytest.raises(cawn.QueryError, match="at least two datasets"):
        planned(networks={"uci": NETWORKS["uci"]})


# The section.


def transferred(label: str, start: str, by_test: dict[str, tuple[float, ...]], seed: int = 0, **more: Any) -> Result:
    """A result with APs by test network: trained there or rescaled, unchanged, recency; historical ones half of it."""
    tests = {}
    for test, (model, *unchanged, rule) in by_test.items():
        figures = {"trained" if test == start else "rescaled": model, "recency": rule}
        figures |= {"unchanged": unchanged[0]} if unchanged else {}
        rows = [
            {"scorer": scorer, "negatives": kind, "ap": ap * factor}
            for scorer, ap in figures.items()
            for kind, factor in (("random", 1.0), ("historical", 0.5))
        ]
        tests[test] = {"links": f"links of {test}", "split": "s", "rows": rows} | more
    settings: dict[str, Any] = {"task": "transductive", "seed": seed, "protocol": "strict", "ties": "strict"}
    settings["config"] = {"negatives": "mixed"}
    return result("transfer", f"transfer, {label}, transductive, seed {seed}", {"tests": tests}, settings, start)


def show(*results: Result) -> Section:
    section = Transfer().show(gather(*results))
    assert section is not None
    return section


def test_a_matrix_of_networks() -> None:
    section = show(
        transferred("rates", "uci", {"uci": (0.98, 0.9), "enron": (0.88, 0.86, 0.8)}),
        transferred("rates", "enron", {"enron": (0.9, 0.8), "uci": (0.94, 0.95, 0.9)}),
    )
    table = section.tables[0]
    assert table.title == "rates, random negatives"
    assert table.headings[1:] == ["Enron", "UCI"]
    assert table.rows == [
        ["Enron", "90.00", "94.00"],
        ["UCI", "88.00", "98.00"],
        ["recency (untrained)", "80.00", "90.00"],
    ]
    assert section.tables[1].rows[0] == ["Enron", "45.00", "47.00"]
    assert section.text[1] == "Trained with mixed negatives (a quarter are earlier destinations of the source): rates."
    text = section.text[2]
    assert "is 91.00 after transfer, 94.00 after training on the test network and 85.00 for recency" in text
    assert "transfer closes 67 % of the gap of 9.00 points between the latter two." in text
    assert "Transfer is better than recency in 2 of 2 pairs." in text
    assert "changes AP by +0.50 points on average and raises it in 1 of 2 pairs" in text
    assert "best network to train on is UCI (-2.00 points on average compared with training on the test" in text
    assert "the worst is Enron (-4.00)" in text


@pytest.mark.parametrize(
    ("moved", "there", "words"),
    [
        (0.7, 0.9, "transfer closes none of the gap of 10.00 points"),
        (0.7, 0.75, "training on the test network is not better than recency"),
        (0.92, 0.9, "transfer closes 120 % of the gap of 10.00 points"),
    ],
)
def test_the_words_follow_the_numbers(moved: float, there: float, words: str) -> None:
    section = show(
        transferred("rates", "uci", {"uci": (0.98, 0.9), "enron": (moved, 0.86, 0.8)}),
        transferred("rates", "enron", {"enron": (there, 0.8)}),
    )
    assert words in section.text[2]
    assert f"is better than recency in {int(moved > 0.8)} of 1 pair." in section.text[2]


def test_systems_are_compared_on_common_pairs() -> None:
    results = [
        transferred(label, start, {start: (0.98, 0.9), test: (moved, 0.8, 0.8)})
        for label, moved in (("rates", 0.85), ("CAW-N default", 0.9))
        for start, test in (("uci", "enron"), ("enron", "uci"))
    ]
    text = "by AP after transfer: against random negatives CAW-N default 90.00, rates 85.00 (mean over 2 pairs)"
    assert text in show(*results).text[-1]
    assert not any("Systems ranked by AP" in line for line in show(*results[:2]).text)


def test_an_unfinished_matrix_is_shown() -> None:
    section = show(transferred("rates", "uci", {"uci": (0.98, 0.9), "enron": (0.9, 0.86, 0.8)}))
    assert section.tables[0].rows == [
        ["Enron", "", ""],
        ["UCI", "90.00", "98.00"],
        ["recency (untrained)", "80.00", "90.00"],
    ]
    assert section.text[2] == "**rates.** No pair of networks has been measured completely."
    assert Transfer().show(gather()) is None


def test_different_splits_are_refused() -> None:
    results = [
        transferred("rates", "uci", {"uci": (0.98, 0.9), "enron": (0.9, 0.86, 0.8)}),
        transferred("rates", "enron", {"enron": (0.9, 0.8)}, split="other"),
    ]
    with pytest.raises(cawn.QueryError, match="different splits"):
        show(*results)


def test_a_result_belongs_to_every_test_network() -> None:
    one = transferred("rates", "uci", {"uci": (0.98, 0.9), "enron": (0.9, 0.86, 0.8)})
    assert [(start, found.network, found.links) for start, found in by_test_network(one)] == [
        ("uci", "uci", "links of uci"),
        ("uci", "enron", "links of enron"),
    ]


def test_the_plot_is_drawn() -> None:
    figures = pytest.importorskip("matplotlib.figure")
    section = show(
        transferred("rates", "uci", {"uci": (0.98, 0.9), "enron": (0.88, 0.86, 0.8)}),
        transferred("rates", "enron", {"enron": (0.9, 0.8), "uci": (0.94, 0.95, 0.9)}),
    )
    figure = figures.Figure()
    section.plots[0].draw(figure)
    assert sorted(text.get_text() for text in figure.axes[0].texts) == ["-2.0", "-4.0"]
