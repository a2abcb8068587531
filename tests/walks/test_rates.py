"""Exact rates against sums written out."""

import numpy as np
import pytest

import cawn
from cawn.walks.rates import AGES, Rates, rates_width
from networks import queries, random_events

ALPHAS = (0.0, 0.05, 2.0)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_rates_are_sums_over_the_past(directed: bool, dtype: type) -> None:
    events = random_events(3, num_links=150, dtype=dtype)
    src, t = queries(events, 1, 80)
    dst, unit = np.roll(src, 7), 4.0
    found = Rates(events, cawn.History(events, ALPHAS), directed=directed).features(src, dst, t, unit)
    assert found.shape == (80, rates_width(len(ALPHAS), directed=directed))
    for row, u, v, now in zip(found, src, dst, t, strict=True):
        np.testing.assert_allclose(row, expected(events, u, v, now, unit, directed), rtol=1e-5, atol=1e-6)


def expected(events: cawn.Events, u: int, v: int, now: float, unit: float, directed: bool) -> list[float]:
    s, d = events.src, events.dst
    before = events.t < now

    def look(mask: np.ndarray) -> tuple[list[float], np.ndarray]:
        ages = np.sort((now - events.t[mask & before]).astype(float))
        return list(ages), np.array([np.exp(-a * ages).sum() for a in ALPHAS])

    def closeness(ages: list[float], count: int) -> list[float]:
        return [1 - np.log1p(a / unit) / 14 for a in ages[:count]] + [-1.0] * (count - len(ages))

    ages, pair = look(((s == u) & (d == v)) | ((s == v) & (d == u)))
    row = [*np.log1p(pair), np.log1p(len(ages)), *closeness(ages, AGES)]
    for end in (u, v):
        ages, rates = look((s == end) | (d == end))
        share = np.divide(pair, rates, out=np.zeros_like(pair), where=rates > 0)
        row += [*np.log1p(rates), *closeness(ages, 1), *share]
    if directed:
        for mask in ((s == u) & (d == v), s == u, d == v):
            ages, rates = look(mask)
            row += [*np.log1p(rates), *closeness(ages, 1)]
    return row


def test_the_share_of_a_pair_is_how_often_walks_step_there() -> None:
    """P(u -> v): among 200,000 first steps, within five standard deviations (a false alarm in two million)."""
    events = random_events(5, num_links=150)
    history = cawn.History(events, 0.05)
    rates = Rates(events, history, directed=False)
    u, v = np.array([events.src[100]]), np.array([events.dst[100]])
    share = rates.features(u, v, np.array([35]), 1.0)[0, 1 + 1 + AGES + 1 + 1]
    steps = history.sample(u, 35, num_walks=200_000, length=1, seed=0).nodes[0, :, 1]
    assert 0 < share < 1
    assert abs((steps == v[0]).mean() - share) < 5 * np.sqrt(share * (1 - share) / 200_000)


def test_far_away_times_do_not_overflow() -> None:
    events = cawn.Events([0, 0], [1, 1], np.array([0, 2**62], np.int64))
    features = Rates(events, cawn.History(events, 1e300), directed=True).features(
        np.array([0]), np.array([1]), np.array([2**62 + 1]), 1e-9
    )
    assert np.isfinite(features).all()
