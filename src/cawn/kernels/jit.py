"""The one way functions are compiled here, and the one way they are spread over threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar, cast

import numba
import numpy as np

from cawn.errors import QueryError

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}

Function = TypeVar("Function", bound=Callable[..., object])


def njit(function: Function) -> Function:
    """Compile on first use, keep the result on disk, release the GIL while running."""
    return cast(Function, numba.njit(**_OPTIONS)(function))


def inline(function: Function) -> Function:
    """Like `njit`, for the small functions that are part of a hot loop."""
    return cast(Function, numba.njit(inline="always", **_OPTIONS)(function))


def njit_fast(function: Function) -> Function:
    """Like `njit`, for arithmetic that may be reordered and that meets no NaN or infinity: LLVM makes vectors of it."""
    return cast(Function, numba.njit(fastmath=True, **_OPTIONS)(function))


def inline_fast(function: Function) -> Function:
    """Like `inline`, with the arithmetic of `njit_fast`."""
    return cast(Function, numba.njit(inline="always", fastmath=True, **_OPTIONS)(function))


def num_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=8)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="cawn")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked child has the pool but not its threads


def in_parallel(work: Callable[[int, int], object], bounds: list[int], threads: int | None) -> None:
    """Call `work(lo, hi)` for each pair of consecutive bounds, on `threads` threads (all cores by default).

    Threads of our own and functions that release the GIL, rather than numba's parallel loops: they may be
    entered from several Python threads at once, and need no threading runtime beside the one of PyTorch.
    """
    if threads is not None and (not isinstance(threads, int | np.integer) or threads < 1):
        raise QueryError(f"threads is {threads!r}: give a positive number of cores")
    spans = [(lo, hi) for lo, hi in pairwise(bounds) if lo < hi]
    threads = min(threads or num_cores(), len(spans))
    if threads <= 1:
        for lo, hi in spans:
            work(lo, hi)
    else:
        list(_pool(threads).map(lambda span: work(*span), spans))


def even_bounds(size: int, chunk: int) -> list[int]:
    """Cut `range(size)` into pieces of at most `chunk`."""
    return [*range(0, size, chunk), size]
