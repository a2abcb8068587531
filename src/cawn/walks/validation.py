"""Checks of a stored index (`History` and `Rates`) before kernels use it; see `cawn.data.validation`."""

from __future__ import annotations

import numpy as np

from cawn.data.validation import Array, Arrays, check_array, check_offsets, check_range, check_times, require
from cawn.kernels.cpu.walks import CUT, NODE
from cawn.kernels.jit import njit
from cawn.walks.pairs import PairParts, named
from cawn.walks.rates import STORED_NAMES
from cawn.walks.sequences import STORED

_ROUNDING = 1e-9


def check_history(
    arrays: Arrays, t: Array, num_nodes: int, alpha: tuple[float, ...], *, headers_only: bool = False
) -> None:
    """The arrays of a `History` of links at times t, as `kernels.cpu.Index` describes them.

    With `headers_only`, the types and shapes, but not the values, of the arrays that have an entry for each link: those
    of a log larger than memory are not read for it.
    """
    starts = _check_lists(arrays, t, num_nodes, alpha, headers_only)
    hop = check_array(arrays, "hop", np.int32, 2, len(arrays["time"]))
    require(hop.shape[1] == 3, f"hop has shape {hop.shape}")
    if headers_only:
        return
    node, link, _ = hop.T
    check_range(node, "hop", 0, num_nodes)
    check_range(link, "hop", 0, 2 * len(t))
    require(_cuts_are_inside(hop, starts), "hop points outside a node's list")


def check_pairs(
    arrays: Arrays, t: Array, num_nodes: int, alpha: tuple[float, ...], parts: PairParts, *, headers_only: bool = False
) -> None:
    """The arrays of `PairFeatures` of links at times t; `headers_only` as for `check_history`."""
    rates, sequences = named(arrays, "rates."), named(arrays, "sequences.")
    require(bool(rates) == parts.any, "the rates do not match the settings")
    require(bool(sequences) == any(parts.sequences), "the sequences do not match the settings")
    if rates:
        check_rates(rates, t, alpha, directed=parts.rates and parts.directed, headers_only=headers_only)
    if sequences:
        check_sequences(sequences, t, num_nodes, headers_only=headers_only)


def check_sequences(arrays: Arrays, t: Array, num_nodes: int, *, headers_only: bool = False) -> None:
    """The arrays of `Sequences` of links at times t, as `kernels.cpu.sequences.Lists` describes them."""
    require(set(arrays) == set(STORED), "the sequences are incomplete")
    starts = _check_times(arrays, t, num_nodes, "time", "starts", headers_only)
    partner = check_array(arrays, "partner", np.int32, 1, len(arrays["time"]))
    keys = check_array(arrays, "next_keys", np.int64, 1)
    if not headers_only:
        check_range(partner, "partner", 0, num_nodes)
        require(bool((keys[1:] > keys[:-1]).all()), "next_keys are not sorted")
        for node in (keys >> 32, keys & 0xFFFFFFFF):
            check_range(node, "next_keys", 0, num_nodes)
    _check_times(arrays, t, len(keys), "next_time", "next_starts", headers_only)
    _check_times(arrays, t, num_nodes, "from_time", "from_starts", headers_only)
    first = check_array(arrays, "first_time", t.dtype, 1, int(np.count_nonzero(np.diff(starts))))
    require(bool((first[1:] >= first[:-1]).all()), "first_time is not sorted")
    sizes = {"activity": "time", "next_sum": "next_time", "from_sum": "from_time"}
    sums = {name: len(arrays[times]) for name, times in sizes.items()} | {"pair_sum": len(t), "all_sum": len(t)}
    for name, size in sums.items():
        values = check_array(arrays, name, np.float64, 1, size)
        if size and not headers_only:
            lowest, highest = float(values.min()), float(values.max())  # NaN, if there is any
            require(lowest >= 1 - _ROUNDING and highest <= size + _ROUNDING, f"{name} is out of range")


def check_rates(
    arrays: Arrays, t: Array, alpha: tuple[float, ...], *, directed: bool, headers_only: bool = False
) -> None:
    """The arrays of `Rates` of links at times t."""
    kinds = STORED_NAMES if directed else STORED_NAMES[:1]
    for kind in kinds:
        held = {name.removeprefix(f"{kind}."): array for name, array in arrays.items() if name.startswith(f"{kind}.")}
        keys = check_array(held, "keys", np.int64, 1)
        require(headers_only or bool((keys[1:] > keys[:-1]).all()), f"{kind}.keys are not sorted")
        _check_lists(held, t, len(keys), alpha, headers_only)
        require(len(held["time"]) == len(t), f"{kind}.time does not have one entry for each link")
    require({name.split(".")[0] for name in arrays} == set(kinds), "the rates do not match the settings")


def _check_lists(arrays: Arrays, t: Array, count: int, alpha: tuple[float, ...], headers_only: bool) -> Array:
    """`count` lists of sorted times with running log-sums; returns their offsets [count + 1]."""
    starts, n = _check_times(arrays, t, count, "time", "starts", headers_only), len(arrays["time"])
    alphas = check_array(arrays, "alphas", np.float64, 1)
    require(tuple(alphas.tolist()) == alpha, "alphas are not those of the run")
    logsum = check_array(arrays, "logsum", np.float64, 2, len(alphas))
    require(logsum.shape[1] == n, f"logsum has shape {logsum.shape} for {n:,} entries")
    if n and not headers_only:
        lowest, highest = float(logsum.min()), float(logsum.max())  # NaN, if there is any
        require(lowest >= -_ROUNDING and highest <= np.log(n) + _ROUNDING, "logsum is out of range")
    return starts


def _check_times(arrays: Arrays, t: Array, count: int, time_name: str, starts_name: str, headers_only: bool) -> Array:
    """`count` lists of sorted times; returns their offsets [count + 1]."""
    time, starts = check_array(arrays, time_name, None, 1), check_array(arrays, starts_name, np.int64, 1)
    n = len(time)
    check_offsets(starts, starts_name, count, n)
    require(time.dtype == t.dtype, f"{time_name} is {time.dtype}, but the links' is {t.dtype}")
    if headers_only:
        return starts
    check_times(time, time_name)
    if n:
        inside = len(t) > 0 and bool(time.min() >= t[0] and time.max() <= t[-1])
        require(inside, f"{time_name} is not that of the links")
    require(_lists_are_sorted(time, starts), f"a list of {time_name} is not sorted")
    return starts


@njit
def _cuts_are_inside(hop: Array, starts: Array) -> bool:
    """Whether each cut is at most the length of the list of its node."""
    for i in range(len(hop)):
        node, cut = hop[i, NODE], hop[i, CUT]
        if cut < 0 or cut > starts[node + 1] - starts[node]:
            return False
    return True


@njit
def _lists_are_sorted(time: Array, starts: Array) -> bool:
    for row in range(len(starts) - 1):
        for i in range(starts[row] + 1, starts[row + 1]):
            if time[i] < time[i - 1]:
                return False
    return True
