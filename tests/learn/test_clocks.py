"""Which links a test link may use."""

from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn import systems
from cawn.learn.clocks import Clock, separated
from cawn.systems.base import PrefixScorer
from cawn.systems.baselines import BaselineScorer, Past
from networks import random_events
from small_runs import TINY
from systems.small_settings import NAMES, small
from tolerances import assert_same_scores


def test_separated_times_are_the_nearest_that_increase() -> None:
    t = np.array([-5, -5, 0, 0, 0, 1_700_000_000, 1_700_000_000])
    found = separated(t)
    expected = t.astype(float)
    for i in range(1, len(t)):
        expected[i] = max(expected[i], np.nextafter(expected[i - 1], np.inf))
    np.testing.assert_array_equal(found, expected)
    assert (np.diff(found) > 0).all()
    distinct = np.array([0.5, 1.25, 7.0])
    np.testing.assert_array_equal(separated(distinct), distinct)
    assert len(separated(np.empty(0, np.int64))) == 0


@pytest.mark.parametrize("name", ["frob", "batch", "batch:0", "batch:-1", "batch:2.5", None, 3])
def test_other_clocks_are_refused(name: object) -> None:
    with pytest.raises(cawn.QueryError, match="give strict, event or batch:N"):
        Clock(name)


class Without:
    """A scorer without `score_after`."""

    def __init__(self, scorer: BaselineScorer) -> None:
        self._scorer = scorer

    def __call__(self, *asked: np.ndarray) -> np.ndarray:
        return self._scorer(*asked)


def edgebank(events: cawn.Events) -> BaselineScorer:
    return BaselineScorer(Past(events), "edgebank")


@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.parametrize("name", ["strict", "event", "batch:7", "batch:1000"])
def test_edgebank_sees_exactly_the_visible_links(name: str, prefix: bool) -> None:
    events, first = random_events(3, num_links=200, span=60), 100
    first = int(np.searchsorted(events.t, events.t[first]))
    clock = Clock(name)
    timed = clock.on(events)
    make = edgebank if prefix else lambda some: Without(edgebank(some))
    assert isinstance(make(timed), PrefixScorer) == prefix
    scorer = clock.scorer(make(timed), timed, first, make)
    links = np.arange(first, len(events))
    found = scorer(events.src[links], events.dst[links], timed.t[links])
    for link, score in zip(links, found, strict=True):
        size = clock.batch_size
        visible = {"strict": int(np.searchsorted(events.t, events.t[link])), "event": link}.get(name)
        visible = first + (link - first) // size * size if visible is None else visible
        pairs = {frozenset(pair) for pair in zip(events.src[:visible], events.dst[:visible], strict=True)}
        assert score == (frozenset((events.src[link], events.dst[link])) in pairs)


def test_links_in_ties_follow_their_rows() -> None:
    """Two links of one pair at one time: the second sees the first in the clock "event" alone."""
    events = cawn.Events([0, 1, 1], [2, 3, 3], [5, 9, 9])
    for name, expected in (("strict", [0, 0]), ("event", [0, 1]), ("batch:1", [0, 1]), ("batch:2", [0, 0])):
        clock = Clock(name)
        timed = clock.on(events)
        found = clock.scorer(edgebank(timed), timed, 1)(events.src[1:], events.dst[1:], timed.t[1:])
        assert found.tolist() == expected


@pytest.fixture(scope="module")
def tied() -> cawn.Events:
    return random_events(8, num_nodes=30, num_links=500, span=120)


def test_results_name_their_clock_and_a_run_keeps_it(tied: cawn.Events, tmp_path: Path) -> None:
    """Also for a system without `score_after`, whose weights do not depend on the clock."""
    config = TINY.with_(epochs=1)
    runs = {
        name: cawn.train(
            tied, config, task=cawn.Task(clock=name, negatives=("random",)), out=tmp_path / name[:5], quiet=True
        )
        for name in ("strict", "event", "batch:40")
    }
    figures = {}
    for name, run in runs.items():
        (row,) = run.results.tests
        assert (row["clock"], row["protocol"]) == (name, "strict")
        figures[name] = row["model"]["ap"], row["baselines"]["recency"]["ap"], row["baselines"]["counts"]["ap"]
        assert row["digest"] == runs["strict"].results.tests[0]["digest"]
        for key, value in runs["strict"].model.state_dict().items():
            assert (value == run.model.state_dict()[key]).all()
        assert cawn.evaluate(tmp_path / name[:5], negatives=("random",)) == run.results
    for i in range(3):
        assert len({found[i] for found in figures.values()}) == 3
    again = cawn.evaluate(tmp_path / "batch", negatives=("random",), clock="strict")
    assert again == runs["strict"].results
    with pytest.raises(cawn.QueryError, match="other clock"):
        cawn.train(tied, config, out=tmp_path / "batch", quiet=True, resume=True, task=cawn.Task(negatives=("random",)))


def test_a_system_with_weights_and_score_after(tied: cawn.Events) -> None:
    config = systems.settings_type("counts")().with_(epochs=1)
    tasks = [cawn.Task(clock=name, negatives=("random",), baselines=False) for name in ("strict", "batch:1", "event")]
    runs = [cawn.train(tied, config, task=task, quiet=True) for task in tasks]
    aps = [run.results.where(metric="ap")[0]["value"] for run in runs]
    assert aps[1] == aps[2] != aps[0]


@pytest.mark.parametrize("name", NAMES)
def test_every_system_follows_every_clock(name: str) -> None:
    """On a batch of links with ties: event-wise, each sees the rows before it; in batches, none sees the batch."""
    events = random_events(5, num_nodes=20, num_links=300, span=150)
    system = cawn.Trainer(events, small(name), quiet=True, device="cpu").system
    first, links = 200, np.arange(200, 215)
    timed = Clock("event").on(events)
    asked = events.src[links], events.dst[links], timed.t[links]
    event_wise = Clock("event").scorer(system.scorer(timed), timed, first, system.scorer)(*asked)
    batches = Clock("batch:10").scorer(system.scorer(timed), timed, first, system.scorer)(*asked)
    for i in (0, 7, 14):
        one = [column[i : i + 1] for column in asked]
        assert_same_scores(event_wise[i : i + 1], system.scorer(timed[: first + i])(*one))
        assert_same_scores(batches[i : i + 1], system.scorer(timed[: first + i // 10 * 10])(*one))
