"""Sums over scored links against the same figures computed at once."""

import numpy as np
import pytest

from cawn.learn.reliability import reliability
from cawn.serve.accuracy import Recalibrated, Series, Sums, log_losses, reciprocal_ranks


def scored(seed: int, links: int, num_negatives: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Values and probabilities of links that the model and the baseline scored, without a shadow model."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(links, 1 + num_negatives))
    logits[:, 0] += 1
    probability = np.full((links, 2, 1 + num_negatives), np.nan)
    probability[:, 0] = 1 / (1 + np.exp(-logits))
    values = np.full((links, 3, 2), np.nan)
    values[:, 0] = np.stack([reciprocal_ranks(logits), log_losses(probability[:, 0])], axis=1)
    values[:, 2, 0] = reciprocal_ranks(np.round(logits))
    return values, probability


def test_reciprocal_ranks_and_log_losses_by_hand() -> None:
    assert reciprocal_ranks(np.array([[2.0, 1.0, 3.0], [1.0, 1.0, 0.0]])).tolist() == [1 / 2, 1 / 1.5]
    p = np.array([[0.8, 0.5, 0.1]])
    assert log_losses(p)[0] == pytest.approx(-(np.log(0.8) + (np.log(0.5) + np.log(0.9)) / 2) / 2)
    assert log_losses(np.array([[0.0, 1.0]]))[0] == pytest.approx(-np.log(1e-6))


def test_periods_that_are_joined_have_means_with_standard_errors() -> None:
    values, probability = scored(0, 50, num_negatives=1)
    news = np.stack([np.arange(60) % 3 == 0, np.arange(60) % 2 == 0], axis=1)
    parts = Sums(), Sums()
    parts[0].add(values[:20], probability[:20], news[:30], (30, 7))
    parts[1].add(values[20:], probability[20:], news[30:], (60, 9))
    found = (parts[0] + parts[1]).to_dict()
    model, ranks = found["model"], values[:, 0, 0]
    assert (found["links"], found["t"], found["scored"], found["shadow"]) == (60, 9, 50, None)
    assert (found["new_nodes"], found["new_pairs"]) == (1 / 3, 1 / 2)
    assert (model["mrr"], model["log_loss"]) == pytest.approx(values[:, 0].mean(axis=0).tolist())
    assert model["mrr_error"] == pytest.approx(ranks.std(ddof=1) / np.sqrt(50))
    assert model["ece"] == pytest.approx(reliability(*probability[:, 0].T)["ece"])
    assert found["baseline"].keys() == model.keys() - {"ece"}
    assert found["baseline"]["log_loss"] is found["baseline"]["log_loss_error"] is None  # not calibrated yet


def test_all_negatives_of_a_link_weigh_as_much_as_the_link() -> None:
    p, sums = np.array([[0.9, 0.1, 0.3]]), Sums()
    sums.add(np.ones((1, 3, 2)), np.stack([p, p], axis=1), np.ones((1, 2), bool), (1, 0))
    found = sums.to_dict()["shadow"]
    assert found["ece"] == pytest.approx(reliability(p[0, [0, 0]], p[0, 1:])["ece"])  # the link twice, negatives once
    assert found["mrr_error"] is None  # of a single link


@pytest.mark.parametrize("count", [7, 80, 170, 190, 400, 1137])
def test_a_series_covers_the_whole_time_in_few_points(count: int) -> None:
    """Every other link is scored, and they arrive in portions of any size."""
    series, rng, arrived = Series(window=200, most=8), np.random.default_rng(count), 0
    while arrived < 2 * count:
        n = min(int(rng.integers(1, 70)), 2 * count - arrived)
        sample = np.flatnonzero((arrived + np.arange(n)) % 2)
        series.add(*scored(arrived, len(sample)), sample, np.zeros((n, 2), bool), arrived + np.arange(n))
        arrived += n
    points = series.to_list()
    sizes = [point["scored"] for point in points]
    assert min(count // 10, 4) <= len(points) <= 8
    assert len(set(sizes[:-1])) <= 1
    assert sum(sizes) == count // 10 * 10  # whole blocks
    assert [point["links"] for point in points] == (2 * np.cumsum(sizes)).tolist()
    assert [point["t"] for point in points] == (2 * np.cumsum(sizes) - 1).tolist()
    newest = series.newest()
    assert newest.end == (2 * count, 2 * count - 1)
    assert newest.links == min(count, 200 + count % 10)


def test_a_scorer_is_recalibrated_on_the_links_before() -> None:
    logits = 5 * np.random.default_rng(0).normal(size=(250, 4))  # overconfident
    logits[:, 0] += 5
    scorer = Recalibrated()
    first, second = scorer.log_losses(logits[:125]), scorer.log_losses(logits[125:])
    assert np.isnan(first).all()
    assert second.mean() < log_losses(1 / (1 + np.exp(-logits[125:]))).mean()
