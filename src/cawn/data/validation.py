"""Checks of arrays read from files, before compiled code uses them as indices without bounds checks.

Each raises DataError, and takes time linear in the size of the arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.names import SLOTS, NameIndex
from cawn.errors import DataError

Array = npt.NDArray[Any]
Arrays = dict[str, Array]


def check_names(arrays: Arrays) -> None:
    """The arrays of a `NameIndex`: every node has a name of its own, at which its hash table finds it."""
    names = {name: array for name, array in arrays.items() if name in ("names", "name_ends", "name_bytes", SLOTS)}
    if "name_bytes" in names:
        ends, text = check_array(names, "name_ends", np.int64, 1), check_array(names, "name_bytes", np.uint8, 1)
        check_offsets(ends, "name_ends", len(ends) - 1, len(text))
        require(not ((text[ends[:-1][ends[:-1] < len(text)]] & 0xC0) == 0x80).any(), "name_ends split a character")
        try:
            text.tobytes().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise DataError("name_bytes are not UTF-8") from error
    else:
        check_array(names, "names", np.int64, 1)
    index = NameIndex(names)
    if SLOTS in names:
        check_slots(names[SLOTS], len(index))
        used = names[SLOTS][names[SLOTS] != 0] & np.uint64(0xFFFFFFFF)
        check_range(used, SLOTS, 1, len(index) + 1)
        require(len(used) == len(index), f"{SLOTS} have {len(used):,} names")
    require(index.is_consistent(), "a name is not found at its node, or two nodes have it")


def check_slots(slots: Array, count: int) -> None:
    """Slots of a hash table with room for `count` names."""
    right = slots.dtype == np.uint64 and slots.ndim == 1 and len(slots) > count and len(slots) & (len(slots) - 1) == 0
    require(right, f"{SLOTS} are {slots.dtype} of shape {slots.shape}")


def check_links(arrays: Arrays, num_nodes: int) -> None:
    """Links sorted by time between known nodes, with any optional columns."""
    t = check_array(arrays, "t", None, 1)
    check_times(t, "t")
    require(bool((t[1:] >= t[:-1]).all()), "t is not sorted")
    for name in ("src", "dst"):
        check_range(check_array(arrays, name, np.int32, 1, len(t)), name, 0, num_nodes)
    if "negative" in arrays:
        check_range(check_array(arrays, "negative", np.int32, 1, len(t)), "negative", -1, num_nodes)
    if "link_id" in arrays:
        check_array(arrays, "link_id", np.uint64, 1, len(t))
    if "weight" in arrays:
        weight = check_array(arrays, "weight", np.float32, 1, len(t))
        require(bool((np.isfinite(weight) & (weight >= 0)).all()), "weight is negative or not finite")
    for name, size in (("msg", len(t)), ("x", num_nodes)):
        if name in arrays:
            require(bool(np.isfinite(check_array(arrays, name, np.float32, 2, size)).all()), f"{name} is not finite")


def check_array(arrays: Arrays, name: str, dtype: Any, ndim: int, size: int | None = None) -> Array:
    """An array of this type (any, if None) and number of dimensions, contiguous and in native byte order."""
    require(name in arrays, f"{name} is missing")
    array = arrays[name]
    right = array.ndim == ndim and array.flags.c_contiguous and array.dtype.isnative
    require(right and (dtype is None or array.dtype == dtype), f"{name} is {array.dtype} of shape {array.shape}")
    require(size is None or len(array) == size, f"{name} has {len(array):,} rows")
    return array


def check_range(values: Array, name: str, low: int, high: int) -> Array:
    """The values, if all are at least `low` and less than `high`."""
    right = not values.size or (values.min() >= low and values.max() < high)
    require(bool(right), f"{name} has a value outside {low} to {high - 1:,}")
    return values


def check_offsets(starts: Array, name: str, count: int, size: int) -> None:
    """Offsets of `count` consecutive lists in an array of length `size`."""
    right = len(starts) == count + 1 and starts[0] == 0 and starts[-1] == size
    require(bool(right and (starts[1:] >= starts[:-1]).all()), f"{name} do not divide {size:,} into {count:,} lists")


def check_times(t: Array, name: str) -> None:
    """int64 or finite float64."""
    require(t.dtype in (np.int64, np.float64), f"{name} is {t.dtype}")
    require(t.dtype.kind == "i" or bool(np.isfinite(t).all()), f"{name} is not finite")


def require(condition: bool, problem: str) -> None:
    if not condition:
        raise DataError(problem)
