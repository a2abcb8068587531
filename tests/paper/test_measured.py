"""What is measured: trainings and their tests, statistics and ties by hand, shapes, times and transfer, all tiny."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cawn
from cawn.caw.features import WALK_SEED
from cawn.data import laws
from cawn.data.decays import time_unit
from cawn.explain.distinct_walks import distinct_walks, format_shape
from cawn.explain.law import LawLinks
from cawn.index.features import NO_SEQUENCES
from cawn.learn.shared_links import share_links
from cawn.learn.splits import split
from cawn.paper import complexity, shapes
from cawn.paper.clocks import measure_ties, shares_of_ties
from cawn.paper.complexity import Complexity, fit, shortest
from cawn.paper.curves import Sensitivity, tau_of
from cawn.paper.experiments import Request
from cawn.paper.measurements import Measurement, Work, config_of, train_and_test, training
from cawn.paper.networks import statistics
from cawn.paper.records import Records
from cawn.paper.shapes import Shapes, WalkGroups, discriminatory_power, shape_table, walk_groups
from cawn.paper.transfer import Transfer, measure, transferred_facts
from cawn.systems.rates import RatesSettings
from ctrl_c import stopped_after
from networks import random_events, with_columns
from paper_results import gather, result
from small_explanation import M, random_pairs
from tolerances import assert_same_scores

SMALL = laws.triadic_closure(30, 400, seed=0).events


def work(folder: Path, settings: Any, **networks: cawn.Events) -> Work:
    """A measurement on the first of these networks."""
    place = folder.with_name(f"{folder.name}-links")
    place.mkdir(exist_ok=True)
    links = {name: share_links(place, name, events) for name, events in networks.items()}
    return Work(next(iter(networks)), json.loads(json.dumps(dict(settings))), links, "cpu", 1, folder)


# Trainings


def rates(folder: Path, **more: Any) -> Work:
    config = RatesSettings(epochs=2, batch_size=64)
    return work(folder, training("uci", config, task="inductive", seed=0, label="rates", **more).settings, uci=SMALL)


def test_settings_survive_json() -> None:
    config = cawn.Config(alpha=(1e-5, 1e-6), num_walks=4)
    one = training("uci", config, task="inductive", seed=3, label="CAW-N")
    assert one.label == "CAW-N, inductive, seed 3"
    assert config_of(json.loads(json.dumps(dict(one.settings)))) == config


def test_a_training_and_its_evaluation(tmp_path: Path) -> None:
    reports: list[dict[str, float]] = []
    clocks = ("strict", "event", "batch:200")
    found = train_and_test(rates(tmp_path / "run", clocks=clocks, baselines=True), reports.append)
    json.dumps(found)
    assert {(row["links"], row["clock"]) for row in found["rows"]} >= {
        (kind, clock) for kind in ("new-old", "all") for clock in clocks
    }
    assert "recency" in found["rows"][0]["baselines"]
    assert (found["epochs"], len(found["validation"])) == (2, 2)
    assert found["best_epoch"] == 1 + found["validation"].index(max(found["validation"]))
    shares = [value["done"] for value in reports]
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] <= 1


def test_an_interrupted_training_resumes_to_the_same_result(tmp_path: Path) -> None:
    whole = train_and_test(rates(tmp_path / "whole"), lambda _: None)
    assert all("baselines" not in row for row in whole["rows"])
    with stopped_after(3):
        train_and_test(rates(tmp_path / "stopped"), lambda _: None)
    resumed = train_and_test(rates(tmp_path / "stopped"), lambda _: None)
    assert [resumed[name] for name in ("rows", "validation")] == [whole[name] for name in ("rows", "validation")]


def test_tau_is_that_of_the_training_links(tmp_path: Path) -> None:
    changes = {"epochs": 1, "dim": 8, "num_walks": 4, "batch_size": 128, "alpha": "paper"}
    first, *_ = Sensitivity().plan(Request({"uci": SMALL}, 1, gather(), changes))
    value = train_and_test(work(tmp_path / "run", first.settings, uci=SMALL), lambda _: None)
    made = result("training", first.label, value, dict(first.settings))
    tau = SMALL[split(SMALL, "inductive", seed=0).train].intensity
    assert tau_of([made]) == pytest.approx(tau)
    section = Sensitivity().show(Records(gather(made)))
    assert section is not None
    assert section.tables[1].rows[0][:2] == [f"{tau / 5:.3g}", "5"]


# Networks and ties


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


def test_ties_of_links_written_by_hand() -> None:
    src = np.array([0, 0, 1, 0, 2, 2, 3])
    dst = np.array([1, 1, 2, 2, 3, 3, 4])
    t = np.array([1, 1, 1, 2, 3, 3, 3])
    shares = shares_of_ties(cawn.Events(src, dst, t))
    assert shares["simultaneous"].tolist() == [True, True, True, False, True, True, True]
    assert shares["repeated"].tolist() == [False, True, False, False, False, True, False]
    # The last time of nodes 0 and 1 is 2 and 1, that of 2, 3 and 4 is 3. Node 1 occurs in rows 0 to 2 at time 1.
    assert shares["last"].tolist() == [False, True, True, False, False, True, True]


def test_ties_agree_with_a_slow_count() -> None:
    events = random_events(3, num_links=80, span=12)
    links = list(zip(events.src.tolist(), events.dst.tolist(), events.t.tolist(), strict=True))
    last = {node: max(t for u, v, t in links if node in (u, v)) for u, v, _ in links for node in (u, v)}
    shares = shares_of_ties(events)
    for i, (u, v, t) in enumerate(links):
        assert shares["simultaneous"][i] == any(j != i and links[j][2] == t for j in range(len(links)))
        assert shares["repeated"][i] == ((u, v, t) in links[:i])
        assert shares["last"][i] == any(
            t == last[node] and any(link[2] == t and node in link[:2] for link in links[:i]) for node in (u, v)
        )


def test_ties_are_counted_for_every_split(tmp_path: Path) -> None:
    events = random_events(1, num_nodes=40, num_links=300, span=100)
    settings = {"seeds": {"transductive": 2, "inductive": 2}}
    rows = measure_ties(work(tmp_path / "run", settings, uci=events), lambda _: None)
    places = [(one["task"], one["seed"], one["links"]) for one in rows]
    assert places[0] == ("transductive", 0, "all")
    assert {place[:2] for place in places[1:]} == {("inductive", 0), ("inductive", 1)}


# Times


SIZES = np.arange(1, 11) * 1000


def test_linear_times() -> None:
    found = fit(SIZES, 2e-6 * SIZES)
    assert (found.r2, found.exponent) == (pytest.approx(1), pytest.approx(1))
    assert (found.slope, found.constant) == (pytest.approx(2e-6), pytest.approx(0, abs=1e-12))
    assert found.slope_half == pytest.approx(0, abs=1e-12)
    assert found.linear


@pytest.mark.parametrize("exponent", [0.5, 1.3, 2.0])
def test_other_powers_are_not_called_linear(exponent: float) -> None:
    found = fit(SIZES, 1e-6 * SIZES**exponent)
    assert found.exponent == pytest.approx(exponent)
    assert not found.linear


def test_a_line_by_hand() -> None:
    found = fit([1, 2, 3], [1, 2, 4])
    assert (found.slope, found.constant) == (pytest.approx(1.5), pytest.approx(-2 / 3))
    assert found.r2 == pytest.approx(1 - (1 / 6) / (14 / 3))
    assert found.slope_half == pytest.approx(12.706 * np.sqrt(1 / 12))


def test_the_shortest_time_of_each_size_counts() -> None:
    def repetition(factor: float) -> Any:
        rows = [{"links": int(n), "draws": 1, "walks": n, "epoch": factor * n, "index": n} for n in SIZES]
        return result("complexity", "complexity, cpu", {"rows": rows}, {})

    rows = shortest([repetition(2.0), repetition(3.0)])
    assert [row["links"] for row in rows] == SIZES.tolist()
    assert rows[-1]["epoch"] == 2.0 * SIZES[-1]


def test_measured_sizes(tmp_path: Path) -> None:
    events = random_events(0, num_links=200, span=1000)
    request = Request({"uci": events}, 2, gather(), {"num_walks": 4, "dim": 4})
    settings = dict(Complexity().plan(request)[0].settings) | {"sizes": 4}
    reports: list[dict[str, float]] = []
    found = complexity.measure(work(tmp_path / "run", settings, uci=events), reports.append)
    links = [row["links"] for row in found["rows"]]
    assert links == sorted(links)
    assert len(set(links)) == 4
    for row in found["rows"]:
        assert row["links"] < row["draws"] <= 3 * row["links"] * 4 * 2  # source, destination, negative; M; m
    assert reports[-1] == {"done": 1.0}


# Shapes


def power(shape: list[int], positive: list[bool], fold: list[int]) -> float:
    counts = np.ones(len(shape))
    return discriminatory_power(np.array(shape), np.array(positive), np.array(fold), counts)[0]


def test_power_by_hand() -> None:
    positive, fold = [True, False] * 2, [0, 0, 1, 1]
    assert power([0, 1, 0, 1], positive, fold) == 1.0
    assert power([0, 0, 0, 0], positive, fold) == 0.0
    assert power([0, 1, 1, 0], positive, fold) == -1.0  # what one part says, the other contradicts
    # Positives: three quarters shape 0; negatives: one quarter.
    shape = [0, 0, 0, 1, 0, 1, 1, 1] * 2
    assert power(shape, ([True] * 4 + [False] * 4) * 2, [0] * 8 + [1] * 8) == pytest.approx(0.5)


def test_rare_shapes_have_no_power_by_chance() -> None:
    """The plain distance of 1,000 walks each over 400 equally frequent shapes is about 0.35 though the law is one."""
    rng = np.random.default_rng(0)
    n, shapes = 2_000, 400
    positive, fold = np.arange(n) % 2 == 0, np.arange(n) // 2 % 10
    shape = rng.integers(0, shapes, n)
    found, half = discriminatory_power(shape, positive, fold, np.ones(n))
    assert abs(found) < 0.1
    assert abs(found) < 2 * half


def test_scores_of_walks_add_up_to_the_logits() -> None:
    """The mean of the scores of the 2M walks of a pair, and what it has without walks, is its logit."""
    changes = {"head": "linear", "sides": "joint", "rates": False, "directed": False, **NO_SEQUENCES}
    scorer, model, (src, dst, t) = random_pairs(**changes)
    negative, length = np.roll(dst, 1), scorer.config.length
    groups = list(walk_groups(scorer, LawLinks(src, dst, negative, t, np.ones(10, bool))))
    found = shape_table(groups, len(src), length, 2 * M)
    assert [some.positive for some in groups] == [True, False]
    for some, other in zip(groups, (dst, negative), strict=True):
        assert np.bincount(some.link, weights=some.count).tolist() == [2 * M] * len(src)
        batch = scorer.batcher.trace(src, other, t, seed=WALK_SEED)
        total = np.bincount(some.link, weights=some.contribution, minlength=len(src))
        assert_same_scores(total + model.head.bias.item(), scorer.logits_of(batch))
        names = {format_shape(shape, length) for shape in distinct_walks(batch).shapes}
        assert {one["shape"] for one in found["shapes"]} <= names or not some.positive
    scores = [one["score"] for one in found["shapes"]]
    assert scores == sorted(scores, reverse=True)


def test_scores_and_occurrences_by_hand() -> None:
    """Five positives have shape 1 -> 2 with 2 of 4 walks each; one negative has it; all have shape 1."""
    links, length = 5, 1
    both = np.tile([[1, 0], [1, 2]], (links, 1))
    pairs = np.repeat(np.arange(links), 2)
    positive = WalkGroups(True, pairs, both, np.tile([-0.5, 1.0], links), np.full(2 * links, 2.0))
    single = np.array([[1, 0]] * links + [[1, 2]])
    count, terms = np.array([3.0, 4, 4, 4, 4, 1]), np.array([-0.75, -1, -1, -1, -1, 0.5])
    negative = WalkGroups(False, np.array([0, 1, 2, 3, 4, 0]), single, terms, count)
    found = shape_table([positive, negative], links, length, 4)
    high, low = found["shapes"]
    assert (high["shape"], low["shape"]) == ("0 → 1", "0")
    assert (high["score"], low["score"]) == (pytest.approx(2.0), pytest.approx(4 * (-2.5 - 4.75) / 29))
    assert (high["with_positives"], high["with_negatives"]) == (1.0, pytest.approx(0.2))
    assert (high["steps"], low["steps"], high["rank"], low["rank"]) == (1, 0, 1, 2)
    assert (found["ranked"], found["rare"], found["printed"]) == (2, 0, None)


@pytest.mark.parametrize("identity", [0, 1], ids=["caw", "aw"])
def test_shapes_of_a_trained_model(tmp_path: Path, identity: int) -> None:
    rng = np.random.default_rng(0)
    events = cawn.Events(rng.integers(0, 6, 200), rng.integers(6, 12, 200), np.arange(200))
    changes = {"num_walks": 4, "dim": 4, "epochs": 1, "alpha": 0.01}
    settings = Shapes().plan(Request({"uci": events}, 1, gather(), changes))[identity].settings
    found = shapes.measure(work(tmp_path / "run", settings, uci=events), lambda _: None)
    assert 0 < found["pairs"] <= 60
    assert found["shapes"]
    if identity == 1:  # a walk in a bipartite network visits its two sides in turn
        orders = {"0 → 1 → 0 → 1", "0 → 1 → 0 → 2", "0 → 1 → 2 → 1", "0 → 1 → 2 → 3"}
        assert {one["shape"] for one in found["shapes"] if one["steps"] == 3} == orders
    assert found["rows"][0]["links"] == "all"


# Transfer


TINY = {"alpha": "ladder", "num_walks": 8, "dim": 8, "frequencies": 4, "epochs": 1, "hidden": 8}
NETWORKS = {
    "uci": random_events(1, num_nodes=20, num_links=200, span=200),
    "enron": random_events(2, num_nodes=30, num_links=150, span=20_000),
}


def planned(system: str = "default", networks: dict[str, cawn.Events] = NETWORKS) -> list[Measurement]:
    return Transfer().plan(Request(networks, 1, gather(), TINY, (system,)))


def measured(measurement: Measurement, folder: Path, networks: dict[str, cawn.Events] = NETWORKS) -> dict[str, Any]:
    others = {name: networks[name] for name in measurement.networks}
    made = measure if measurement.kind == "transfer" else train_and_test
    return made(work(folder, measurement.settings, **others), lambda _: None)


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
