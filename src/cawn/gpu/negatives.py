"""One false destination for each training link, drawn anew each epoch without leaving the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from cawn.events import Events
from cawn.negatives import destinations, earlier_partners, in_order

_LINKS = 128  # of one program


class DeviceNegatives:
    """Draws what `negatives` draws for `links`, random and historical, with `links` also being what is seen."""

    def __init__(self, events: Events, links: Any, visible: Any, device: torch.device) -> None:
        def placed(array: Any) -> Tensor:
            wide = array.astype(np.int64) if array.dtype == np.int32 else np.array(array)
            return torch.from_numpy(wide).to(device)

        self._links = [placed(array) for array in (events.src[links], events.dst[links], events.t[links], links)]
        self._pool = placed(destinations(events, links, visible))
        self._partners = [placed(array) for array in earlier_partners(events, links)]
        self._all = [placed(array) for array in in_order(events)]

    def draw(self, seed: Tensor, *, hard: bool) -> tuple[Tensor, Tensor]:
        """Random and historical destinations [n] each; the latter only where they are asked for."""
        from cawn.kernels.cuda.negatives import draw

        random, historical = (torch.empty_like(self._links[0]) for _ in range(2))
        n = len(random)
        draw[(-(-n // _LINKS),)](
            *(*self._links, self._pool, *self._partners, *self._all, seed, random, historical),
            *(n, len(self._pool), len(self._all[0])),
            HARD=hard,
            BLOCK=_LINKS,
            num_warps=2,
        )
        return random, historical
