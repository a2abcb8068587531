"""What single positions of walks give to the encoder on a GPU, and the gradients through that."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cawn.gpu.dense import Dense
from cawn.gpu.launch import block_of
from cawn.gpu.sizes import Sizes

_ROWS = 64  # of one program
_PROGRAMS = 528  # that share the rows backwards: four for each multiprocessor of a large GPU


class Layers(NamedTuple):
    """The first layer of f1 for the own side and for the other, [d, N] with bias [d] each, and omega of f2 [k]."""

    own_weight: Tensor
    own_bias: Tensor
    other_weight: Tensor
    other_bias: Tensor
    omega: Tensor


def position_inputs(layers: Layers, batch: Dense, sizes: Sizes, seed: Tensor, dtype: torch.dtype) -> Tensor:
    """The flat inputs, but for the states."""
    from cawn.kernels.cuda.encoder import position_inputs

    out = sizes.empty(dtype, batch.alive.device)
    columns = block_of(sizes.d, 64)
    rest = sizes.width - 2 * (sizes.d + sizes.frequencies)
    tiles = 2 * -(-sizes.d // columns) + 1 + -(-rest // columns)
    position_inputs[(_blocks(sizes) * tiles,)](
        *(batch.counts, batch.elapsed, batch.x, *layers, seed, out),
        *(sizes.S, sizes.x_width, sizes.frequencies, sizes.keep),
        TILES=tiles,
        DROPOUT=sizes.keep < 1,
        COLUMNS=columns,
        num_warps=8,
        **_constants(sizes, dtype),
    )
    return out


def position_gradients(gradient: Tensor, inputs: Tensor, layers: Layers, batch: Dense, sizes: Sizes) -> Layers:
    """By the layers, from the gradient by the inputs."""
    from cawn.kernels.cuda.encoder import position_inputs_backward

    columns, blocks, N = block_of(sizes.d, 64), _blocks(sizes), layers.own_weight.shape[1]
    programs = min(_PROGRAMS, -(-blocks // 2))
    by_layers = layers.omega.new_empty(programs, 2, sizes.K, sizes.d)
    by_omega = layers.omega.new_empty(programs, sizes.frequencies)
    position_inputs_backward[(programs, 2 * -(-sizes.d // columns) + (sizes.frequencies > 0))](
        *(batch.counts, batch.elapsed, inputs, gradient, by_layers, by_omega),
        *(sizes.S, blocks, sizes.frequencies, sizes.keep),
        COLUMNS=columns,
        **_constants(sizes, inputs.dtype),
    )
    own, other = by_layers.sum(dim=0)  # [K, d] each
    return Layers(own[:N].T, own[N], other[:N].T, other[N], by_omega.sum(dim=0))


def _blocks(sizes: Sizes) -> int:
    """Of rows of one depth each."""
    return -(-sizes.S // _ROWS) + (sizes.L - 1) * -(-sizes.walks // _ROWS)


def _constants(sizes: Sizes, dtype: torch.dtype) -> dict[str, int | str]:
    return {
        "M": sizes.M,
        "L": sizes.L,
        "D": sizes.d,
        "KINDS": sizes.kinds,
        "K": sizes.K,
        "WIDTH": sizes.width,
        "SPAN": sizes.span,
        "PRECISION": "ieee" if dtype == torch.float32 else "tf32",
        "ROWS": _ROWS,
        "WAVES": block_of(max(sizes.frequencies, 1), 4096),
    }
