"""The definition of `Rates.features` in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.kernels.cpu.rates import AGES, CLOSENESS_SCALE, LONGEST

Array = npt.NDArray[Any]
Counts = tuple[Array, Array, Array, Array, Array]  # keys, starts, time, logsum [decays, n] and alphas


def rate_features(counts: list[Counts], src: Array, dst: Array, t: Array, unit: float) -> npt.NDArray[np.float32]:
    """The features [B, R] of pairs. `counts` are those of pairs, nodes and, if directed, of directed pairs, sources
    and destinations."""
    pairs, nodes, *directed = counts
    src, dst = src.astype(np.int64), dst.astype(np.int64)
    count, ages, rates = before(pairs, pair_key(np.minimum(src, dst), np.maximum(src, dst)), t, AGES)
    parts = [np.log1p(rates), np.log1p(count)[:, None], closeness(ages, unit)]
    for end in (src, dst):
        _, age, end_rates = before(nodes, end, t)
        one_step = rates / np.maximum(end_rates, np.finfo(float).tiny)  # probability of a walk's first step
        parts += [np.log1p(end_rates), closeness(age, unit), one_step]
    if directed:
        for lists, keys in zip(directed, (pair_key(src, dst), src, dst), strict=True):
            _, age, rates = before(lists, keys, t)
            parts += [np.log1p(rates), closeness(age, unit)]
    return np.concatenate(parts, axis=1).astype(np.float32)


def before(counts: Counts, keys: Array, t: Array, num_ages: int = 1) -> tuple[Array, Array, Array]:
    """Occurrences of each key before t [B], ages of the newest [B, num_ages], inf where there are fewer, and decayed
    counts, sums of exp(-alpha age): [B, decays]."""
    known_keys, starts, time, logsum, alphas = counts
    row = np.searchsorted(known_keys, keys)
    known = row < len(known_keys)
    known[known] = known_keys[row[known]] == keys[known]
    count = np.zeros(len(keys), np.int64)
    ages, rates = np.full((len(keys), num_ages), np.inf), np.zeros((len(keys), alphas.size))
    for q in np.flatnonzero(known):
        first, last = starts[row[q]], starts[row[q] + 1]
        count[q] = np.searchsorted(time[first:last], t[q].astype(time.dtype))
        newest = first + count[q] - 1
        for r in range(min(count[q], num_ages)):
            ages[q, r] = t[q] - time[newest - r]
        if count[q]:
            rates[q] = np.exp(logsum[:, newest] - alphas * ages[q, 0])
    return count, ages, rates


def pair_key(a: Array, b: Array) -> npt.NDArray[np.int64]:
    """One key for two nodes."""
    return np.asarray(a << 32 | b)


def closeness(age: Array, unit: float) -> Array:
    """1 for age 0, decreasing with the logarithm of the age to about 0; -1 for never."""
    ever = np.isfinite(age)
    with np.errstate(over="ignore"):
        units = np.minimum(np.where(ever, age, 0) / unit, LONGEST)
    return np.where(ever, 1 - np.log1p(units) / CLOSENESS_SCALE, -1)
