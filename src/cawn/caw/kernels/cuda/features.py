"""Features of positions on a GPU; `caw.features` defines them.

Constants of the definitions are compile-time arguments: Triton would round them to float32 otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from cawn.kernels.cuda.functions import log1p
from cawn.kernels.cuda.launch import block_of


def position_features(
    walks: Sequence[Tensor],
    sets: Tensor,
    unit: Tensor,
    width: int,
    columns: dict[str, int],
    *,
    log_scale: float,
    longest: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Elapsed time [S, M, L] and X [S, M, L, width] in float32, and which positions exist [S, M, L] in uint8.

    All are zero where a walk has ended. Columns of X that hold attributes are left for `gather_rows`.

    Args:
        walks: As `sample_walks` returns them.
        sets: [S] int64, the walk set of each side.
        unit: [1] float64, the unit of time.
        columns: The first column of each feature of X that is used, see `caw.features`.
        log_scale, longest: The divisor of logarithms, and the longest time in units.
    """
    nodes, t, links, degrees = walks
    S, (_, M, L) = len(sets), nodes.shape
    elapsed, x = torch.empty(S, M, L, device=nodes.device), torch.empty(S, M, L, width, device=nodes.device)
    alive = torch.empty(S, M, L, dtype=torch.uint8, device=nodes.device)
    if S:
        block = block_of(M * L, 256)
        position_features_kernel[(S, -(-M * L // block))](
            *(t, links, degrees, nodes, sets, elapsed, x, alive, unit, M * L, width),
            L=L,
            TIME=columns.get("time", -1),
            DIRECTION=columns.get("direction", -1),
            DEGREE=columns.get("degree", -1),
            LOG_SCALE=log_scale,
            LONGEST=longest,
            BLOCK=block,
        )
    return elapsed, x, alive


def gather_rows(table: Tensor, ids: Tensor, sets: Tensor, x: Tensor, column: int, *, shift: int) -> None:
    """Write row `ids >> shift` of `table` [n, w] to x[..., column : column + w] for every position of the walk sets."""
    (S, M, L, x_width), (n, width) = x.shape, table.shape
    if S:
        gather_rows_kernel[(S, -(-M * L // 32), -(-width // 64))](
            *(table, ids, sets, x, n, M * L, shift, width, x_width, column), BLOCK=32, COLUMNS=64
        )


@triton.jit
def position_features_kernel(
    t,  # [Q, M, L]
    links,
    degrees,
    nodes,
    sets,  # [S]
    elapsed,  # [S, M, L] float32
    x,  # [S, M, L, x_width] float32
    alive,  # [S, M, L] uint8
    unit,  # [1] float64
    size,  # M * L
    x_width,
    L: tl.constexpr,
    TIME: tl.constexpr,  # first column, -1 without it
    DIRECTION: tl.constexpr,
    DEGREE: tl.constexpr,
    LOG_SCALE: tl.constexpr,
    LONGEST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program describes a block of positions of one walk set."""
    s = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = p < size
    at = tl.load(sets + s) * size + p
    out = s * size + p
    live = inside & (tl.load(nodes + at, mask=inside, other=-1) >= 0)
    now = tl.load(t + at, mask=live, other=0)
    before = tl.load(t + at - (p % L > 0).to(tl.int64), mask=live, other=0)
    root = tl.load(t + at - p % L, mask=live, other=0)
    per_unit = 1.0 / tl.load(unit)
    step = tl.minimum((before - now).to(tl.float64) * per_unit, LONGEST)
    tl.store(elapsed + out, step.to(tl.float32), mask=inside)
    tl.store(alive + out, live.to(tl.uint8), mask=inside)
    column = x + out * x_width
    if TIME >= 0:
        tl.store(column + TIME, (log1p(step) / LOG_SCALE).to(tl.float32), mask=inside)
        age = tl.minimum((root - now).to(tl.float64) * per_unit, LONGEST)
        tl.store(column + TIME + 1, (log1p(age) / LOG_SCALE).to(tl.float32), mask=inside)
    if DIRECTION >= 0:
        link = tl.load(links + at, mask=live, other=-1)
        tl.store(column + DIRECTION, ((link >= 0) & (link % 2 == 0)).to(tl.float32), mask=inside)
        tl.store(column + DIRECTION + 1, ((link >= 0) & (link % 2 == 1)).to(tl.float32), mask=inside)
    if DEGREE >= 0:
        count = tl.load(degrees + at, mask=live, other=0).to(tl.float64)
        tl.store(column + DEGREE, (log1p(count) / LOG_SCALE).to(tl.float32), mask=inside)


@triton.jit(do_not_specialize=["num_rows"])
def gather_rows_kernel(
    table,  # [num_rows, width] float32; may be in pinned host memory
    ids,  # [Q, M, L] int32
    sets,  # [S]
    out,  # [S, M, L, out_width] float32
    num_rows,
    size,  # M * L
    shift,
    width,
    out_width,
    first,  # column of `out`
    BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One program copies a tile of attributes of one walk set; zeros for rows outside the table."""
    s = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    inside = p < size
    row = tl.load(ids + tl.load(sets + s) * size + p, mask=inside, other=-1).to(tl.int64) >> shift
    there = (inside & (row >= 0) & (row < num_rows))[:, None] & (c < width)[None, :]
    value = tl.load(table + row[:, None] * width + c[None, :], mask=there, other=0.0)
    tl.store(
        out + (s * size + p)[:, None] * out_width + first + c[None, :],
        value,
        mask=inside[:, None] & (c < width)[None, :],
    )
