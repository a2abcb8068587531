"""What stands between this package and the GPU: finding Triton, block sizes, and memory that runs out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, TypeVar

from cawn.errors import DeviceError

if TYPE_CHECKING:
    import torch

Result = TypeVar("Result")


def require_triton(device: torch.device) -> None:
    """The kernels run on CUDA, or on the CPU in Triton's interpreter, for tests."""
    try:
        from triton import knobs
    except ImportError as error:
        raise DeviceError(f"the engine on {device} needs Triton, which comes with PyTorch's CUDA builds") from error
    if device.type != "cuda" and not knobs.runtime.interpret:
        raise DeviceError(f"the GPU's kernels cannot run on {device}; give cuda")


def current(device: torch.device) -> AbstractContextManager[object]:
    """Triton launches on the current device, whichever its tensors are on: so make this one current."""
    import torch

    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


class Aside:
    """A second stream of a device, for small work beside what the current one does."""

    def __init__(self, device: torch.device) -> None:
        import torch

        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._busy = False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """What is launched here runs after what the current stream has by now. Memory is not to be made here."""
        import torch

        if self._stream is None:
            yield
            return
        self._busy = True
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        with torch.cuda.stream(self._stream):
            yield

    def join(self) -> None:
        """The current stream waits for what was launched aside."""
        import torch

        if self._stream is not None and self._busy:
            torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)
            self._busy = False


def block_of(size: int, largest: int) -> int:
    """The smallest power of two that holds `size`, within bounds."""
    return min(max(1 << (size - 1).bit_length(), 16), largest)


@contextmanager
def memory_for(what: str, remedy: str) -> Iterator[None]:
    """Running out of device memory is one clear line."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        raise DeviceError(f"out of device memory for {what}; {remedy}") from error


def in_pieces(work: Callable[[int, int], Result], size: int, piece: int) -> Iterator[Result]:
    """work(first, last) over range(size), `piece` at once; half as many whenever the device runs out of memory."""
    import torch

    first = 0
    while first < size:
        last = min(first + piece, size)
        try:
            result = work(first, last)
        except torch.OutOfMemoryError as error:
            if piece == 1:
                raise DeviceError("out of device memory for a single pair; use device cpu") from error
            result = None
        if result is None:  # only here the failed piece is forgotten, and its memory can be given back
            torch.cuda.empty_cache()
            piece = max(piece // 2, 1)
            continue
        yield result
        first = last
