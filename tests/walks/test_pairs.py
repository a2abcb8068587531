"""Features of pairs: which columns there are, and the stored index."""

import numpy as np
import pytest

import cawn
from cawn.walks.pairs import PairFeatures, PairParts
from cawn.walks.rates import rates_width
from cawn.walks.validation import check_pairs
from networks import queries, random_events

ALPHA = (0.0, 0.1)
EVENTS = random_events(2, num_links=80)
PARTS = [
    PairParts(),
    PairParts(directed=False),
    PairParts(since=False, two_steps=False, transitions=False),
    PairParts(rates=False),
    PairParts(rates=False, two_steps=False, transitions=False),
]


def features_of(parts: PairParts) -> PairFeatures:
    found = PairFeatures.of(parts, EVENTS, cawn.History(EVENTS, ALPHA), 0.5)
    assert found is not None
    return found


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_rates_then_source_then_destination(parts: PairParts) -> None:
    features, (src, t) = features_of(parts), queries(EVENTS, 0, 20)
    dst = np.roll(src, 3)
    found = features.features(src, dst, t)
    assert found.shape == (20, parts.width(len(ALPHA)))
    rates, end = parts.widths(len(ALPHA))
    assert rates == (rates_width(len(ALPHA), directed=parts.directed) if parts.rates else 0)
    swapped = features.features(dst, src, t)
    assert np.array_equal(found[:, rates : rates + end], swapped[:, rates + end :])


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_the_stored_index_is_enough(parts: PairParts) -> None:
    features, history = features_of(parts), cawn.History(EVENTS, ALPHA)
    check_pairs(features.arrays, EVENTS.t, EVENTS.num_nodes, ALPHA, parts)
    again = PairFeatures.adopt(parts, features.arrays, EVENTS, history, 0.5)
    src, t = queries(EVENTS, 1, 20)
    asked = src, np.roll(src, 5), t
    assert np.array_equal(again.features(*asked), features.features(*asked))


def test_no_features() -> None:
    none = PairParts(rates=False, since=False, two_steps=False, transitions=False)
    assert not none.any
    assert PairFeatures.of(none, EVENTS, cawn.History(EVENTS, ALPHA), 0.5) is None
    assert PairFeatures.adopt(none, {}, EVENTS, cawn.History(EVENTS, ALPHA), 0.5) is None
