"""The LSTM over the walks on a GPU: one matrix product for each depth, and fused kernels between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cawn.kernels.cuda.launch import current
from cawn.systems.cawn import cells
from cawn.systems.cawn.cells import Before
from cawn.systems.cawn.config import Config
from cawn.systems.cawn.dense import Dense
from cawn.systems.cawn.positions import Layers, position_gradients, position_inputs
from cawn.systems.cawn.sizes import Sizes, padded

if TYPE_CHECKING:
    from cawn.systems.cawn.model import CountEncoder, RecurrentWalks

_MOST_FEATURES = 64  # of a node's counts, and frequencies
_ROWS_OF_A_PIECE = 4096  # of the long products behind the gradients of weights


def encode(walks: RecurrentWalks, batch: Dense, *, pool: bool, dtype: torch.dtype) -> Tensor:
    """The encoding of every walk [S, M, d], or with `pool` their mean over each set [S, d].

    The matrix products are computed in `dtype`; sums and cells are float32.
    """
    position, f1, f2 = walks.position, walks.position.f1, walks.position.f2
    own: Any = f1.mlps[0]
    other: Any = f1.mlps[-1]
    (S, M, L), d = batch.alive.shape, walks.from_state.in_features
    features = position.from_features.weight  # [4d, f]
    dropout = own[2].p if walks.training else 0.0
    sizes = Sizes(
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
    omega = features.new_empty(0) if f2 is None else f2.omega
    layers = Layers(own[0].weight, own[0].bias, other[0].weight, other[0].bias, omega)
    weight = _weights(f1, position.bias, features, walks.from_state.weight, sizes)
    seed = torch.randint(1 << 31, (1,), device=weight.device) if dropout > 0 else batch.alive  # of the dropout in f1
    with current(weight.device):
        encoded: Tensor = _Walks.apply(*layers, weight, batch, sizes, dtype, seed)  # type: ignore[no-untyped-call]
    return encoded.float()


def is_fused(config: Config) -> bool:
    """Whether a model can be encoded here: an LSTM over I_CAW whose features fit the shared memory of a GPU."""
    features = (3 if config.logarithms else 1) * (config.length + 1) + 1
    return config.rnn == "lstm" and config.identity == "caw" and max(features, config.frequencies) <= _MOST_FEATURES


def best_dtype(device: torch.device) -> torch.dtype:
    """Of matrix products: bfloat16 where the device has it."""
    fast = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if fast else torch.float32


def _weights(f1: CountEncoder, bias: Tensor, features: Tensor, past: Tensor, sizes: Sizes) -> Tensor:
    """All that is linear behind the first layers of f1 and the state before, as one matrix [4d, span]."""
    d = sizes.d
    own: Any = f1.mlps[0][-1]  # type: ignore[index]
    other: Any = f1.mlps[-1][-1]  # type: ignore[index]
    seconds = torch.cat([own.weight, other.weight, (own.bias + other.bias)[:, None]], dim=1)  # [d, 2d + 1]
    hidden, offset = torch.split(f1.project.weight @ seconds, [2 * d, 1], dim=1)
    parts = [hidden, features, offset + bias.T, _zeros(sizes.width - 2 * d - features.shape[1] - 1, features)]
    return torch.cat([*parts, past, _zeros(padded(d) - d, past)], dim=1)


def _zeros(columns: int, like: Tensor) -> Tensor:
    return like.new_zeros(len(like), columns)


class _Walks(torch.autograd.Function):
    """Forward and backward of all positions of all walks. The products of depths 0 and 1 are one."""

    @staticmethod
    def forward(
        ctx: Any,
        own_weight: Tensor,
        own_bias: Tensor,
        other_weight: Tensor,
        other_bias: Tensor,
        omega: Tensor,
        weight: Tensor,
        batch: Dense,
        sizes: Sizes,
        dtype: torch.dtype,
        seed: Tensor,
    ) -> Tensor:
        S, L, d, width = sizes.S, sizes.L, sizes.d, sizes.width
        layers = Layers(own_weight, own_bias, other_weight, other_bias, omega)
        weight = weight.to(dtype)
        inputs = position_inputs(layers, batch, sizes, seed, dtype)
        z = sizes.shallow(inputs) @ weight[:, :width].T  # [S + S * M, 4d]
        h = z.new_empty(S, d)
        c = cells.step(z[:S], None, batch.alive, _roots(sizes), h, depth=0)
        before = Before(h, c, h @ weight[:, width : width + d].T)
        zs, befores = [z], [before]
        z = z[S:]
        for i in range(1, L):
            last = i == L - 1
            if not last:
                h = sizes.deep(inputs, i + 1)[:, width : width + d]
            elif sizes.pool:
                h = z.new_empty(S, d, dtype=torch.float32)
            else:
                h = z.new_empty(sizes.walks, d)
            c = cells.step(z, before, batch.alive, sizes._replace(pool=sizes.pool and last), h, depth=i)
            if not last:
                before = Before(h, c)
                z = sizes.deep(inputs, i + 1) @ weight.T  # [S * M, 4d]
                zs.append(z)
                befores.append(before)
        ctx.save_for_backward(*layers, weight, inputs, *zs, befores[0].root, *(x for b in befores for x in b[:2]))
        ctx.batch, ctx.sizes = batch, sizes
        return h if sizes.pool else h.view(S, sizes.M, d)

    @staticmethod
    def backward(ctx: Any, dend: Tensor) -> tuple[Tensor | None, ...]:
        batch, sizes = ctx.batch, ctx.sizes
        S, L, d, width = sizes.S, sizes.L, sizes.d, sizes.width
        layers, (weight, inputs), rest = Layers(*ctx.saved_tensors[:5]), ctx.saved_tensors[5:7], ctx.saved_tensors[7:]
        zs, root, kept = rest[: L - 1], rest[L - 1], rest[L:]
        befores = [Before(h, c) for h, c in zip(kept[::2], kept[1::2], strict=True)]
        befores[0] = befores[0]._replace(root=root)
        gradient, dend = sizes.empty(inputs.dtype, inputs.device), dend.contiguous()
        dweight = torch.zeros_like(weight, dtype=torch.float32)
        dh = dc = None
        for i in range(L - 1, 1, -1):
            z, dz = zs[i - 1], torch.empty_like(zs[i - 1])
            dc = cells.gradients(z, befores[i - 1], batch.alive, dend, dh, dc, dz, sizes, depth=i).c
            by_inputs = sizes.deep(gradient, i)
            torch.mm(dz, weight, out=by_inputs)
            dh = by_inputs[:, width : width + d]
            dweight += _over_rows(dz, sizes.deep(inputs, i))
        dz = torch.empty_like(zs[0])
        dc, droot, dh = cells.gradients(zs[0][S:], befores[0], batch.alive, dend, dh, dc, dz[S:], sizes, depth=1)
        past = weight[:, width : width + d]
        dweight[:, width : width + d] += _over_rows(droot, befores[0].h)
        by_root = torch.addmm(dh, droot, past)
        cells.gradients(zs[0][:S], None, batch.alive, by_root, None, dc, dz[:S], _roots(sizes), depth=0)
        torch.mm(dz, weight[:, :width], out=sizes.shallow(gradient))
        dweight[:, :width] += _over_rows(dz, sizes.shallow(inputs))
        by_layers = position_gradients(gradient, inputs, layers, batch, sizes)
        return *by_layers, dweight, None, None, None, None


def _roots(sizes: Sizes) -> Sizes:
    """The roots as walks of their own."""
    return sizes._replace(M=1, pool=False)


def _over_rows(a: Tensor, b: Tensor) -> Tensor:
    """a^T b in float32, [n, p] and [n, q] to [p, q]. In pieces: one product of so many rows leaves a GPU half empty."""
    n = len(a)
    pieces = max(n // _ROWS_OF_A_PIECE, 1)
    size = n // pieces
    left, right = (x[: pieces * size].view(pieces, size, -1) for x in (a, b))
    total = _product(left.transpose(1, 2), right).sum(dim=0)
    rest = slice(pieces * size, n)
    return total if pieces * size == n else total + _product(a[None, rest].transpose(1, 2), b[None, rest])[0]


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Of batches of matrices in any type, in float32."""
    return torch.bmm(a, b, out_dtype=torch.float32) if a.is_cuda else a.float() @ b.float()
