"""Checks of arrays read from files, before compiled code uses them as indices without bounds checks.

Each raises DataError, and takes time linear in the size of the arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cawn.checks import Array
from cawn.data.names import SLOTS, NameIndex
from cawn.data.times import check_span
from cawn.errors import DataError

Arrays = dict[str, Array]


_TYPES: dict[str, Any] = {"src": np.int32, "dst": np.int32, "t": None, "negative": np.int32, "link_id": np.uint64}
_TYPES |= {"rows": np.int64, "weight": np.float32, "msg": np.float32, "x": np.float32}


def check_columns(arrays: Arrays, num_links: int, num_nodes: int) -> None:
    """The types and lengths of the columns of links and nodes, which kernels rely on."""
    for name, dtype in _TYPES.items():
        if name in arrays or name in ("src", "dst", "t"):
            ndim = 2 if name in ("msg", "x") else 1
            check_array(arrays, name, dtype, ndim, num_nodes if name == "x" else num_links)


def check_links(arrays: Arrays, num_nodes: int) -> None:
    """Links sorted by time between known nodes, with any optional columns."""
    t = check_array(arrays, "t", None, 1)
    check_columns(arrays, len(t), num_nodes)
    require(t.dtype in (np.int64, np.float64), f"t is {t.dtype}")
    require(t.dtype.kind == "i" or bool(np.isfinite(t).all()), "t is not finite")
    require(bool((t[1:] >= t[:-1]).all()), "t is not sorted")
    check_span(t[[0, -1]] if len(t) else t)
    for name, least in (("src", 0), ("dst", 0), ("negative", -1)):
        if name in arrays:
            check_range(arrays[name], name, least, num_nodes)
    for name in ("msg", "x"):
        if name in arrays:
            require(bool(np.isfinite(arrays[name]).all()), f"{name} is not finite")
    weight = arrays.get("weight", np.empty(0))
    require(bool((np.isfinite(weight) & (weight >= 0)).all()), "weight is negative or not finite")


def check_names(arrays: Arrays) -> None:
    """The arrays of a `NameIndex`: every node has a name of its own, at which its hash table finds it."""
    index = NameIndex(arrays)
    check_name_arrays(arrays, len(index))
    if index.strings:
        ends, text = arrays["name_ends"], arrays["name_bytes"]
        ascending = bool(ends[0] == 0 and (ends[1:] >= ends[:-1]).all())
        require(ascending, f"name_ends do not divide {len(text):,} into {len(index):,} lists")
        require(not ((text[ends[:-1][ends[:-1] < len(text)]] & 0xC0) == 0x80).any(), "name_ends split a character")
        try:
            text.tobytes().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise DataError("name_bytes are not UTF-8") from error
    if SLOTS in arrays:
        used = arrays[SLOTS][arrays[SLOTS] != 0] & np.uint64(0xFFFFFFFF)
        check_range(used, SLOTS, 1, len(index) + 1)
        require(len(used) == len(index), f"{SLOTS} have {len(used):,} names")
    require(index.is_consistent(), "a name is not found at its node, or two nodes have it")


def check_name_arrays(arrays: Arrays, count: int) -> None:
    """The types and lengths of the arrays of a `NameIndex` of `count` names, which kernels rely on."""
    if "name_bytes" in arrays:
        ends = check_array(arrays, "name_ends", np.int64, 1, count + 1)
        check_array(arrays, "name_bytes", np.uint8, 1, int(ends[-1]))
    else:
        check_array(arrays, "names", np.int64, 1, count)
    if (slots := arrays.get(SLOTS)) is not None:
        right = slots.dtype == np.uint64 and slots.ndim == 1 and len(slots) > count and len(slots).bit_count() == 1
        require(right, f"{SLOTS} are {slots.dtype} of shape {slots.shape}")


def check_array(arrays: Arrays, name: str, dtype: Any, ndim: int, size: int | None = None) -> Array:
    """An array of this type (any, if None) and number of dimensions, contiguous and in native byte order."""
    require(name in arrays, f"{name} is missing")
    array = arrays[name]
    right = array.ndim == ndim and array.flags.c_contiguous and array.dtype.isnative
    require(right and (dtype is None or array.dtype == dtype), f"{name} is {array.dtype} of shape {array.shape}")
    require(size is None or len(array) == size, f"{name} has {len(array):,} rows")
    return array


def check_range(values: Array, name: str, low: int, high: int) -> None:
    """Integers of at least `low` and less than `high`."""
    right = not values.size or (values.min() >= low and values.max() < high)
    require(bool(right), f"{name} has a value outside {low} to {high - 1:,}")


def require(condition: bool, problem: str) -> None:
    if not condition:
        raise DataError(problem)
