"""The network of `model` on a GPU: the same parameters, applied to walks in fixed shapes by fused kernels.

With fixed shapes an update can be replayed as a CUDA graph. One matrix product per depth computes all LSTM gates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cawn.caw.config import Config
from cawn.caw.features import Batch
from cawn.caw.kernels.cuda import lstm
from cawn.caw.kernels.cuda.lstm import PreviousState
from cawn.caw.kernels.cuda.positions import EncoderShape, Layers, padded, position_gradients, position_inputs
from cawn.caw.model import CAWN, RecurrentWalks
from cawn.kernels.cuda.launch import current
from cawn.systems.ranks import row_range
from cawn.walks.kernels.prefixes import Level

_MAX_FEATURES = 64  # of a node's counts, or frequencies: more do not fit the GPU's shared memory
_ROWS_PER_PRODUCT = 4096  # of the matrix products that sum the gradients of weights over all rows


@dataclass(frozen=True, slots=True)
class Dense:
    """B pairs of M walks per side in fixed shapes: S = 2B walk sets, in the order u, v, u, v, ...; L = m + 1."""

    counts: Tensor  # [S, M, L, 2, L] int32, relative identities; kernels are fastest with the walks last in memory
    elapsed: Tensor  # [S, M, L] float32, t_{i-1} - t_i in time units
    x: Tensor  # [S, M, L, width of X] float32
    alive: Tensor  # [S, M, L] uint8, 0 where a walk has ended
    pair_features: Tensor  # [B, R] float32
    order: Tensor | None = None  # [S, M, L] int64, I_AW; None unless the model uses it
    age: Tensor | None = None  # [S, M, L] float32, t_0 - t_i in time units; None unless the model uses it

    def levels(self) -> list[Level]:
        """As the prefix trees of `model`: one root per set, then a branch per walk. Ended walks have weight 0."""
        S, M, L = self.alive.shape
        sets, walks = torch.arange(S, device=self.alive.device), torch.arange(S * M, device=self.alive.device)
        alive = self.alive.bool()
        ends = alive & ~torch.cat([alive[..., 1:], torch.zeros_like(alive[..., :1])], dim=-1)
        levels = []
        for i in range(L):
            rows = sets * M if i == 0 else walks
            at = rows * L + i
            owner = sets if i == 0 else walks // M
            weight = ends[..., i].float() / M
            own, other = (2 * at + ((owner % 2) ^ side) for side in (0, 1))
            levels.append(
                Level(
                    parent=walks // M if i == 1 else rows,
                    owner=owner,
                    own=own,
                    other=other,
                    weight=weight.sum(dim=1) if i == 0 else weight.flatten(),
                    elapsed=self.elapsed.flatten()[at],
                    x=self.x.flatten(0, 2)[at],
                    order=None if self.order is None else self.order.flatten()[at],
                    age=None if self.age is None else self.age.flatten()[at],
                )
            )
        return levels


def logits(model: CAWN, batch: Dense) -> Tensor:
    """The logit of each pair: [B]."""
    found: Tensor = model.head(embed(model, batch)).squeeze(-1)
    return found


def embed(model: CAWN, batch: Dense) -> Tensor:
    """The embedding of each pair: [B, width]."""
    return model.join(pool(model, batch), batch.pair_features)


def pool(model: CAWN, batch: Dense) -> Tensor:
    """Encode every walk and pool each walk set: [2B, d]; both sets of a pair together with joint sides: [B, d]."""
    config, joint = model.config, model.config.sides == "joint"
    (S, M, L), d = batch.alive.shape, config.dim
    pool_in_kernel = model.attention is None and not joint and config.dropout_at == "pairs"
    if isinstance(model.walks, RecurrentWalks) and is_fused(config):
        dtype = model.matmul_dtype or best_dtype(batch.alive.device)
        walks: Tensor = model.walks.dropout(encode(model.walks, batch, pool=pool_in_kernel, dtype=dtype))
        if pool_in_kernel:
            return walks  # [S, d]
    else:
        states = model.walks(Batch(M, batch.counts.reshape(-1, L), batch.levels(), batch.pair_features))
        walks = states[0][:, None].expand(S, M, d)
        for i in range(1, L):  # a walk's encoding is the state at its last position
            walks = torch.where(batch.alive[:, :, i, None] > 0, states[i].view(S, M, d), walks)
    if joint:
        walks = walks.reshape(S // 2, 2 * M, d)
    pooled: Tensor = walks.mean(dim=1) if model.attention is None else model.attention(walks)
    return pooled


def is_fused(config: Config) -> bool:
    """Whether the kernels can encode the walks: an LSTM over I_CAW and f2 whose features fit the shared memory."""
    features = (3 if config.logarithms else 1) * (config.length + 1) + 1
    of_the_paper = (config.rnn, config.identity, config.time_code) == ("lstm", "caw", "elapsed")
    return of_the_paper and max(features, config.frequencies) <= _MAX_FEATURES


def best_dtype(device: torch.device) -> torch.dtype:
    """The dtype of matrix products: bfloat16 if the device supports it."""
    fast = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if fast else torch.float32


def encode(walks: RecurrentWalks, batch: Dense, *, pool: bool, dtype: torch.dtype) -> Tensor:
    """The encoding of every walk [S, M, d], or with `pool` the mean of each set [S, d].

    Matrix products are computed in `dtype`; sums and cells in float32.
    """
    position, f1, f2 = walks.position, walks.position.f1, walks.position.f2
    own: Any = f1.mlps[0]
    other: Any = f1.mlps[-1]
    (S, M, L), d = batch.alive.shape, walks.from_state.in_features
    features = position.from_features.weight  # [4d, f]
    dropout = own[2].p if walks.training else 0.0
    shape = EncoderShape(
        S=S,
        M=M,
        L=L,
        d=d,
        kinds=own[0].in_features // L,
        frequencies=0 if f2 is None else f2.width // 2,
        x_width=batch.x.shape[-1],
        width=padded(2 * d + features.shape[1] + 1),
        keep=1.0 - dropout,
        pool=pool,
    )
    if dropout > 0 and (rows := row_range()) is not None:
        shape = shape._replace(first=rows.first, size=rows.size, whole=rows.whole)
    omega = features.new_empty(0) if f2 is None else f2.omega
    layers = Layers(own[0].weight, own[0].bias, other[0].weight, other[0].bias, omega)
    weight = _gate_weights(f1, position.bias, features, walks.from_state.weight, shape)
    seed = torch.randint(1 << 31, (1,), device=weight.device) if dropout > 0 else batch.alive  # of the dropout in f1
    with current(weight.device):
        encoded: Tensor = _EncodeWalks.apply(batch, shape, dtype, seed, weight, *layers)  # type: ignore[no-untyped-call]
    return encoded.float()


def _gate_weights(f1: Any, bias: Tensor, features: Tensor, past: Tensor, shape: EncoderShape) -> Tensor:
    """All linear maps from an input row (see `kernels.cuda.positions` here) to the gates, as one matrix [4d, span]."""
    d = shape.d
    own: Any = f1.mlps[0][-1]
    other: Any = f1.mlps[-1][-1]
    second_layers = torch.cat([own.weight, other.weight, (own.bias + other.bias)[:, None]], dim=1)  # [d, 2d + 1]
    hidden, offset = torch.split(f1.project.weight @ second_layers, [2 * d, 1], dim=1)
    parts = [hidden, features, offset + bias.T, _zeros(shape.width - 2 * d - features.shape[1] - 1, features)]
    return torch.cat([*parts, past, _zeros(padded(d) - d, past)], dim=1)


def _zeros(columns: int, like: Tensor) -> Tensor:
    return like.new_zeros(len(like), columns)


class _EncodeWalks(torch.autograd.Function):
    """All positions of all walks, forward and backward. Depths 0 and 1 share one matrix product."""

    @staticmethod
    def forward(
        ctx: Any, batch: Dense, shape: EncoderShape, dtype: torch.dtype, seed: Tensor, weight: Tensor, *layers: Tensor
    ) -> Tensor:
        S, L, d, width = shape.S, shape.L, shape.d, shape.width
        weight = weight.to(dtype)
        inputs = position_inputs(Layers(*layers), batch.counts, batch.elapsed, batch.x, shape, seed, dtype)
        z = shape.shallow(inputs) @ weight[:, :width].T  # [S + S * M, 4d]
        h = z.new_empty(S, d)
        c = lstm.step(z[:S], None, batch.alive, _roots(shape), h, depth=0)
        previous = PreviousState(h, c, h @ weight[:, width : width + d].T)
        zs, states = [z], [previous]
        z = z[S:]
        for i in range(1, L):
            last = i == L - 1
            if not last:
                h = shape.deep(inputs, i + 1)[:, width : width + d]
            elif shape.pool:
                h = z.new_empty(S, d, dtype=torch.float32)
            else:
                h = z.new_empty(shape.walks, d)
            c = lstm.step(z, previous, batch.alive, shape._replace(pool=shape.pool and last), h, depth=i)
            if not last:
                previous = PreviousState(h, c)
                z = shape.deep(inputs, i + 1) @ weight.T  # [S * M, 4d]
                zs.append(z)
                states.append(previous)
        ctx.save_for_backward(*layers, weight, inputs, *zs, states[0].gates, *(x for s in states for x in s[:2]))
        ctx.batch, ctx.shape = batch, shape
        return h if shape.pool else h.view(S, shape.M, d)

    @staticmethod
    def backward(ctx: Any, dend: Tensor) -> tuple[Tensor | None, ...]:
        batch, shape = ctx.batch, ctx.shape
        S, L, d, width = shape.S, shape.L, shape.d, shape.width
        layers, (weight, inputs), rest = Layers(*ctx.saved_tensors[:5]), ctx.saved_tensors[5:7], ctx.saved_tensors[7:]
        zs, gates, saved = rest[: L - 1], rest[L - 1], rest[L:]
        states = [PreviousState(h, c) for h, c in zip(saved[::2], saved[1::2], strict=True)]
        states[0] = states[0]._replace(gates=gates)
        gradient, dend = shape.empty(inputs.dtype, inputs.device), dend.contiguous()
        dweight = torch.zeros_like(weight, dtype=torch.float32)
        dh = dc = None
        for i in range(L - 1, 1, -1):
            z, dz = zs[i - 1], torch.empty_like(zs[i - 1])
            dc = lstm.step_backward(z, states[i - 1], batch.alive, dend, dh, dc, dz, shape, depth=i).c
            dinputs = shape.deep(gradient, i)
            torch.mm(dz, weight, out=dinputs)
            dh = dinputs[:, width : width + d]
            dweight += _sum_over_rows(dz, shape.deep(inputs, i))
        dz = torch.empty_like(zs[0])
        by_roots = lstm.step_backward(zs[0][S:], states[0], batch.alive, dend, dh, dc, dz[S:], shape, depth=1)
        past = weight[:, width : width + d]
        dweight[:, width : width + d] += _sum_over_rows(by_roots.gates, states[0].h)
        dh = torch.addmm(by_roots.h, by_roots.gates, past)
        lstm.step_backward(zs[0][:S], None, batch.alive, dh, None, by_roots.c, dz[:S], _roots(shape), depth=0)
        torch.mm(dz, weight[:, :width], out=shape.shallow(gradient))
        dweight[:, :width] += _sum_over_rows(dz, shape.shallow(inputs))
        dlayers = position_gradients(gradient, inputs, layers, batch.counts, batch.elapsed, shape)
        return None, None, None, None, dweight, *dlayers


def _roots(shape: EncoderShape) -> EncoderShape:
    """The roots as walk sets of one walk."""
    return shape._replace(M=1, pool=False)


def _sum_over_rows(a: Tensor, b: Tensor) -> Tensor:
    """a^T b in float32, [n, p] and [n, q] to [p, q]. In pieces: one product over so many rows underuses a GPU."""
    n = len(a)
    pieces = max(n // _ROWS_PER_PRODUCT, 1)
    size = n // pieces
    left, right = (x[: pieces * size].view(pieces, size, -1) for x in (a, b))
    total = _float32_product(left.transpose(1, 2), right).sum(dim=0)
    if pieces * size == n:
        return total
    rest = slice(pieces * size, n)
    return total + _float32_product(a[None, rest].transpose(1, 2), b[None, rest])[0]


def _float32_product(a: Tensor, b: Tensor) -> Tensor:
    """The batched product of matrices of any dtype, in float32."""
    return torch.bmm(a, b, out_dtype=torch.float32) if a.is_cuda else a.float() @ b.float()
