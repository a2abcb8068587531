"""The one way functions are compiled here, and the one way they are spread over threads."""

from __future__ import annotations

import math
import os
import stat
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar, cast

import numba

from cawn.checks import is_integer
from cawn.errors import QueryError, brief

MAX_THREADS = 1024

Function = TypeVar("Function", bound=Callable[..., object])


def njit(function: Function) -> Function:
    """Compile on first use, keep the result on disk, release the GIL while running."""
    return _compiled(function)


def inline(function: Function) -> Function:
    """Like `njit`, for the small functions that are part of a hot loop."""
    return _compiled(function, inline="always")


def njit_fast(function: Function) -> Function:
    """Like `njit`, for arithmetic that may be reordered and that meets no NaN or infinity: LLVM makes vectors of it."""
    return _compiled(function, fastmath=True)


def inline_fast(function: Function) -> Function:
    """Like `inline`, with the arithmetic of `njit_fast`."""
    return _compiled(function, inline="always", fastmath=True)


def _compiled(function: Function, **options: Any) -> Function:
    """Keep the result where numba can; else in a temporary folder; else nowhere, and compile in every process."""
    options |= {"nogil": True, "error_model": "numpy"}
    usual = numba.config.CACHE_DIR
    try:
        return cast(Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # no folder can be written: a read-only install and no home
        numba.config.CACHE_DIR = _temporary_cache()
        return cast(Function, numba.njit(cache=bool(numba.config.CACHE_DIR), **options)(function))
    finally:
        numba.config.CACHE_DIR = usual


@lru_cache(maxsize=1)
def _temporary_cache() -> str:
    """A folder for compiled code that only this user can write; "" if there is none.

    Whoever writes there decides what runs here, so a folder that others made or can change is not used.
    """
    try:
        folder = os.path.join(tempfile.gettempdir(), f"cawn-{os.getuid()}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
        tempfile.TemporaryFile(dir=folder).close()
    except (AttributeError, OSError):  # the first: Windows, where the user's own folders can always be written
        return ""
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return folder if ours else ""


def num_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def num_threads(threads: int | None) -> int:
    """How many threads to start where `threads` are asked for (None: all cores): at most one per core."""
    check_threads(threads)
    return num_cores() if threads is None else min(int(threads), num_cores())


def check_threads(threads: int | None) -> None:
    """Refuse a number of threads that cannot be meant."""
    if threads is not None and (not is_integer(threads) or not 1 <= threads <= MAX_THREADS):
        raise QueryError(f"threads is {brief(threads)}: give a number of cores from 1 to {MAX_THREADS:,}")


def total_memory() -> float:
    """Bytes of main memory; infinite where that is not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf


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
    spans = [(lo, hi) for lo, hi in pairwise(bounds) if lo < hi]
    threads = min(num_threads(threads), len(spans))
    if threads <= 1:
        for lo, hi in spans:
            work(lo, hi)
    else:
        list(_pool(threads).map(lambda span: work(*span), spans))


def even_bounds(size: int, chunk: int) -> list[int]:
    """Cut `range(size)` into pieces of at most `chunk`."""
    return [*range(0, size, chunk), size]
