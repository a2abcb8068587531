"""Exact rates on a GPU: the tallies of `rates`, one after the other in the same arrays."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cawn.kernels.cuda.launch import block_of, memory_for
from cawn.walks.rates import AGES, Rates

_PAIRS = 16  # of one program: few, since each waits for many loads in turn


class DeviceRates:
    """`Rates.features` on a device."""

    def __init__(self, rates: Rates, device: torch.device) -> None:
        tallies = rates.tallies
        keys = [tally.keys for tally in tallies]
        entries = np.cumsum([0, *(len(tally.time) for tally in tallies)])
        starts = [tally.starts[:-1] + before for tally, before in zip(tallies, entries, strict=False)]
        arrays = {
            "keys": np.concatenate(keys),
            "starts": np.append(np.concatenate(starts), entries[-1]),
            "time": np.concatenate([tally.time for tally in tallies]),
            "logsum": np.concatenate([tally.logsum for tally in tallies], axis=1),
            "alphas": np.array(tallies[0].alphas),
            "bounds": np.cumsum([0, *map(len, keys)]),
        }
        size = sum(array.nbytes for array in arrays.values())
        with memory_for(f"the rates ({size / 2**30:,.1f} GiB)"):
            self._arrays = [torch.from_numpy(array).to(device) for array in arrays.values()]
        self._parts = 6 if len(tallies) > 2 else 3

    def features(self, src: Tensor, dst: Tensor, t: Tensor, unit: Tensor, out: Tensor) -> None:
        """Fills out [B, width] as `Rates.features`; src, dst and t [B] and unit [1] are on the device."""
        from cawn.kernels.cuda.features import rate_features

        if len(src):
            keys, starts, time, logsum, alphas, bounds = self._arrays
            rate_features[(-(-len(src) // _PAIRS), self._parts)](
                *(keys, starts, time, logsum, alphas, bounds, src, dst, t, unit, out),
                *(len(src), len(time), out.shape[1]),
                D=len(alphas),
                AGES=AGES,
                BLOCK=_PAIRS,
                DECAYS=block_of(len(alphas), 1 << 20),
                num_warps=1,
            )
