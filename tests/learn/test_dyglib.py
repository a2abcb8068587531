"""DyGLib's hidden nodes and negatives, against literal Python sets and NumPy's legacy generator."""

import random

import numpy as np
import pytest

import cawn
from cawn.learn import dyglib
from cawn.learn.negatives import part_negatives
from cawn.learn.splits import split
from networks import random_events

EVENTS = random_events(1, num_nodes=60, num_links=1_500, span=700)
PARTS = split(EVENTS, cawn.Task(protocol="dyglib"), seed=0)


def test_hidden_nodes_by_sets() -> None:
    later = EVENTS.t > np.quantile(EVENTS.t, 0.70)
    sources, destinations = (EVENTS.src[later] + 1).tolist(), (EVENTS.dst[later] + 1).tolist()
    random.seed(2020)
    number = int(0.1 * len({*EVENTS.src.tolist(), *EVENTS.dst.tolist()}))
    hidden = random.sample(tuple(set(sources).union(set(destinations))), number)
    assert sorted(node - 1 for node in hidden) == np.flatnonzero(PARTS.hidden).tolist()
    assert PARTS.digest == split(EVENTS, cawn.Task(protocol="dyglib"), seed=1).digest


@pytest.mark.parametrize(
    ("name", "train", "inductive"),
    [("wikipedia", 81_029, 11_715), ("uci", 34_352, 5_932), ("enron", 69_452, 4_206), ("mooc", 227_485, 29_179)],
)
def test_the_split_of_real_networks(network, name: str, train: int, inductive: int) -> None:
    """The numbers of links do not change with the version of Python."""
    parts = split(network(name), cawn.Task(protocol="dyglib"), seed=0)
    assert (len(parts.train), len(parts.test["inductive"])) == (train, inductive)


@pytest.mark.parametrize(("part", "seed"), [("transductive", 2), ("inductive", 3)])
def test_random_destinations_by_batch(part: str, seed: int) -> None:
    links = PARTS.test[part]
    within = slice(None) if part == "transductive" else links
    sources, destinations = np.unique(EVENTS.src[within]), np.unique(EVENTS.dst[within])
    stream, expected = np.random.RandomState(seed), []
    for start in range(0, len(links), 200):
        size = len(links[start : start + 200])
        stream.randint(0, len(sources), size)
        expected += destinations[stream.randint(0, len(destinations), size)].tolist()
    found = part_negatives(EVENTS, PARTS, part, "random", seed=99)
    assert found.dst.tolist() == expected
    assert found.src is None


def pairs_by_sets(links: np.ndarray, part: str, new: bool) -> list[tuple[set, list | None]]:
    """For each batch, the pairs it may draw, and what is drawn if these are enough."""
    pool = np.arange(len(EVENTS)) if part == "transductive" else links
    u, v, t = (EVENTS.src[pool] + 1).tolist(), (EVENTS.dst[pool] + 1).tolist(), EVENTS.t[pool]

    def between(first: float, last: float) -> set:
        return set((u[i], v[i]) for i in np.flatnonzero((t >= first) & (t <= last)))  # noqa: C401

    stream = np.random.RandomState(2 if part == "transductive" else 3)
    last_known, found = EVENTS.t[PARTS.first_test - 1], []
    every = len(set(u)) * len(set(v))
    for start in range(0, len(links), dyglib.BATCH):
        batch = links[start : start + dyglib.BATCH]
        first, last = EVENTS.t[batch[0]], EVENTS.t[batch[-1]]
        allowed = between(t.min(), first)
        if new:
            allowed = allowed - between(t.min(), last_known)
        allowed = allowed - between(first, last)
        if len(batch) > len(allowed):
            own = set(zip(EVENTS.src[batch].tolist(), EVENTS.dst[batch].tolist(), strict=True))
            stream.choice(every - len(own), len(batch) - len(allowed), replace=False)
            found.append((allowed, None))
        else:
            chosen = stream.choice(len(allowed), len(batch), replace=False)
            found.append((allowed, [list(allowed)[i] for i in chosen]))
    return found


@pytest.mark.parametrize("part", ["transductive", "inductive"])
@pytest.mark.parametrize("new", [False, True])
def test_pairs_by_sets(part: str, new: bool, monkeypatch) -> None:
    size = 20 if part == "transductive" else 5
    monkeypatch.setattr("cawn.learn.dyglib.BATCH", size)
    links = PARTS.test[part]
    kind = "inductive pairs" if new else "historical pairs"
    found = part_negatives(EVENTS, PARTS, part, kind, seed=99)
    drawn, fallbacks, exact = list(zip((found.src + 1).tolist(), (found.dst + 1).tolist(), strict=True)), 0, 0
    for number, (allowed, expected) in enumerate(pairs_by_sets(links, part, new)):
        batch = links[size * number : size * (number + 1)]
        ours = drawn[size * number : size * (number + 1)]
        if expected is not None:
            assert ours == expected
            exact += 1
            continue
        missing = len(batch) - len(allowed)
        own = set(zip((EVENTS.src[batch] + 1).tolist(), (EVENTS.dst[batch] + 1).tolist(), strict=True))
        assert ours[missing:] == list(allowed)
        assert not own & set(ours[:missing])
        assert len(set(ours[:missing])) == missing
        fallbacks += missing
    assert found.fallback == fallbacks / len(links)
    assert exact > 0
    assert new is (fallbacks > 0) or part == "inductive"


def test_networks_without_other_pairs_are_refused() -> None:
    events = cawn.Events([0, 0, 1, 1] * 10, [2, 3, 2, 3] * 10, np.arange(40))
    with pytest.raises(cawn.DataError, match="every source links to every destination"):
        dyglib.pairs(events, np.arange(34, 40), "transductive", new=True, first_test=34)
