"""How functions are compiled with numba."""

from __future__ import annotations

import gc
import os
import stat
import tempfile
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar, TypeVar, cast

import numba
from llvmlite import ir
from numba.core import cgutils, event, types
from numba.core.cpu import CPUTargetOptions
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., object])

_UNCOUNTED = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}


def njit(function: Function) -> Function:
    """Compile on first use, keep the result on disk, release the GIL while running."""
    return _compiled(function)


def inline(function: Function) -> Function:
    """Like `njit`, for the small functions that are part of a hot loop. Its callers compile it anew each time."""
    return _compiled(function, inline="always")


def njit_fused(function: Function) -> Function:
    """Like `njit`, with multiply-adds that may be fused: rounded once instead of twice, and faster."""
    return _compiled(function, fastmath={"contract"})


def reader(function: Function) -> Function:
    """For functions that only compiled functions call, and that make no arrays: they do not count references to those
    they are given, which takes longer than reading a few numbers."""
    return _compiled(function, no_cpython_wrapper=True, **_UNCOUNTED)


def reader_fused(function: Function) -> Function:
    """Like `reader`, with the arithmetic of `njit_fused`."""
    return _compiled(function, no_cpython_wrapper=True, fastmath={"contract"}, **_UNCOUNTED)


def njit_fast(function: Function) -> Function:
    """Like `njit`, with arithmetic that may be reordered and ignores NaN and infinity, so that LLVM vectorizes it."""
    return _compiled(function, fastmath=True)


def inline_fused(function: Function) -> Function:
    """For arithmetic that is part of hot loops: like `njit_fused`; compiled once, then copied to where it is called."""
    return _compiled(function, forceinline=True, fastmath={"contract"})


def inline_fast(function: Function) -> Function:
    """Like `inline_fused`, with the arithmetic of `njit_fast`."""
    return _compiled(function, forceinline=True, fastmath=True)


class _PauseCollection(event.Listener):  # type: ignore[misc]
    """Numba makes so many objects that garbage collection, which looks at all of them again, would take a tenth of the
    time; it compiles one function at a time, with those that this one calls."""

    enabled: ClassVar[list[bool]] = []

    def on_start(self, _: Any) -> None:
        self.enabled.append(gc.isenabled())
        gc.disable()

    def on_end(self, _: Any) -> None:
        if self.enabled.pop():
            gc.enable()


event.register("numba:compile", _PauseCollection())


def _compiled(function: Function, **options: Any) -> Function:
    """Cache the result where numba can, else in a temporary folder, else not at all."""
    options |= {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}  # no other library calls it
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


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, array: Any, position: Any) -> Any:
    """Bring an element of an array into the cache, without waiting for it; nothing happens if there is none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(array)(context, builder, arguments[0]).data
        pointer = builder.bitcast(builder.gep(data, arguments[1:]), cgutils.voidptr_t)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, *[cgutils.int32_t] * 3])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(call, [pointer, *map(cgutils.int32_t, (0, 3, 1))])  # to read, into all caches, data
        return context.get_dummy_value()

    return types.void(array, position), generate
