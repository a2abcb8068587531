"""Checks of arrays that come from files, before compiled code follows the positions in them without looking.

Each raises DataError and is linear in the size of what it checks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.errors import DataError
from cawn.kernels.jit import njit

Array = npt.NDArray[Any]
Arrays = dict[str, Array]

_TIMES = (np.dtype(np.int64), np.dtype(np.float64))
_ROUNDING = 1e-9


def check_names(arrays: Arrays) -> None:
    """Names of nodes: as many as there are places in their order, each once, and in the order that finds them."""
    order = _array(arrays, "name_order", np.int64, 1)
    n = len(order)
    seen = np.zeros(n, bool)
    seen[_within(order, "name_order", 0, n)] = True
    _require(bool(seen.all()), "name_order names a node twice")
    if "name_bytes" not in arrays:
        held = _array(arrays, "names", np.int64, 1)
        _require(len(held) == n, "names and name_order differ in length")
        _require(bool((held[order][1:] > held[order][:-1]).all()), "name_order is not in order")
        return
    ends, text = _array(arrays, "name_ends", np.int64, 1), _array(arrays, "name_bytes", np.uint8, 1)
    _check_starts(ends, "name_ends", n, len(text))
    _require(not ((text[ends[:-1][ends[:-1] < len(text)]] & 0xC0) == 0x80).any(), "name_ends cut a character")
    try:
        text.tobytes().decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise DataError("name_bytes are not UTF-8") from error
    _require(_in_order(ends, text, order), "name_order is not in order")


def check_links(arrays: Arrays, num_nodes: int) -> None:
    """Links in the order of time between known nodes, with whatever columns they have."""
    t = _array(arrays, "t", None, 1)
    _check_times(t, "t")
    _require(bool((t[1:] >= t[:-1]).all()), "t is not in order")
    for name in ("src", "dst"):
        _within(_array(arrays, name, np.int32, 1, len(t)), name, 0, num_nodes)
    if "negative" in arrays:
        _within(_array(arrays, "negative", np.int32, 1, len(t)), "negative", -1, num_nodes)
    if "link_id" in arrays:
        _array(arrays, "link_id", np.uint64, 1, len(t))
    if "weight" in arrays:
        weight = _array(arrays, "weight", np.float32, 1, len(t))
        _require(bool((np.isfinite(weight) & (weight >= 0)).all()), "weight holds a number that is no weight")
    for name, size in (("msg", len(t)), ("x", num_nodes)):
        if name in arrays:
            table = _array(arrays, name, np.float32, 2, size)
            _require(bool(np.isfinite(table).all()), f"{name} holds a number that is not finite")


def check_history(arrays: Arrays, t: Array, num_nodes: int, alpha: tuple[float, ...]) -> None:
    """The lists of `History`, of links at times t: what `kernels.cpu.Index` says of them."""
    starts = _check_lists(arrays, t, num_nodes, alpha)
    hop = _array(arrays, "hop", np.int32, 2, len(arrays["time"]))
    _require(hop.shape[1] == 3, f"hop has shape {hop.shape}")
    node, link, cut = hop.T
    _within(node, "hop", 0, num_nodes)
    _within(link, "hop", 0, 2 * len(t))
    _require(bool((cut >= 0).all() and (cut <= np.diff(starts)[node]).all()), "hop leads out of a node's list")


def check_rates(arrays: Arrays, t: Array, alpha: tuple[float, ...], *, directed: bool) -> None:
    """The tallies of `Rates`."""
    kinds = ("pairs", "ways", "sources", "destinations") if directed else ("pairs",)
    for kind in kinds:
        held = {name.removeprefix(f"{kind}."): array for name, array in arrays.items() if name.startswith(f"{kind}.")}
        keys = _array(held, "keys", np.int64, 1)
        _require(bool((keys[1:] > keys[:-1]).all()), f"{kind}.keys are not in order")
        _check_lists(held, t, len(keys), alpha)
        _require(len(held["time"]) == len(t), f"{kind}.time has not one entry for each link")
    _require({name.split(".")[0] for name in arrays} == set(kinds), "rates of other kinds than the settings ask for")


def check_weights(weights: Arrays) -> None:
    """Weights of a network: numbers that can be computed with."""
    for name, values in weights.items():
        _require(values.dtype == np.float32, f"{name} is {values.dtype}")
        _require(bool(np.isfinite(values).all()), f"{name} holds a number that is not finite")


def _check_lists(arrays: Arrays, t: Array, count: int, alpha: tuple[float, ...]) -> Array:
    """Lists of times with running log-sums; returns where each starts."""
    time, starts = _array(arrays, "time", None, 1), _array(arrays, "starts", np.int64, 1)
    n = len(time)
    _check_starts(starts, "starts", count, n)
    _require(time.dtype == t.dtype, f"time is {time.dtype}, the links' is {t.dtype}")
    _check_times(time, "time")
    if n:
        _require(len(t) > 0 and bool(time.min() >= t[0] and time.max() <= t[-1]), "time is not that of the links")
    falls = time[1:] < time[:-1]
    inner = starts[1:-1]
    falls[inner[(inner > 0) & (inner < n)] - 1] = False  # between two lists
    _require(not falls.any(), "a list is not in the order of time")
    alphas = _array(arrays, "alphas", np.float64, 1)
    _require(tuple(alphas.tolist()) == alpha, "alphas are not those of the run")
    logsum = _array(arrays, "logsum", np.float64, 2, len(alphas))
    _require(logsum.shape[1] == n, f"logsum has shape {logsum.shape} for {n:,} entries")
    if n:
        least, most = float(logsum.min()), float(logsum.max())  # NaN, if there is any
        _require(least >= -_ROUNDING and most <= np.log(n) + _ROUNDING, "logsum is out of range")
    return starts


def _check_starts(starts: Array, what: str, count: int, size: int) -> None:
    """Where `count` lists start that fill `size` places one after the other."""
    right = len(starts) == count + 1 and starts[0] == 0 and starts[-1] == size
    _require(bool(right and (starts[1:] >= starts[:-1]).all()), f"{what} do not divide {size:,} into {count:,} lists")


def _check_times(t: Array, what: str) -> None:
    _require(t.dtype in _TIMES, f"{what} is {t.dtype}")
    _require(t.dtype.kind == "i" or bool(np.isfinite(t).all()), f"{what} holds a time that is not finite")


def _array(arrays: Arrays, name: str, dtype: Any, ndim: int, size: int | None = None) -> Array:
    """An array of the right kind, in the layout compiled code takes."""
    _require(name in arrays, f"{name} is missing")
    array = arrays[name]
    right = array.ndim == ndim and array.flags.c_contiguous and array.dtype.isnative
    _require(right and (dtype is None or array.dtype == dtype), f"{name} is {array.dtype} of shape {array.shape}")
    _require(size is None or len(array) == size, f"{name} has {len(array):,} rows")
    return array


def _within(values: Array, what: str, low: int, high: int) -> Array:
    """The values, if all are at least `low` and less than `high`."""
    right = not values.size or (values.min() >= low and values.max() < high)
    _require(bool(right), f"{what} holds a number that is not from {low} to {high - 1:,}")
    return values


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise DataError(otherwise)


@njit
def _in_order(ends: Array, text: Array, order: Array) -> bool:
    """Whether each name comes before the next, in the order of bytes."""
    for i in range(order.size - 1):
        a, b = order[i], order[i + 1]
        first, second = ends[a], ends[b]
        length, other = ends[a + 1] - first, ends[b + 1] - second
        j = 0
        while j < length and j < other and text[first + j] == text[second + j]:
            j += 1
        if j == other or (j < length and text[first + j] > text[second + j]):
            return False
    return True
