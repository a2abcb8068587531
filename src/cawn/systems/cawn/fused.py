"""The network of `model` on a GPU: the same parameters, applied to walks in fixed shapes by fused kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from cawn.systems.cawn.dense import Dense
from cawn.systems.cawn.encoder import best_dtype, encode, is_fused
from cawn.systems.cawn.features import Batch
from cawn.systems.cawn.model import CAWN, RecurrentWalks


def logits(model: CAWN, batch: Batch | Dense) -> Tensor:
    """[B]"""
    found: Tensor = model.head(embed(model, batch)).squeeze(-1)
    return found


def embed(model: CAWN, batch: Batch | Dense) -> Tensor:
    """[B, width]"""
    return model.join(pool(model, batch), batch.rates) if isinstance(batch, Dense) else model.embed(batch)


def pool(model: CAWN, batch: Dense) -> Tensor:
    """Every walk encoded by itself: [2B, d], or [B, d] with joint sides."""
    config, joint = model.config, model.config.sides == "joint"
    (S, M, L), d = batch.alive.shape, config.dim
    mean_at_once = model.attention is None and not joint and config.dropout_at == "pairs"
    if isinstance(model.walks, RecurrentWalks) and is_fused(config):
        dtype = model.products or best_dtype(batch.alive.device)
        walks: Tensor = model.walks.dropout(encode(model.walks, batch, pool=mean_at_once, dtype=dtype))
        if mean_at_once:
            return walks  # [S, d]
    else:
        states = model.walks(Batch(M, batch.counts.reshape(-1, L), batch.levels(), batch.rates))
        walks = states[0][:, None].expand(S, M, d)
        for i in range(1, L):  # a walk's encoding is the state at its last position
            walks = torch.where(batch.alive[:, :, i, None] > 0, states[i].view(S, M, d), walks)
    if joint:
        walks = walks.reshape(S // 2, 2 * M, d)
    pooled: Tensor = walks.mean(dim=1) if model.attention is None else model.attention(walks)
    return pooled
