"""What a network on a GPU says of any number of pairs: in pieces as large as its memory allows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cawn.kernels.cuda.launch import memory_for
from cawn.systems.cawn.dense import Dense
from cawn.systems.cawn.device_batches import DeviceBatcher

Array = np.ndarray[Any, Any]
Network = Callable[[Dense], Tensor]  # [B] logits, or [B, width] embeddings


@torch.no_grad()
def of_pairs(network: Network, batcher: DeviceBatcher, src: Array, dst: Array, t: Array, *, seed: int) -> Array:
    """The output for each pair (src, dst) at time t. Consecutive pairs of one source at one time share its walks."""
    repeats = np.zeros(len(src), bool)
    repeats[1:] = (src[1:] == src[:-1]) & (t[1:] == t[:-1])
    with _memory_for(src):
        u, v, now = batcher.placed(src, dst, t=t)

        def piece(first: int, last: int) -> Tensor:
            part = slice(first, last)
            return network(batcher.pairs(u[part], v[part], now[part], seed=seed, repeats=repeats[part]))

        return _joined(list(batcher.pieces(piece, len(src))))


def _memory_for(pairs: Array) -> AbstractContextManager[None]:
    return memory_for(f"{len(pairs):,} pairs", "ask about fewer at once")


def _joined(parts: list[Tensor]) -> Array:
    return np.asarray(torch.cat(parts).cpu().numpy()) if parts else np.empty(0, np.float32)
