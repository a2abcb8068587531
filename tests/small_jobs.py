"""A small run and pairs to score, for tests of scale/."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import cawn
from cawn.caw.config import Config
from cawn.data import laws
from cawn.data.reading import Reading
from cawn.scale.plans import Plan, open_pairs, plan_pairs

SMALL = Config(alpha=0.01, num_walks=4, length=1, dim=4, frequencies=2, epochs=1)


def small_run(folder: Path | None = None) -> cawn.Run:
    plain = laws.triadic_closure(40, 900, seed=0).events
    events = cawn.Events(plain.src, plain.dst, plain.t, labels=[f"n{i}" for i in range(40)])
    return cawn.train(events, SMALL, quiet=True, task=cawn.Task(negatives=("random",)), device="cpu", out=folder)


def pairs(count: int = 300, seed: int = 0) -> dict[str, list]:
    rng = np.random.default_rng(seed)
    src, dst = ([f"n{i}" for i in rng.integers(0, 42, count)] for _ in range(2))  # n40 and n41 are strangers
    return {
        "note": [f"row {i}" for i in range(count)],
        "src": src,
        "dst": dst,
        "t": rng.integers(0, 30_000, count).tolist(),
    }


def write_folder(folder: Path, sizes: tuple[int, ...] = (300, 200), **changes: list) -> Path:
    """Parquet files of pairs, each with several row groups."""
    folder.mkdir()
    for i, size in enumerate(sizes):
        pq.write_table(pa.table(pairs(size, seed=i) | changes), folder / f"{i}.parquet", row_group_size=70)
    return folder


def plan(run: Path, source: Path, *, at=None, draws: int | None = None) -> Plan:
    return plan_pairs(run, open_pairs(run, str(source), Reading(), at=at), at, 0.5, draws)
