"""What the systems on snapshots share: the choice of the granularity, the scorer, tables of nodes, targets."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

import cawn
from cawn.learn.reporting import Progress
from cawn.rivals.snapshots import system as shared
from cawn.rivals.snapshots.system import CANDIDATES
from rivals.snapshots.snapshot_trainers import network, trainer
from systems.small_settings import small
from tolerances import assert_same_scores

NAMES = ["evolvegcn", "vgrnn", "dynaernn"]
QUIET = {"quiet": True, "device": "cpu"}


@pytest.mark.parametrize("name", NAMES)
def test_one_snapshot_is_one_line(name: str) -> None:
    with pytest.raises(cawn.DataError, match="in one snapshot: give more snapshots or a longer history"):
        cawn.train(network(), small(name, snapshots=1), **QUIET)
    times = np.repeat([0, 1, 2], [90, 15, 15])
    with pytest.raises(cawn.DataError, match="all training links have the same time"):
        cawn.train(cawn.Events(network().src, network().dst, times), small(name), **QUIET)


@pytest.mark.parametrize("name", ["evolvegcn", "dynaernn"])
def test_links_of_the_first_snapshot_cannot_be_predicted(name: str) -> None:
    weight = (network().t <= network().t[0] + 5).astype(float)
    with pytest.raises(cawn.DataError, match="all links to train on are in the first snapshot"):
        trainer(name, network(weight=weight))


def test_the_granularity_is_chosen_on_validation_links(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(shared, "CANDIDATES", (4, 12))
    monkeypatch.setattr(shared, "TRIAL_STEPS", 12)
    said: list[str] = []

    def listen(now: Progress) -> None:
        said.append(now.text)

    config = small("evolvegcn", snapshots=0, epochs=1)
    run = cawn.train(
        network(), config, out=tmp_path / "run", callback=listen, task=cawn.Task(negatives=("random",)), **QUIET
    )
    assert "comparing granularities (4 snapshots, 12 snapshots): 2 short training runs of 12 steps ..." in said
    assert [text for text in said if text.startswith("granularities: ")]
    facts = json.loads((tmp_path / "run" / "run.json").read_text())["facts"]
    assert facts == run.facts
    train = network().t[network().t <= np.quantile(network().t, 0.7, method="lower")]
    assert facts["origin"] == train[0]
    assert facts["span"] in [(train[-1] - train[0]) / 4, (train[-1] - train[0]) / 12]


def test_a_given_granularity_is_not_compared() -> None:
    assert small("vgrnn", snapshots=5).alternatives(network()) is None
    found = small("vgrnn", snapshots=0).alternatives(network())
    assert found is not None
    assert list(found.facts) == [f"{count} snapshots" for count in CANDIDATES]


@pytest.mark.parametrize("name", NAMES)
def test_scorers_follow_the_weights_and_can_be_pickled(name: str) -> None:
    made = trainer(name)
    scorer = made.system.scorer(made.events)
    asked = np.array([0, 1, 2, 3]), np.array([1, 2, 3, 4]), np.array([60, 70, 80, 90])
    before = scorer(*asked)
    assert_same_scores(pickle.loads(pickle.dumps(scorer))(*asked), before)
    with torch.no_grad():
        for weight in made.system.module.parameters():
            weight.mul_(1.5)
    assert np.abs(scorer(*asked) - before).max() > 1e-3
    assert_same_scores(scorer(*asked), made.system.scorer(made.events)(*asked))


def test_the_window_of_a_query_is_all_that_matters() -> None:
    made = trainer("vgrnn")
    scorer, grid = made.system.scorer(made.events), made.system.grid
    t = np.arange(0, 120)
    scores, window = scorer(np.zeros(120, int), np.ones(120, int), t), grid.windows(t)
    for value in np.unique(window):
        assert np.ptp(scores[window == value]) < 1e-6
    assert len(np.unique(scores.round(6))) > 5


def test_known_nodes_are_those_of_the_training_period_in_order_of_appearance() -> None:
    made = trainer("vgrnn")
    nodes, train = made.system.module.nodes, made.training.known
    assert nodes.count == len(np.unique(np.concatenate([train.src, train.dst])))
    assert 9 not in np.concatenate([train.src, train.dst])
    assert nodes.all_of(12).tolist() == [*nodes.rows.tolist(), nodes.count, nodes.count, nodes.count]
    assert nodes.all_of(3).tolist() == [*nodes.rows[:3].tolist(), nodes.count]
    first = {}
    for i in range(len(train)):
        for node in (train.src[i], train.dst[i]):
            first.setdefault(int(node), train.t[i])
    order = sorted(first, key=lambda node: nodes.rows[node])
    assert (np.diff([first[node] for node in order]) >= 0).all()
    assert nodes.rows[9] == nodes.count


def test_damaged_facts_are_refused() -> None:
    made = trainer("vgrnn")
    for facts in ({"span": 0.0}, {"span": float("inf")}, {"origin": float("nan")}):
        with pytest.raises(cawn.DataError, match="out of range"):
            cawn.Trainer(network(), made.config, facts=facts, **QUIET)
