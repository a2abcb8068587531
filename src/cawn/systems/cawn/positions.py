"""What single positions of walks give to the encoder on a GPU, and the gradients through that; see the kernels."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from cawn.kernels.cuda.launch import block_of
from cawn.systems.cawn.dense import Dense
from cawn.systems.cawn.sizes import Sizes

_ROWS = 128  # of one program
_ROWS_BACKWARDS = 64
_PROGRAMS = 1056  # that share the rows backwards: eight for each multiprocessor of a large GPU


class Layers(NamedTuple):
    """The first layer of f1 for the own side and for the other, [d, N] with bias [d] each, and omega of f2 [k]."""

    own_weight: Tensor
    own_bias: Tensor
    other_weight: Tensor
    other_bias: Tensor
    omega: Tensor


def position_inputs(layers: Layers, batch: Dense, sizes: Sizes, seed: Tensor, dtype: torch.dtype) -> Tensor:
    """The flat inputs, but for the states."""
    from cawn.kernels.cuda import positions

    out = sizes.empty(dtype, batch.alive.device)
    columns = block_of(sizes.d, 64)
    rest = sizes.width - 2 * (sizes.d + sizes.frequencies)
    rest_columns = block_of(rest, 64)
    tiles = 2 * -(-sizes.d // columns) + 1 + -(-rest // rest_columns)
    positions.position_inputs[(_blocks(sizes, _ROWS) * tiles,)](
        *(_walks_last(batch.counts), batch.elapsed, batch.x, *layers, seed, out),
        *(sizes.S, sizes.keep, 1 / math.log1p(sizes.M)),
        TILES=tiles,
        DROPOUT=sizes.keep < 1,
        COLUMNS=columns,
        REST=rest_columns,
        **_constants(sizes, dtype, _ROWS),
    )
    return out


def position_gradients(gradient: Tensor, inputs: Tensor, layers: Layers, batch: Dense, sizes: Sizes) -> Layers:
    """By the layers, from the gradient by the inputs."""
    from cawn.kernels.cuda import positions

    columns, blocks, N = block_of(sizes.d, 64), _blocks(sizes, _ROWS_BACKWARDS), layers.own_weight.shape[1]
    programs = min(_PROGRAMS, -(-blocks // 2))
    by_layers = layers.omega.new_empty(programs, 2, sizes.K, sizes.d)
    by_omega = layers.omega.new_empty(programs, sizes.frequencies)
    positions.position_inputs_backward[(programs, 2 * -(-sizes.d // columns) + (sizes.frequencies > 0))](
        *(_walks_last(batch.counts), batch.elapsed, inputs, gradient, by_layers, by_omega),
        *(sizes.S, blocks, sizes.keep, 1 / math.log1p(sizes.M)),
        COLUMNS=columns,
        **_constants(sizes, inputs.dtype, _ROWS_BACKWARDS),
    )
    own, other = by_layers.sum(dim=0)  # [K, d] each
    return Layers(own[:N].T, own[N], other[:N].T, other[N], by_omega.sum(dim=0))


def _walks_last(counts: Tensor) -> Tensor:
    """[S, M, L, 2, L] to [S, L, 2, L, M], as they are in memory already."""
    return counts.permute(0, 2, 3, 4, 1).contiguous()


def _blocks(sizes: Sizes, rows: int) -> int:
    """How many of `rows` rows there are, all of one depth each."""
    return -(-sizes.S // rows) + (sizes.L - 1) * -(-sizes.walks // rows)


def _constants(sizes: Sizes, dtype: torch.dtype, rows: int) -> dict[str, int | str]:
    return {
        "M": sizes.M,
        "L": sizes.L,
        "D": sizes.d,
        "X": sizes.x_width,
        "FREQUENCIES": sizes.frequencies,
        "KINDS": sizes.kinds,
        "K": sizes.K,
        "WIDTH": sizes.width,
        "SPAN": sizes.span,
        "PRECISION": "ieee" if dtype == torch.float32 else "tf32",
        "ROWS": rows,
        "WAVES": block_of(max(sizes.frequencies, 1), 4096),
    }
