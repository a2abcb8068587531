"""Which device a network runs on."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import os
import re
import shutil
import sys
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cawn.errors import DeviceError, QueryError, brief

if TYPE_CHECKING:
    import torch

Device = str  # "auto", "cpu", "cuda" or "cuda:N"
_CAPABILITY = (8, 0)  # the lowest compute capability that the tests compile the kernels for


def pick_device(device: Device) -> torch.device:
    """The device of that name; "auto" is the GPU if there is one that can be used."""
    import torch

    check_device(device)
    if device != "auto":
        return named_device(device)
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if why := why_unusable(torch.device("cuda")):
        warnings.warn(f"there is a GPU, but {why}; the CPU is used", stacklevel=2)
    return torch.device("cpu" if why else "cuda")


def check_device(device: Any) -> None:
    """Refuse anything but the name of a device; whether the device exists is not checked."""
    if not isinstance(device, str) or not re.fullmatch("auto|cpu|cuda(:[0-9]{1,3})?", device):
        raise QueryError(f"device is {brief(device)}: give auto, cpu, cuda, or cuda:1 for the second GPU")


def named_device(device: Any) -> torch.device:
    """A device given by name or as a `torch.device`; an error if it cannot be used."""
    import torch

    try:
        found = torch.device(device) if isinstance(device, str | torch.device) else None
    except RuntimeError:
        found = None
    if found is None or found.type not in ("cpu", "cuda"):
        raise QueryError(f"device is {brief(device)}: give cpu or cuda")
    if found.type == "cuda":
        if not torch.cuda.is_available():
            raise DeviceError(f"device is {str(found)!r}, but {why_no_cuda()}; give cpu")
        if found.index is not None and found.index >= torch.cuda.device_count():
            raise DeviceError(f"device is {str(found)!r}, but there are {torch.cuda.device_count()} CUDA devices")
        if why := why_unusable(found):
            raise DeviceError(f"device is {str(found)!r}, but {why}; give cpu")
    return found


def why_no_cuda() -> str:
    """The reason why CUDA cannot be used, in a few words."""
    import torch

    if torch.version.cuda is None:
        return "this build of PyTorch is for the CPU only"
    if not may_have_cuda():
        return "no CUDA driver is installed"
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError) as error:
        return f"CUDA does not start ({str(error).splitlines()[0].split('. ')[0].rstrip('.')})"
    return "no CUDA device can be used"


def why_unusable(device: torch.device) -> str | None:
    """The reason why the kernels cannot run on an existing CUDA device, in a few words; None if they can."""
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
    """Whether there is a CUDA driver; does not import PyTorch."""
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True


def reset_peak_memory(device: torch.device) -> None:
    """Start to measure `peak_memory` anew, where the operating system can."""
    import torch

    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif sys.platform == "linux":
        with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
            file.write("5")


def peak_memory(device: torch.device) -> int | None:
    """Bytes at the peak: on a GPU those that PyTorch allocated, else the resident memory; None if unknown."""
    import torch

    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "linux":
        with suppress(OSError, ValueError, IndexError), open("/proc/self/status") as file:
            return 1024 * int(re.findall(r"^VmHWM:\s+(\d+) kB$", file.read(), re.MULTILINE)[0])
    if sys.platform == "win32":
        return None
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def keep_freed_memory() -> None:
    """Let the C library keep large freed blocks, rather than fetch fresh pages for each tensor.

    A training step allocates and frees tensors of tens of megabytes; page faults took a third of its time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        max_mmaps, trim_threshold = -4, -1
        mallopt(max_mmaps, 0)
        mallopt(trim_threshold, 1 << 30)


def release_freed_memory() -> None:
    """Return memory to the system that was freed, but that the C library and Arrow keep for later."""
    gc.collect()
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
