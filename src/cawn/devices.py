"""Which processor the network runs on."""

from __future__ import annotations

from typing import Literal

import torch

from cawn.errors import QueryError

Device = Literal["auto", "cpu", "cuda"]


def pick_device(device: Device) -> torch.device:
    """The device by name; "auto" is the GPU where one can be used."""
    if device not in ("auto", "cpu", "cuda"):
        raise QueryError(f"device is {device!r}: give auto, cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise QueryError("device is 'cuda', but no CUDA device can be used; give auto or cpu")
    return torch.device("cuda" if device == "cuda" or (device == "auto" and torch.cuda.is_available()) else "cpu")
