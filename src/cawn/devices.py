"""Which processor the network runs on."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import sys
import warnings
from typing import TYPE_CHECKING, Any, Literal

from cawn.checks import check_choice
from cawn.errors import DeviceError, QueryError, brief

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda"]
_CAPABILITY = (8, 0)  # the oldest the kernels are compiled for in tests


def pick_device(device: Device) -> torch.device:
    """The device by name; "auto" is the GPU where one can be used."""
    import torch

    check_device(device)
    if device == "auto":
        if not torch.cuda.is_available():
            return torch.device("cpu")
        if why := why_no_engine(torch.device("cuda")):
            warnings.warn(f"there is a GPU, but {why}; the CPU is used", stacklevel=2)
        return torch.device("cpu" if why else "cuda")
    return named_device(device)


def check_device(device: str) -> None:
    """Refuse what is no device."""
    check_choice(device, "device", ("auto", "cpu", "cuda"))


def named_device(device: Any) -> torch.device:
    """A device as PyTorch names it, "cuda:1" say, if it can be used."""
    import torch

    if not isinstance(device, str | torch.device):
        raise QueryError(f"device is {brief(device)}: give cpu or cuda")
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise QueryError(f"device is {brief(device)}: give cpu or cuda") from error
    if found.type not in ("cpu", "cuda"):
        raise QueryError(f"device is {brief(device)}: give cpu or cuda")
    if found.type == "cuda":
        if not torch.cuda.is_available():
            raise DeviceError(f"device is {str(found)!r}, but {why_no_cuda()}; give cpu")
        if found.index is not None and found.index >= torch.cuda.device_count():
            raise DeviceError(f"device is {str(found)!r}, but there are {torch.cuda.device_count()} CUDA devices")
        if why := why_no_engine(found):
            raise DeviceError(f"device is {str(found)!r}, but {why}; give cpu")
    return found


def why_no_cuda() -> str:
    """In a few words, why CUDA cannot be used."""
    import torch

    if torch.version.cuda is None:
        return "this build of PyTorch is for the CPU alone"
    if not may_have_cuda():
        return "no CUDA driver is installed"
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError) as error:
        return f"CUDA does not start ({str(error).splitlines()[0].split('. ')[0].rstrip('.')})"
    return "no CUDA device can be used"


def why_no_engine(device: torch.device) -> str | None:
    """In a few words, why the kernels of `cawn.gpu` cannot run on a CUDA device that is there; None if they can."""
    import torch

    if importlib.util.find_spec("triton") is None:
        return "Triton is missing, which comes with PyTorch's CUDA builds"
    found = torch.cuda.get_device_capability(device)
    if found < _CAPABILITY:
        name, least = torch.cuda.get_device_name(device), ".".join(map(str, _CAPABILITY))
        return f"{name} has compute capability {found[0]}.{found[1]}, and {least} is needed"
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        return "Triton needs a C compiler, and there is neither gcc nor clang"
    return None


def may_have_cuda() -> bool:
    """Whether there is a CUDA driver, asked without loading PyTorch."""
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True


def keep_freed_memory() -> None:
    """Let the C library keep large freed blocks, rather than fetch fresh pages for each tensor.

    A training step allocates and frees tensors of tens of megabytes; page faults took a third of its time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        max_mmaps, trim_threshold = -4, -1
        mallopt(max_mmaps, 0)
        mallopt(trim_threshold, 1 << 30)
