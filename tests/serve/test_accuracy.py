"""Sums over scored links against the same figures computed at once."""

import numpy as np
import pytest

from cawn.learn.metrics import mrr, ranks
from cawn.learn.reliability import reliability
from cawn.serve.accuracy import (
    Recalibrated,
    Series,
    Sums,
    calibration_bins,
    calibration_error,
    log_losses,
    reciprocal_ranks,
)


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


def test_figures_are_means_with_standard_errors() -> None:
    values, probability = scored(0, 50)
    sums = Sums()
    sums.add(values[:20], probability[:20])
    sums.add(values[20:], probability[20:])
    found = sums.figures("model")
    assert found is not None
    assert found["mrr"] == pytest.approx(values[:, 0, 0].mean())
    assert found["mrr_error"] == pytest.approx(values[:, 0, 0].std(ddof=1) / np.sqrt(50))
    assert found["log_loss"] == pytest.approx(values[:, 0, 1].mean())
    assert sums.figures("shadow") is None
    baseline = sums.figures("baseline")
    assert baseline is not None
    assert baseline["log_loss"] is None  # not calibrated yet
    assert "ece" not in baseline


def test_reciprocal_ranks_and_log_losses_by_hand() -> None:
    scores = np.array([[2.0, 1.0, 3.0], [1.0, 1.0, 0.0]])
    assert reciprocal_ranks(scores).tolist() == [1 / 2, 1 / 1.5]
    assert mrr(ranks(scores[:, 0], scores[:, 1:])) == pytest.approx(reciprocal_ranks(scores).mean())
    p = np.array([[0.8, 0.5, 0.1]])
    assert log_losses(p)[0] == pytest.approx(-(np.log(0.8) + (np.log(0.5) + np.log(0.9)) / 2) / 2)
    assert np.isfinite(log_losses(np.array([[0.0, 1.0]]))).all()


def test_the_calibration_error_is_that_of_reports() -> None:
    _, probability = scored(1, 200, num_negatives=1)
    true, false = probability[:, 0].T
    assert calibration_error(calibration_bins(probability[:, 0])) == pytest.approx(reliability(true, false)["ece"])


def test_all_negatives_of_a_link_weigh_as_much_as_the_link() -> None:
    p = np.array([[0.9, 0.1, 0.3]])
    many = np.concatenate([p[:, :1].repeat(2), p[0, 1:]])  # the link twice, each negative once
    expected = reliability(many[:2], many[2:])["ece"]
    assert calibration_error(calibration_bins(p)) == pytest.approx(expected)


def test_periods_are_joined_by_addition() -> None:
    parts = [scored(seed, 10 + seed) for seed in range(4)]
    whole, total = Sums(), Sums()
    for i, (values, probability) in enumerate(parts):
        whole.add(values, probability)
        whole.add_arrived(np.arange(30) % 3 == 0, np.arange(30) % 2 == 0)
        part = Sums(end=(30 * i + 30, i))
        part.add(values, probability)
        part.add_arrived(np.arange(30) % 3 == 0, np.arange(30) % 2 == 0)
        total = total + part
    joined = total.to_dict()
    assert joined["new_nodes"] == 1 / 3
    assert joined["new_pairs"] == 1 / 2
    assert (joined["links"], joined["t"], joined["scored"]) == (120, 3, 46)
    for name, value in (whole.figures("model") or {}).items():
        assert joined["model"][name] == pytest.approx(value)


@pytest.mark.parametrize("count", [3, 8, 9, 20, 57])
def test_a_series_covers_the_whole_time_in_few_points(count: int) -> None:
    series = Series(most=8)
    for i in range(count):
        part = Sums(end=(i + 1, i))
        part.add(*scored(i, 2))
        series.add(part)
    points = series.to_list()
    assert len(points) <= 9
    assert sum(point["scored"] for point in points) == 2 * count
    assert points[-1]["links"] == count
    sizes = [point["scored"] for point in points]
    assert len(set(sizes[:-1])) <= 1
    assert [point["links"] for point in points] == (np.cumsum(sizes) // 2).tolist()


def test_a_scorer_is_recalibrated_on_the_links_before() -> None:
    rng = np.random.default_rng(0)
    logits = 5 * rng.normal(size=(250, 4))  # overconfident
    logits[:, 0] += 5
    scorer = Recalibrated()
    first, second = scorer.log_losses(logits[:125]), scorer.log_losses(logits[125:])
    assert np.isnan(first).all()
    raw = log_losses(1 / (1 + np.exp(-logits[125:])))
    assert second.mean() < raw.mean()
    assert np.isnan(Recalibrated().probability(logits)).all()
    assert scorer.copy().calibration is scorer.calibration
