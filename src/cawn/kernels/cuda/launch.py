"""Tools for launching kernels: the device, block sizes and out-of-memory errors. No Triton import."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cawn.errors import DeviceError

Result = TypeVar("Result")
USE_CPU = "use device cpu"


def require_triton(device: torch.device) -> None:
    """A DeviceError unless kernels can run there: on CUDA, or in Triton's interpreter, which the tests use."""
    try:
        from triton import knobs
    except ImportError as error:
        raise DeviceError(f"the kernels on {device} need Triton, which comes with PyTorch's CUDA builds") from error
    if device.type != "cuda" and not knobs.runtime.interpret:
        raise DeviceError(f"the GPU's kernels cannot run on {device}; give cuda")


def current(device: torch.device) -> AbstractContextManager[object]:
    """Make `device` current: Triton launches on the current device, not on that of its tensors."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def block_of(size: int, largest: int) -> int:
    """The smallest power of two >= `size`, between 16 and `largest`."""
    return min(max(1 << (size - 1).bit_length(), 16), largest)


def ran_out(error: BaseException) -> bool:
    """Whether the error means that device memory ran out."""
    messages = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(message in str(error) for message in messages)
    )


@contextmanager
def memory_for(what: str, remedy: str = USE_CPU) -> Iterator[None]:
    """Turns running out of device memory into a DeviceError of one line."""
    try:
        yield
    except RuntimeError as error:
        if ran_out(error):
            raise DeviceError(f"out of device memory for {what}; {remedy}") from error
        raise


def place(arrays: Sequence[npt.NDArray[Any]], device: torch.device, what: str, share: float = 0.5) -> list[Tensor]:
    """Copies of arrays that kernels can read.

    Each is on the device if it takes at most this share of the memory that is free there, else in pinned host memory,
    which kernels read over the bus.
    """
    found = list[Tensor]()
    kept = 0
    with memory_for(f"{what} ({sum(array.nbytes for array in arrays) / 2**30:,.1f} GiB)"):
        for array in arrays:
            held = torch.from_numpy(np.array(array))
            fits = held.nbytes <= share * free_memory(device)
            found.append(held.to(device) if fits else held.pin_memory())
            kept += 0 if fits else held.nbytes
    if kept:
        warnings.warn(
            f"{kept / 2**30:,.1f} GiB of {what} do not fit on {device} and stay in pinned host memory", stacklevel=3
        )
    return found


def free_memory(device: torch.device) -> float:
    """Free bytes, including PyTorch's cache; infinite for other devices than GPUs."""
    if device.type != "cuda":
        return math.inf
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + cached


class Pieces:
    """Processes a range in pieces of `size`; halves the size for good whenever device memory runs out."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, work: Callable[[int, int], Result], total: int) -> Iterator[Result]:
        """Yield work(first, last) for consecutive pieces of range(total)."""
        first = 0
        while first < total:
            size = self.size
            last = min(first + size, total)
            try:
                result = work(first, last)
            except RuntimeError as error:
                if not ran_out(error):
                    raise
                if size == 1:
                    raise DeviceError(f"out of device memory for a single pair; {USE_CPU}") from error
                result = None
            if result is None:  # outside the handler, where the tensors of the failed piece are no longer referenced
                torch.cuda.empty_cache()
                self.size = max(size // 2, 1)
                continue
            yield result
            first = last
