"""The walk encoder of the authors' published code: two bidirectional LSTMs, in place of the paper's RNN."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from cawn.caw.config import Config
from cawn.caw.features import Batch


class BidirectionalWalks(nn.Module):
    """enc(W) from two bidirectional LSTMs: one over the positions of a walk, one over its identities alone.

    Their outputs at the last position of the walk are concatenated and projected to d. At that position, the backward
    direction has processed a single input. The authors' code reads position m even if a walk is shorter, which gives
    zeros.
    """

    def __init__(self, config: Config, position: Any) -> None:
        super().__init__()
        d, narrow = config.dim, max(config.dim // 4, 1)  # the authors' ratio of widths
        self.position = position  # a `PositionEncoder` of width d
        self.forwards = nn.ModuleList(nn.LSTMCell(d, width) for width in (d, narrow))
        self.backwards = nn.ModuleList(FirstStep(d, width) for width in (d, narrow))
        self.project = nn.Linear(2 * (d + narrow), d)
        self.dropout = nn.Dropout(config.dropout if config.dropout_at == "walks" else 0.0)

    def forward(self, batch: Batch) -> list[Tensor]:
        tables = self.position.tables(batch)
        before: list[Any] = [None, None]  # (h, c) of both forward LSTMs; None before the first position
        encoded: list[Tensor] = []
        for level in batch.levels:
            identities = self.position.identities(level, *tables)  # [n_i, d]
            inputs = identities + self.position.from_features(self.position.features(level)), identities
            if encoded:
                before = [tuple(embedding(level.parent, state) for state in states) for states in before]
            before = [cell(z, states) for cell, z, states in zip(self.forwards, inputs, before, strict=True)]
            backwards = [step(z) for step, z in zip(self.backwards, inputs, strict=True)]
            both = torch.cat([*(h for h, _ in before), *backwards], dim=-1)  # [n_i, 2 (d + narrow)]
            encoded.append(self.dropout(self.project(self.dropout(both)).relu()))  # [n_i, d]
        return encoded


class FirstStep(nn.Module):
    """The first step of an LSTM: without a previous state, it needs no forget gate and no recurrent weights."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.gates = nn.Linear(inputs, 3 * width)

    def forward(self, z: Tensor) -> Tensor:
        i, o, new = self.gates(z).chunk(3, dim=-1)
        h: Tensor = o.sigmoid() * (i.sigmoid() * new.tanh()).tanh()
        return h
