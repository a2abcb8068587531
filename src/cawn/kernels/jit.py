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

_UNCOUNTED: dict[str, Any] = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}
_FUSED = {"contract"}


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


def _compiler(**options: Any) -> Callable[[Function], Function]:
    """A decorator that compiles on first use, releases the GIL while running, and keeps the result on disk: where numba
    can, else in a temporary folder, else not at all."""
    options |= {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}  # no other library calls it

    def compiled(function: Function) -> Function:
        usual = numba.config.CACHE_DIR
        try:
            return cast(Function, numba.njit(cache=True, **options)(function))
        except RuntimeError:  # no writable folder: a read-only install without a home
            numba.config.CACHE_DIR = _temporary_cache()
            return cast(Function, numba.njit(cache=bool(numba.config.CACHE_DIR), **options)(function))
        finally:
            numba.config.CACHE_DIR = usual

    return compiled


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


njit = _compiler()
njit_fused = _compiler(fastmath=_FUSED)  # multiply-adds may be fused: rounded once instead of twice, and faster
njit_fast = _compiler(fastmath=True)  # arithmetic may be reordered and ignores NaN and infinity: LLVM vectorizes it

# Small functions that are part of a hot loop: the callers of the first compile it anew each time; the others, which are
# arithmetic, are compiled once, then copied to where they are called.
inline = _compiler(inline="always")
inline_fused = _compiler(forceinline=True, fastmath=_FUSED)
inline_fast = _compiler(forceinline=True, fastmath=True)

# Functions that only compiled functions call, and that make no arrays: they do not count references to those they are
# given, which takes longer than reading a few numbers.
reader = _compiler(no_cpython_wrapper=True, **_UNCOUNTED)
reader_fused = _compiler(no_cpython_wrapper=True, fastmath=_FUSED, **_UNCOUNTED)


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
