"""Metrics: AUC and AP pooled over all links, means over batches, ranks among candidates, intervals over seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from cawn.errors import QueryError

Scores = npt.NDArray[np.floating]


def auc(positive: Scores, negative: Scores) -> float:
    """The probability that a positive scores higher than a negative; ties count half."""
    scores, is_positive = _joined(positive, negative)
    values, group = np.unique(scores, return_inverse=True)
    hits = np.bincount(group, weights=is_positive, minlength=len(values))
    misses = np.bincount(group, minlength=len(values)) - hits
    below = np.cumsum(misses) - misses
    return float((hits * (below + misses / 2)).sum() / (len(positive) * len(negative)))


def average_precision(positive: Scores, negative: Scores) -> float:
    """The mean precision at each positive, in descending order of score; links with equal scores are added together."""
    scores, is_positive = _joined(positive, negative)
    values, group = np.unique(-scores, return_inverse=True)
    hits = np.bincount(group, weights=is_positive, minlength=len(values))
    taken = np.cumsum(np.bincount(group, minlength=len(values)))
    return float((hits * np.cumsum(hits) / taken).sum() / len(positive))


def batch_mean(metric: Callable[[Scores, Scores], float], positive: Scores, negative: Scores, batch_size: int) -> float:
    """The mean of a metric over consecutive batches of links with their negatives, as in the paper's code."""
    starts = range(0, len(positive), batch_size)
    return float(np.mean([metric(positive[i : i + batch_size], negative[i : i + batch_size]) for i in starts]))


def ranks(positive: Scores, negatives: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """The rank, from 1, of each positive [B] among its negatives [B, K]; ties count half."""
    above = (negatives > positive[:, None]).sum(axis=1)
    equal = (negatives == positive[:, None]).sum(axis=1)
    return np.asarray(1 + above + equal / 2, np.float64)


def mrr(rank: npt.NDArray[np.float64]) -> float:
    """The mean reciprocal rank."""
    return float((1 / rank).mean())


def hits(rank: npt.NDArray[np.float64], k: int) -> float:
    """The share of positives ranked k or better."""
    return float((rank <= k).mean())


def mean_and_interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean over seeds and the half-width of its 95 % confidence interval (Student's t); infinite for one seed."""
    array = np.asarray(values, float)
    if len(array) < 2:
        return float(array.mean()), float("inf")
    return float(array.mean()), float(t_quantile(len(array) - 1) * array.std(ddof=1) / np.sqrt(len(array)))


def t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t."""
    table = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131]
    if freedom <= len(table):
        return table[freedom - 1]
    z = 1.959964  # Cornish-Fisher expansion; accurate to three digits from 16 degrees of freedom
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _joined(positive: Scores, negative: Scores) -> tuple[Scores, npt.NDArray[np.float64]]:
    if len(positive) == 0 or len(negative) == 0:
        raise QueryError(f"{len(positive)} positives and {len(negative)} negatives: a metric needs both")
    scores = np.concatenate([positive, negative])
    if np.isnan(scores).any():
        raise QueryError("scores contain NaN")
    return scores, np.repeat([1.0, 0.0], [len(positive), len(negative)])
