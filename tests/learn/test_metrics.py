"""Metrics against scikit-learn."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import average_precision_score, roc_auc_score

import cawn
from cawn.learn import metrics


@pytest.mark.parametrize("seed", range(20))
def test_against_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    positive, negative = rng.normal(0.5, 1, 1 + seed * 7), rng.normal(0, 1, 2 + seed * 5)
    if seed % 2:
        positive, negative = positive.round(), negative.round()  # ties
    truth = np.repeat([1, 0], [len(positive), len(negative)])
    scores = np.concatenate([positive, negative])
    assert metrics.auc(positive, negative) == pytest.approx(roc_auc_score(truth, scores))
    assert metrics.average_precision(positive, negative) == pytest.approx(average_precision_score(truth, scores))


def test_batch_means_take_every_link() -> None:
    rng = np.random.default_rng(0)
    positive, negative = rng.normal(1, 1, 70), rng.normal(0, 1, 70)
    parts = [metrics.auc(positive[i : i + 30], negative[i : i + 30]) for i in (0, 30, 60)]
    assert metrics.batch_mean(metrics.auc, positive, negative, 30) == pytest.approx(np.mean(parts))


def test_ranks() -> None:
    rank = metrics.ranks(np.array([0.5, 0.9, 0.1]), np.array([[0.1, 0.2], [0.95, 0.9], [0.1, 0.1]]))
    assert rank.tolist() == [1, 2.5, 2]
    assert metrics.mrr(rank) == pytest.approx((1 + 1 / 2.5 + 1 / 2) / 3)
    assert metrics.hits(rank, 1) == pytest.approx(1 / 3)
    assert metrics.hits(rank, 2) == pytest.approx(2 / 3)


@pytest.mark.parametrize("n", [2, 3, 10, 16, 17, 30, 200])
def test_intervals(n: int) -> None:
    values = np.random.default_rng(n).normal(0.9, 0.01, n)
    mean, half = metrics.mean_and_interval(values.tolist())
    expected = stats.t.ppf(0.975, n - 1) * stats.sem(values)
    assert mean == pytest.approx(values.mean())
    assert half == pytest.approx(expected, rel=2e-3)
    assert metrics.mean_and_interval([0.5]) == (0.5, float("inf"))


def test_refused() -> None:
    with pytest.raises(cawn.QueryError, match="needs both"):
        metrics.auc(np.array([]), np.array([1.0]))
    with pytest.raises(cawn.QueryError, match="NaN"):
        metrics.auc(np.array([np.nan]), np.array([1.0]))
