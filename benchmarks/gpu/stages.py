"""The time of each stage of a training update, and the least time that the GPU allows.

The limit of a stage is the larger of two times: its bytes read and written at the bandwidth of a large copy, and its
floating-point operations at the rate of a large matrix product. Caches between stages are ignored.
"""

from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu.bench import Bench
from cawn.caw.kernels.cuda.positions import padded

_HALF, _SINGLE = 2, 4  # bytes of a number
PRODUCTS = "matrix products"
STAGES = {
    "walks": ("sample_walks_kernel",),
    "relative identities": ("count_positions_kernel",),
    "features": ("position_features_kernel", "gather_rows_kernel", "rate_features_kernel"),
    "inputs of the encoder": ("position_inputs_kernel",),
    PRODUCTS: ("nvjet", "gemm", "cutlass", "splitKreduce"),
    "cells": ("lstm_cell_kernel",),
    "cells, backwards": ("lstm_cell_backward_kernel",),
    "inputs, backwards": ("position_inputs_backward_kernel",),
}
REST = "loss, optimizer, small weights"


@dataclass(frozen=True)
class Work:
    """The work of a stage in one update."""

    bytes: float
    operations: float = 0.0

    def limit(self, bandwidth: float, products: float) -> float:
        """Seconds."""
        return max(self.bytes / bandwidth, self.operations / products)


def work_of(bench: Bench) -> dict[str, Work]:
    """Counted from the shapes."""
    config, x = bench.config, bench.batcher.x_width
    M, L, d, k = config.num_walks, config.length + 1, config.dim, config.frequencies
    queries, pairs = 3 * config.batch_size, 2 * config.batch_size
    S = 2 * pairs
    walks = S * M
    rows, deep = S + (L - 1) * walks, (L - 2) * walks  # deep: with a state and a cell of their own before them
    width = padded(2 * d + 2 * k + x + 1)
    inputs = _HALF * (rows * width + deep * padded(d))
    gates, cell, state = 4 * d * _HALF, d * _SINGLE, d * _HALF  # of a row
    counts = rows * 2 * L * _SINGLE
    path = queries * M * L * (3 * _SINGLE + 8)
    described = walks * L * (_SINGLE + 1 + x * _SINGLE)
    return {
        "walks": Work(path),
        "relative identities": Work(queries * M * L * _SINGLE + walks * L * 2 * L * _SINGLE),
        "features": Work(path + described + pairs * bench.batcher.pair_width * _SINGLE),
        "inputs of the encoder": Work(counts + rows * (1 + x) * _SINGLE + rows * width * _HALF),
        PRODUCTS: Work(3 * (inputs + rows * gates), 3 * 2 * 4 * d * (rows * width + deep * d)),
        "cells": Work(rows * gates + deep * (2 * cell + 2 * state)),
        "cells, backwards": Work(2 * rows * gates + deep * (3 * cell + state)),
        "inputs, backwards": Work(counts + 2 * rows * (2 * d + 2 * k) * _HALF),
    }


def measure(bench: Bench, updates: int = 8) -> dict[str, float]:
    """Seconds of each stage in a captured update, by the profiler."""
    steps = bench.steps().epoch(0, 0)
    for _ in range(3):
        next(steps)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
        for _ in range(updates):
            next(steps)
        torch.cuda.synchronize()
    spent = dict.fromkeys([*STAGES, REST], 0.0)
    for event in seen.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            spent[stage_of(event.name)] += event.time_range.elapsed_us() / 1e6 / updates
    return spent


def stage_of(kernel: str) -> str:
    """The stage of a kernel: ours by name, those of libraries by a part of their name."""
    for stage, names in STAGES.items():
        if kernel in names or (stage == PRODUCTS and any(name in kernel for name in names)):
            return stage
    return REST


def show(bench: Bench, bandwidth: float, products: float) -> None:
    """The table."""
    spent, work = measure(bench), work_of(bench)
    total = sum(spent.values())
    title = f"one update of {bench.config.batch_size:,} links: {total * 1e6:,.0f} us on the device"
    table = Table("stage", "us", "share", "MB", "GFLOP", "limit, us", "times the limit", title=title)
    for stage, took in spent.items():
        row = [stage, f"{took * 1e6:,.0f}", f"{took / total:.1%}"]
        if stage in work:
            limit = work[stage].limit(bandwidth, products)
            row += [f"{work[stage].bytes / 1e6:,.0f}", f"{work[stage].operations / 1e9:,.0f}", f"{limit * 1e6:,.0f}"]
            row += [f"{took / limit:.1f}"]
        table.add_row(*row)
    everything = sum(one.limit(bandwidth, products) for one in work.values())
    table.add_row("all", f"{total * 1e6:,.0f}", "", "", "", f"{everything * 1e6:,.0f}", f"{total / everything:.1f}")
    Console(width=120).print(table)
