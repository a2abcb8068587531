"""Negatives drawn on the device, anew for each epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from cawn.kernels.cpu.negatives import Choices

_LINKS = 128  # of one program


class DeviceChoices:
    """Draws what `Choices` draws, without leaving the device."""

    def __init__(self, choices: Choices, device: torch.device) -> None:
        def placed(array: Any) -> Tensor:
            return torch.from_numpy(array.astype(np.int64)).to(device)

        self._salt = choices.salt
        names = ("links", "nodes", "first", "count", "skipped", "skip_from", "skip_to")
        self._arrays = [placed(getattr(choices, name)) for name in names]

    def draw(self, seed: Tensor, fallback: Tensor | None = None) -> Tensor:
        """A destination for each link; where there is none, that of `fallback`, or -1: [n] int64."""
        from cawn.kernels.cuda.negatives import draw

        out = torch.empty_like(self._arrays[0])
        draw[(-(-len(out) // _LINKS),)](
            *(*self._arrays, seed, out if fallback is None else fallback, out, len(out)),
            SALT=self._salt,
            HAS_FALLBACK=fallback is not None,
            BLOCK=_LINKS,
            num_warps=2,
        )
        return out
