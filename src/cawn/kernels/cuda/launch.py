"""What stands between this package and the GPU: finding Triton, block sizes, and memory that runs out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, TypeVar

from cawn.errors import DeviceError

if TYPE_CHECKING:
    import torch

Result = TypeVar("Result")
USE_CPU = "use device cpu"


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

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """What is launched here runs after what the current stream has by now. Memory is not to be made here."""
        import torch

        if self._stream is None:
            yield
            return
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        with torch.cuda.stream(self._stream):
            yield

    def join(self) -> None:
        """The current stream waits for what was launched aside."""
        import torch

        if self._stream is not None:
            torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)


def block_of(size: int, largest: int) -> int:
    """The smallest power of two that holds `size`, within bounds."""
    return min(max(1 << (size - 1).bit_length(), 16), largest)


def ran_out(error: BaseException) -> bool:
    """Whether this is how running out of device memory shows."""
    import torch

    messages = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(message in str(error) for message in messages)
    )


@contextmanager
def memory_for(what: str, remedy: str = USE_CPU) -> Iterator[None]:
    """Running out of device memory is one clear line."""
    try:
        yield
    except RuntimeError as error:
        if ran_out(error):
            raise DeviceError(f"out of device memory for {what}; {remedy}") from error
        raise


class Pieces:
    """Work on a range, so much of it at once; half as much, from then on, whenever the device runs out of memory."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, work: Callable[[int, int], Result], total: int, at_most: int | None = None) -> Iterator[Result]:
        """work(first, last) over range(total)."""
        import torch

        first = 0
        while first < total:
            size = self.size if at_most is None else min(self.size, at_most)
            last = min(first + size, total)
            try:
                result = work(first, last)
            except RuntimeError as error:
                if not ran_out(error):
                    raise
                if size == 1:
                    raise DeviceError(f"out of device memory for a single pair; {USE_CPU}") from error
                result = None
            if result is None:  # only here the failed piece is forgotten, and its memory can be given back
                torch.cuda.empty_cache()
                self.size = max(size // 2, 1)
                continue
            yield result
            first = last
