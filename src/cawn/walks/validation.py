"""Checks of a stored index (`History` and `Rates`) before kernels use it; see `cawn.data.validation`."""

from __future__ import annotations

import numpy as np

from cawn.data.validation import Array, Arrays, check_array, check_offsets, check_range, check_times, require
from cawn.walks.rates import STORED_NAMES

_ROUNDING = 1e-9


def check_history(arrays: Arrays, t: Array, num_nodes: int, alpha: tuple[float, ...]) -> None:
    """The arrays of a `History` of links at times t, as `kernels.cpu.Index` describes them."""
    starts = _check_lists(arrays, t, num_nodes, alpha)
    hop = check_array(arrays, "hop", np.int32, 2, len(arrays["time"]))
    require(hop.shape[1] == 3, f"hop has shape {hop.shape}")
    node, link, cut = hop.T
    check_range(node, "hop", 0, num_nodes)
    check_range(link, "hop", 0, 2 * len(t))
    require(bool((cut >= 0).all() and (cut <= np.diff(starts)[node]).all()), "hop points outside a node's list")


def check_rates(arrays: Arrays, t: Array, alpha: tuple[float, ...], *, directed: bool) -> None:
    """The arrays of `Rates` of links at times t."""
    kinds = STORED_NAMES if directed else STORED_NAMES[:1]
    for kind in kinds:
        held = {name.removeprefix(f"{kind}."): array for name, array in arrays.items() if name.startswith(f"{kind}.")}
        keys = check_array(held, "keys", np.int64, 1)
        require(bool((keys[1:] > keys[:-1]).all()), f"{kind}.keys are not sorted")
        _check_lists(held, t, len(keys), alpha)
        require(len(held["time"]) == len(t), f"{kind}.time does not have one entry for each link")
    require({name.split(".")[0] for name in arrays} == set(kinds), "the rates do not match the settings")


def _check_lists(arrays: Arrays, t: Array, count: int, alpha: tuple[float, ...]) -> Array:
    """`count` lists of sorted times with running log-sums; returns their offsets [count + 1]."""
    time, starts = check_array(arrays, "time", None, 1), check_array(arrays, "starts", np.int64, 1)
    n = len(time)
    check_offsets(starts, "starts", count, n)
    require(time.dtype == t.dtype, f"time is {time.dtype}, but the links' is {t.dtype}")
    check_times(time, "time")
    if n:
        require(len(t) > 0 and bool(time.min() >= t[0] and time.max() <= t[-1]), "time is not that of the links")
    falls = time[1:] < time[:-1]
    inner = starts[1:-1]
    falls[inner[(inner > 0) & (inner < n)] - 1] = False  # between two lists
    require(not falls.any(), "a list is not sorted by time")
    alphas = check_array(arrays, "alphas", np.float64, 1)
    require(tuple(alphas.tolist()) == alpha, "alphas are not those of the run")
    logsum = check_array(arrays, "logsum", np.float64, 2, len(alphas))
    require(logsum.shape[1] == n, f"logsum has shape {logsum.shape} for {n:,} entries")
    if n:
        lowest, highest = float(logsum.min()), float(logsum.max())  # NaN, if there is any
        require(lowest >= -_ROUNDING and highest <= np.log(n) + _ROUNDING, "logsum is out of range")
    return starts
