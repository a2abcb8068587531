"""Argument checks: each returns the value as a plain type, or raises a one-line error."""

from __future__ import annotations

import errno
import math
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.errors import DataError, QueryError, brief, reason

Array = npt.NDArray[Any]

MAX_THREADS = 1024
_UNITS = ("", "K", "M", "G", "T")
_BYTES = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*([KMGT]?)(I?)B?", re.ASCII | re.IGNORECASE)


def is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_integer(value: Any, name: str, low: int, high: int | None = None) -> int:
    """An integer from low to high (inclusive)."""
    if not is_integer(value) or value < low or (high is not None and value > high):
        bounds = f"of {low:,} or more" if high is None else f"from {low:,} to {high:,}"
        raise QueryError(f"{name} is {brief(value)}: give an integer {bounds}")
    return int(value)


def check_seed(seed: Any) -> np.uint64:
    """A seed from 0 to 2**64 - 1."""
    if not is_integer(seed) or not 0 <= seed < 2**64:
        raise QueryError(f"seed is {brief(seed)}: give an integer from 0 to 2**64 - 1")
    return np.uint64(seed)


def check_seeds(given: Any) -> list[int]:
    """The seeds that are meant by their number, starting at 0, or by a list of distinct ones."""
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        if not given:
            raise QueryError(f"seeds is {brief(given)}: give their number, or a list of at least one seed")
        for seed in given:
            check_seed(seed)
        return list(dict.fromkeys(int(seed) for seed in given))
    check_integer(given, "seeds", 1)
    return list(range(int(given)))


def check_number(value: Any, name: str, rule: str, accepted: Callable[[float], bool]) -> float:
    """A finite number for which `accepted` is true; `rule` describes it."""
    is_number = isinstance(value, float | np.floating) or is_integer(value)
    if not is_number or not _is_finite(value) or not accepted(value):
        raise QueryError(f"{name} is {brief(value)}: give {rule}")
    return float(value)


def parse_bytes(text: Any, name: str = "memory") -> int:
    """An amount of memory as a number of bytes: "4GiB", "500MB" (decimal), "1.5 G" (as GiB), or a number of bytes.

    Letters without "iB" or "B" mean what they mean elsewhere on a command line: powers of 1,024.
    """
    found = _BYTES.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None and not is_integer(text):
        raise QueryError(f"{name} is {brief(text)}: give an amount such as 4GiB, 500MB or a number of bytes")
    if found is None:
        return check_integer(text, name, 1)
    number, unit, binary = found.groups()
    decimal = text.strip().upper().endswith("B") and not binary
    amount = int(float(number) * (1000 if decimal else 1024) ** _UNITS.index(unit.upper()))
    return check_integer(amount, name, 1)


def check_flags(**flags: Any) -> None:
    """True or False."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            raise QueryError(f"{name} is {brief(value)}: give True or False")


def check_choice(value: Any, name: str, choices: Sequence[str]) -> None:
    """One of these strings."""
    if not isinstance(value, str) or value not in choices:
        raise QueryError(f"{name} is {brief(value)}: give one of {', '.join(choices)}")


def check_words(values: Any, name: str, choices: Sequence[str]) -> tuple[str, ...]:
    """A tuple of some of these strings."""
    if not isinstance(values, tuple | list):
        raise QueryError(f"{name} is {brief(values)}: give a tuple of {', '.join(choices)}")
    for value in values:
        if not isinstance(value, str) or value not in choices:
            raise QueryError(f"{name} {brief(value)}: give one of {', '.join(choices)}")
    return tuple(values)


def check_path(value: Any, name: str) -> Path:
    """The path of a file or folder."""
    found = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(found, str) or not found:
        raise QueryError(f"{name} is {brief(value)}: give a path")
    try:
        os.lstat(found)
    except ValueError as error:
        raise QueryError(f"{name} is {brief(value)}: no file can have this name; give a path") from error
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            raise QueryError(f"{name} is {brief(value)}: {error.strerror}; give a path") from error
    return Path(found)


def check_type(value: Any, name: str, kind: type, remedy: str) -> None:
    """An instance of `kind`."""
    if not isinstance(value, kind):
        raise QueryError(f"{name} is a {type(value).__name__}: {remedy}")


def as_array(values: npt.ArrayLike, what: str) -> Array:
    """A NumPy array of anything that can become one (lists, tensors, columns), else a DataError."""
    if np.ma.is_masked(values):
        raise DataError(f"{what}: some values are masked; fill or drop them first")
    try:
        return np.asarray(values)
    except Exception as error:  # another library's object can raise anything
        raise DataError(f"{what}: cannot be read as an array ({reason(error)}); give numbers of one length") from error


def refuse_values(bad: npt.NDArray[np.bool_], values: Array, what: str, rule: str) -> None:
    """A DataError about the first bad value of an array, if there is one."""
    if bad.any():
        i = int(np.argmax(bad))
        raise DataError(f"{what}[{i}] is {values[i]}: {rule}")


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer too large for a float
        return False


def check_threads(threads: int | None) -> None:
    """Raise QueryError if `threads` is neither None nor a plausible number of threads."""
    if threads is not None and (not is_integer(threads) or not 1 <= threads <= MAX_THREADS):
        raise QueryError(f"threads is {brief(threads)}: give a number of cores from 1 to {MAX_THREADS:,}")
