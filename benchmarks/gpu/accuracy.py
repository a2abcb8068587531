"""What bfloat16 costs: the same runs with the encoder's products in bfloat16 and in float32, and on the CPU."""

import sys

import numpy as np
import torch

import cawn
from benchmarks.gpu.bench import network
from benchmarks.report import Row
from cawn.caw.model import CAWN
from cawn.devices import Device

WAYS: dict[str, tuple[Device, torch.dtype | None]] = {
    "bfloat16": ("cuda", torch.bfloat16),
    "float32": ("cuda", torch.float32),
    "cpu": ("cpu", None),
}
BAR = 0.002  # of AUC


def measure(seeds: int, ways: list[str]) -> list[Row]:
    """Mean AUC of each way; beside it how far that is from the last one."""
    rows = []
    for name in ("uci", "wikipedia"):
        events, found = network(name), {}
        for way in ways:
            device, CAWN.matmul_dtype = WAYS[way]
            runs = [
                cawn.train(
                    events,
                    cawn.Config(alpha="ladder"),
                    seed=seed,
                    device=device,
                    task=cawn.Task(negatives=("random",)),
                    quiet=True,
                )
                for seed in range(seeds)
            ]
            each = [run.results.tests[0]["model"]["auc"] for run in runs]
            found[way] = float(np.mean(each))
            print(name, way, each, file=sys.stderr)
        for way in ways[:-1]:
            detail = f"{found[way]:.4f} and {found[ways[-1]]:.4f}, mean of {seeds} seeds"
            off = abs(found[way] - found[ways[-1]])
            rows.append(Row(f"{name}, AUC of {way} and of {ways[-1]}: apart by", off, BAR, "<=", "", detail))
    return rows
