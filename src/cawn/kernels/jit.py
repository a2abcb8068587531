"""How functions are compiled with numba, and how they are run on several threads."""

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
    """Like `njit`, with arithmetic that may be reordered and ignores NaN and infinity, so that LLVM vectorizes it."""
    return _compiled(function, fastmath=True)


def inline_fast(function: Function) -> Function:
    """Like `inline`, with the arithmetic of `njit_fast`."""
    return _compiled(function, inline="always", fastmath=True)


def _compiled(function: Function, **options: Any) -> Function:
    """Cache the result where numba can, else in a temporary folder, else not at all."""
    options |= {"nogil": True, "error_model": "numpy"}
    usual = numba.config.CACHE_DIR
    try:
        return cast(Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # no writable folder: a read-only install without a home
        numba.config.CACHE_DIR = _temporary_cache()
        return cast(Function, numba.njit(cache=bool(numba.config.CACHE_DIR), **options)(function))
    finally:
        numba.config.CACHE_DIR = usual


@lru_cache(maxsize=1)
def _temporary_cache() -> str:
    """A folder for compiled code that only this user can write to, or "".

    Whoever can write to it can run code in this process, so a folder that others made or can change is not used.
    """
    try:
        folder = os.path.join(tempfile.gettempdir(), f"cawn-{os.getuid()}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
        tempfile.TemporaryFile(dir=folder).close()
    except (AttributeError, OSError):  # AttributeError on Windows, where numba always finds a folder
        return ""
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return folder if ours else ""


def num_cores() -> int:
    """Number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def num_threads(threads: int | None) -> int:
    """Number of threads to start if `threads` are asked for (None: all cores): at most one per core."""
    return num_cores() if threads is None else min(int(threads), num_cores())


def check_threads(threads: int | None) -> None:
    """Raise QueryError if `threads` is neither None nor a plausible number of threads."""
    if threads is not None and (not is_integer(threads) or not 1 <= threads <= MAX_THREADS):
        raise QueryError(f"threads is {brief(threads)}: give a number of cores from 1 to {MAX_THREADS:,}")


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

    Python threads and functions that release the GIL, rather than numba's parallel loops: several threads may call
    this at once, and no second threading runtime runs beside that of PyTorch.
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
