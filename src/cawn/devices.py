"""Which processor the network runs on."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Literal

from cawn.errors import QueryError

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda"]


def pick_device(device: Device) -> torch.device:
    """The device by name; "auto" is the GPU where one can be used."""
    import torch

    if device not in ("auto", "cpu", "cuda"):
        raise QueryError(f"device is {device!r}: give auto, cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise QueryError("device is 'cuda', but no CUDA device can be used; give auto or cpu")
    return torch.device("cuda" if device == "cuda" or (device == "auto" and torch.cuda.is_available()) else "cpu")


def may_have_cuda() -> bool:
    """Whether there is a CUDA driver, asked without loading PyTorch."""
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True
