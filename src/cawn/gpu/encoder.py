"""The LSTM over the walks on a GPU: few matrix products, and fused kernels between them.

z of all positions is one product, since a position's part of the gates does not depend on the walk before it. Backwards
the gates are computed again rather than kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from cawn.config import Config
from cawn.gpu.dense import Dense
from cawn.gpu.launch import block_of, current

if TYPE_CHECKING:
    from cawn.model import CountEncoder, RecurrentWalks

_ROWS = 64  # of one program
_MOST_FEATURES = 64  # of a node's counts, and frequencies
_PROGRAMS = 264  # that share the rows in `position_inputs_backward`: two for each multiprocessor of a large GPU
_ROWS_OF_A_PIECE = 4096  # of the long products behind the gradients of weights
_ALIGNMENT = 16  # of the width of inputs, for the tensor cores


class Sizes(NamedTuple):
    """Numbers that shape the kernels; see `kernels.cuda.encoder`."""

    S: int
    M: int
    L: int
    d: int
    kinds: int
    frequencies: int
    x_width: int
    width: int
    keep: float
    pool: bool

    @property
    def rows(self) -> int:
        return self.S + (self.L - 1) * self.S * self.M

    @property
    def K(self) -> int:  # noqa: N802
        return block_of(self.kinds * self.L + 1, 4096)


def encode(walks: RecurrentWalks, batch: Dense, *, pool: bool, dtype: torch.dtype) -> Tensor:
    """The encoding of every walk [S, M, d], or with `pool` their mean over each set [S, d].

    The matrix products are computed in `dtype`; sums and cells are float32.
    """
    position, d = walks.position, walks.from_state.in_features
    mlp: Any = position.f1.mlps[0]
    S, M, L = batch.alive.shape
    f2 = position.f2
    features = position.from_features.weight  # [4d, f]
    width = 2 * d + features.shape[1] + 1
    dropout = mlp[2].p if walks.training else 0.0
    sizes = Sizes(
        S=S,
        M=M,
        L=L,
        d=d,
        kinds=mlp[0].in_features // L,
        frequencies=0 if f2 is None else f2.width // 2,
        x_width=batch.x.shape[-1],
        width=-(-width // _ALIGNMENT) * _ALIGNMENT,
        keep=1.0 - dropout,
        pool=pool,
    )
    layers, weight = _weights(position.f1, position.bias, features, sizes)
    omega = features.new_empty(0) if f2 is None else f2.omega
    past = walks.from_state.weight.T  # [d, 4d]
    seed = torch.randint(1 << 31, (1,), device=past.device) if dropout > 0 else batch.alive  # of the dropout within f1
    with current(past.device):
        encoded: Tensor = _Walks.apply(layers, omega, weight, past, batch, sizes, dtype, seed)  # type: ignore[no-untyped-call]
    return encoded.float()


def is_fused(config: Config) -> bool:
    """Whether a model can be encoded here: an LSTM over I_CAW whose features fit the shared memory of a GPU."""
    features = (3 if config.logarithms else 1) * (config.length + 1) + 1
    return config.rnn == "lstm" and config.identity == "caw" and max(features, config.frequencies) <= _MOST_FEATURES


def best_dtype(device: torch.device) -> torch.dtype:
    """Of matrix products: bfloat16 where the device has it."""
    fast = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if fast else torch.float32


def _weights(f1: CountEncoder, bias: Tensor, features: Tensor, sizes: Sizes) -> tuple[Tensor, Tensor]:
    """The first layers of f1 [2, K, d], and all that is linear after them as one matrix [width, 4d]."""
    firsts, seconds, offset = [], [], bias
    sides: list[Any] = [f1.mlps[0], f1.mlps[-1]]
    for first, _, _, second in sides:
        used = torch.cat([first.weight.T, first.bias[None]])
        firsts.append(torch.cat([used, used.new_zeros(sizes.K - len(used), sizes.d)]))
        seconds.append(second.weight.T @ f1.project.weight.T)  # [d, 4d]
        offset = offset + second.bias[None] @ f1.project.weight.T
    rest = features.new_zeros(sizes.width - 2 * sizes.d - features.shape[1] - 1, 4 * sizes.d)
    return torch.stack(firsts), torch.cat([*seconds, features.T, offset, rest])


class _Walks(torch.autograd.Function):
    """Forward and backward of all positions of all walks."""

    @staticmethod
    def forward(
        ctx: Any,
        layers: Tensor,
        omega: Tensor,
        weight: Tensor,
        past: Tensor,
        batch: Dense,
        sizes: Sizes,
        dtype: torch.dtype,
        seed: Tensor,
    ) -> Tensor:
        S, M, L, d = sizes.S, sizes.M, sizes.L, sizes.d
        weight, past = weight.to(dtype), past.to(dtype)
        inputs = _inputs(layers, omega, batch, sizes, seed, dtype)
        z = inputs @ weight  # [rows, 4d]
        h, c = _cell(z[:S], None, None, None, batch.alive, sizes._replace(M=1, pool=False), depth=0)
        states = [(h, c)]
        root = h @ past  # [S, 4d]
        for i in range(1, L):
            here = _depth(z, i, sizes)
            if i > 1:
                torch.addmm(here, h.view(S * M, d), past, out=here)
            last = sizes.pool and i == L - 1
            h, c = _cell(here, root if i == 1 else None, h, c, batch.alive, sizes._replace(pool=last), depth=i)
            states.append((h, c))
        ctx.save_for_backward(layers, omega, weight, past, inputs, z, root, *(x for pair in states[:-1] for x in pair))
        ctx.batch, ctx.sizes = batch, sizes
        return h

    @staticmethod
    def backward(ctx: Any, dh: Tensor) -> tuple[Tensor | None, ...]:
        layers, omega, weight, past, inputs, z, root, *kept = ctx.saved_tensors
        batch, sizes = ctx.batch, ctx.sizes
        S, L, d = sizes.S, sizes.L, sizes.d
        dz, dc = torch.empty_like(z), None
        dpast = torch.zeros_like(past, dtype=torch.float32)
        dh = dh.contiguous()
        for i in range(L - 1, 0, -1):
            h, c = kept[2 * (i - 1)], kept[2 * (i - 1) + 1]
            part = sizes._replace(pool=sizes.pool and i == L - 1)
            first = root if i == 1 else None
            droot, dh, dc = _cell_backward(
                _depth(z, i, sizes), first, c, batch.alive, dh, dc, _depth(dz, i, sizes), part, depth=i
            )
            by = _depth(dz, i, sizes) if droot is None else droot  # [S * M or S, 4d]
            dpast += _over_rows(h.view(-1, d), by)
            dh = torch.addmm(dh.view(-1, d), by, past.T)
        roots = sizes._replace(M=1, pool=False)
        _cell_backward(z[:S], None, None, batch.alive, dh, dc, dz[:S], roots, depth=0)
        dlayers, domega = _inputs_backward(dz @ weight.T, inputs, layers, omega, batch, sizes)
        return dlayers, domega, _over_rows(inputs, dz), dpast, None, None, None, None


def _over_rows(a: Tensor, b: Tensor) -> Tensor:
    """a^T b in float32, [n, p] and [n, q] to [p, q]. In pieces: one product of so many rows leaves a GPU half empty."""
    n = len(a)
    pieces = max(n // _ROWS_OF_A_PIECE, 1)
    size = n // pieces
    split = (x[: pieces * size].view(pieces, size, -1) for x in (a, b))
    left, right = split
    total = (left.transpose(1, 2) @ right).sum(dim=0, dtype=torch.float32)
    return total if pieces * size == n else total + (a[pieces * size :].T @ b[pieces * size :]).float()


def _depth(z: Tensor, i: int, sizes: Sizes) -> Tensor:
    """The rows of one depth from 1: [S * M, 4d]."""
    n = sizes.S * sizes.M
    return z[sizes.S + (i - 1) * n : sizes.S + i * n]


def _inputs(layers: Tensor, omega: Tensor, batch: Dense, sizes: Sizes, seed: Tensor, dtype: torch.dtype) -> Tensor:
    from cawn.kernels.cuda.encoder import position_inputs

    out = torch.empty(sizes.rows, sizes.width, dtype=dtype, device=layers.device)
    columns = block_of(sizes.d, 64)
    rest = sizes.width - 2 * (sizes.d + sizes.frequencies)
    tiles = 2 * -(-sizes.d // columns) + 1 + -(-rest // columns)
    position_inputs[(-(-sizes.rows // _ROWS), tiles)](
        *(batch.counts, batch.elapsed, batch.x, layers, omega, seed, out),
        *(sizes.rows, sizes.S, sizes.M, sizes.x_width, sizes.d, sizes.frequencies, sizes.width, sizes.keep),
        L=sizes.L,
        KINDS=sizes.kinds,
        K=sizes.K,
        DROPOUT=sizes.keep < 1,
        PRECISION=_precision(dtype),
        ROWS=_ROWS,
        COLUMNS=columns,
        WAVES=block_of(max(sizes.frequencies, 1), 4096),
        num_warps=8,
    )
    return out


def _inputs_backward(
    gradient: Tensor, inputs: Tensor, layers: Tensor, omega: Tensor, batch: Dense, sizes: Sizes
) -> tuple[Tensor, Tensor]:
    from cawn.kernels.cuda.encoder import position_inputs_backward

    columns = block_of(sizes.d, 64)
    programs = min(_PROGRAMS, -(-sizes.rows // _ROWS))
    by_layers = layers.new_empty(programs, *layers.shape)
    by_omega = omega.new_empty(programs, len(omega))
    position_inputs_backward[(programs, 2 * -(-sizes.d // columns) + (len(omega) > 0))](
        *(batch.counts, batch.elapsed, inputs, gradient, by_layers, by_omega),
        *(sizes.rows, sizes.S, sizes.M, sizes.d, sizes.frequencies, sizes.width, sizes.keep),
        L=sizes.L,
        KINDS=sizes.kinds,
        K=sizes.K,
        PRECISION=_precision(inputs.dtype),
        ROWS=_ROWS,
        COLUMNS=columns,
        WAVES=block_of(max(len(omega), 1), 4096),
    )
    return by_layers.sum(dim=0), by_omega.sum(dim=0)


def _cell(
    z: Tensor, root: Tensor | None, h: Tensor | None, c: Tensor | None, alive: Tensor, sizes: Sizes, *, depth: int
) -> tuple[Tensor, Tensor]:
    from cawn.kernels.cuda.encoder import lstm_cell

    S, M, d = sizes.S, sizes.M, sizes.d
    new_h = z.new_empty(S, d, dtype=torch.float32) if sizes.pool else z.new_empty(S, M, d)
    new_c = z.new_empty((0,) if sizes.pool else (S, M, d), dtype=torch.float32)
    columns = block_of(d, 64)
    lstm_cell[(S, -(-d // columns))](
        *(z, z if root is None else root, z if h is None else h, new_c if c is None else c, alive, new_h, new_c),
        *(M, d, depth),
        L=sizes.L,
        STATE=min(depth, 2),
        POOL=sizes.pool,
        WALKS=_walks_of(M),
        COLUMNS=columns,
        num_warps=8,  # fewer have too few registers
    )
    return new_h, new_c


def _cell_backward(
    z: Tensor,
    root: Tensor | None,
    c: Tensor | None,
    alive: Tensor,
    dh: Tensor,
    dc: Tensor | None,
    dz: Tensor,
    sizes: Sizes,
    *,
    depth: int,
) -> tuple[Tensor | None, Tensor, Tensor]:
    """Fills dz; gives the gradients by the root's part of the gates, the state and the cell before."""
    from cawn.kernels.cuda.encoder import lstm_cell_backward

    S, M, d = sizes.S, sizes.M, sizes.d
    droot = None if depth != 1 else z.new_empty(S, 4 * d)
    shape = {0: (0,), 1: (S, d)}.get(depth, (S, M, d))
    dh_before, dc_before = z.new_empty(shape), z.new_empty(shape, dtype=torch.float32)
    columns = block_of(d, 64)
    lstm_cell_backward[(S, -(-d // columns))](
        *(z, z if root is None else root, dc_before if c is None else c, alive, dh, dc_before if dc is None else dc),
        *(dz, dz if droot is None else droot, dh_before, dc_before, M, d, depth),
        L=sizes.L,
        STATE=min(depth, 2),
        POOL=sizes.pool,
        LATER=dc is not None,
        WALKS=_walks_of(M),
        COLUMNS=columns,
        num_warps=8,  # fewer have too few registers
    )
    return droot, dh_before, dc_before


def _walks_of(M: int) -> int:
    """Walks that one pass of a program holds."""
    return 1 if M == 1 else block_of(M, 16)


def _precision(dtype: torch.dtype) -> str:
    return "ieee" if dtype == torch.float32 else "tf32"
