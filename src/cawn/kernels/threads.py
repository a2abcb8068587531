"""Running compiled functions on several threads."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise


def num_cores() -> int:
    """Number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def num_threads(threads: int | None) -> int:
    """Number of threads to start if `threads` are requested (None: all cores): at most one per core."""
    return num_cores() if threads is None else min(int(threads), num_cores())


def total_memory() -> float:
    """Bytes of main memory; infinity if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf


@lru_cache(maxsize=8)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="cawn")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def in_parallel(work: Callable[[int, int], object], bounds: list[int], threads: int | None) -> None:
    """Call `work(lo, hi)` for each pair of consecutive bounds, on `threads` threads (None: all cores).

    Uses Python threads, not numba's parallel loops: it can be called concurrently, and adds no second OpenMP runtime.
    """
    spans = [(lo, hi) for lo, hi in pairwise(bounds) if lo < hi]
    threads = min(num_threads(threads), len(spans))
    if threads <= 1:
        for lo, hi in spans:
            work(lo, hi)
    else:
        list(_pool(threads).map(lambda span: work(*span), spans))


def even_bounds(size: int, chunk: int) -> list[int]:
    """Bounds that split range(size) into pieces of at most `chunk`."""
    return [*range(0, size, chunk), size]
