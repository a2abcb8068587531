"""What a network on a GPU says of any number of pairs: in pieces as large as its memory allows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cawn.kernels.cuda.launch import memory_for
from cawn.systems.cawn.batches import pairs_within
from cawn.systems.cawn.dense import Dense
from cawn.systems.cawn.device_batches import DeviceBatcher

Array = np.ndarray[Any, Any]
Network = Callable[[Dense], Tensor]  # [B] logits, or [B, width] embeddings


@torch.no_grad()
def of_pairs(network: Network, batcher: DeviceBatcher, src: Array, dst: Array, t: Array, *, seed: int) -> Array:
    """Of each pair (src, dst) at time t."""
    with _memory_for(src):
        u, v, now = batcher.placed(src, dst, t=t)

        def piece(first: int, last: int) -> Tensor:
            part = slice(first, last)
            return network(batcher.pairs(u[part], v[part], now[part], seed=seed))

        return _joined(list(batcher.pieces(piece, len(src))))


@torch.no_grad()
def of_contrast(
    network: Network, batcher: DeviceBatcher, src: Array, dst: Array, false: Array, t: Array, *, seed: int
) -> tuple[Array, Array]:
    """Of the pairs (src, dst) and of the pairs (src, false), whose walks from src are sampled once: [B] each."""
    if len(src) == 0:
        return np.empty(0, np.float32), np.empty(0, np.float32)
    with _memory_for(src):
        u, v, w, now = batcher.placed(src, dst, false, t=t)

        def piece(first: int, last: int) -> Tensor:
            part = slice(first, last)
            return network(batcher.contrast(u[part], v[part], w[part], now[part], seed=seed)).view(2, -1).T

        true, wrong = _joined(list(batcher.pieces(piece, len(src), max(batcher.pieces.size // 2, 1)))).T
    return true, wrong


@torch.no_grad()
def of_one(
    network: Network, batcher: DeviceBatcher, src: int, dst: Array, t: Any, *, seed: int, byte_budget: int | None = None
) -> Array:
    """Of the pairs (src, each of dst) at one time, src's walks sampled once: [B]."""
    most = None if byte_budget is None else pairs_within(byte_budget, batcher.config, batcher.x_width)
    with _memory_for(dst):
        against = batcher.source(src, t, seed=seed)
        return _joined(list(batcher.pieces(lambda first, last: network(against(dst[first:last])), len(dst), most)))


def _memory_for(pairs: Array) -> AbstractContextManager[None]:
    return memory_for(f"{len(pairs):,} pairs", "ask about fewer at once")


def _joined(parts: list[Tensor]) -> Array:
    return np.asarray(torch.cat(parts).cpu().numpy()) if parts else np.empty(0, np.float32)
