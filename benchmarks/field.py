"""Speed of every system on one network: `python -m benchmarks.field [--network uci] [--device cuda]`.

Each row is printed as soon as it is measured. The published codes' figures, in links/s of training, were measured on
one H200 with UCI and batches of 200 links; ratios mean something only for the same network, batch size and device.
"""

import argparse
import gc
import json
import sys
import time
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch

import cawn
from benchmarks.report import processor
from cawn import systems
from cawn.devices import peak_memory, pick_device, reset_peak_memory
from cawn.learn.trainer import Trainer

PUBLISHED = {"tgn": 8_100, "tpnet": 9_700, "graphmixer": 5_200, "dygformer": 1_600}  # links/s of their own codes
BAR = 2.0  # times the published code
WARM_UP = 30  # steps
_COLUMNS = "{:<16} {:>10} {:>10} {:>7} {:>10} {:>10} {:>9} {:>10} {:>10}"


class Speed(NamedTuple):
    """What one system reaches."""

    system: str
    links_per_second: float  # in training
    steps: int  # timed
    seconds: float
    pairs_per_second: float  # in scoring, of validation links and as many negatives
    peak_memory: int | None  # bytes, of training and scoring
    weights: int


def measure(events: cawn.Events, name: str, device: str, batch_size: int, seconds: float) -> Speed:
    """Times an epoch, or as many of its steps as fit into `seconds`; then a pass over the validation links."""
    config = systems.settings_type(name)().with_(batch_size=batch_size)
    reset_peak_memory(pick_device(device))
    trainer = Trainer(events, config, device=device, quiet=True)
    steps, took = _train(trainer, seconds)
    links = steps / trainer.num_steps * len(trainer.training.positions)
    pairs = _score(trainer, seconds)
    weights = sum(parameter.numel() for parameter in trainer.system.module.parameters())
    return Speed(name, links / took, steps, took, pairs, peak_memory(trainer.device), weights)


def _train(trainer: Trainer, seconds: float) -> tuple[int, float]:
    """The number of steps made, and the time they took."""
    for _ in islice(trainer.steps(0, 0), WARM_UP):
        pass
    _wait(trainer.device)
    start, steps = time.perf_counter(), 0
    for _ in trainer.steps(1, 0):
        steps += 1
        if time.perf_counter() - start > seconds:
            break
    _wait(trainer.device)
    return steps, time.perf_counter() - start


def _score(trainer: Trainer, seconds: float) -> float:
    """Pairs per second, with the index built and the state at the end of the training links."""
    scorer, count = trainer.system.scorer(trainer.visible), len(trainer.split.val)
    trainer._score_validation(scorer, slice(0, 1))
    start = time.perf_counter()
    trainer._score_validation(scorer, slice(0, min(256, count)))
    estimate = (time.perf_counter() - start) * count / min(256, count)
    timed = slice(0, max(int(count * min(seconds / estimate, 1)), 1))
    scorer = trainer.system.scorer(trainer.visible)  # one that has answered nothing yet
    trainer._score_validation(scorer, slice(0, 1))
    start = time.perf_counter()
    trainer._score_validation(scorer, timed)
    return 2 * timed.stop / (time.perf_counter() - start)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def row(found: Speed) -> str:
    published = PUBLISHED.get(found.system)
    ratio = "" if published is None else f"{found.links_per_second / published:.2f} x"
    reached = "" if published is None else "reached" if found.links_per_second >= BAR * published else "missed"
    memory = "" if found.peak_memory is None else f"{found.peak_memory / 1e9:.2f} GB"
    return _COLUMNS.format(
        found.system,
        f"{found.links_per_second:,.0f}",
        "" if published is None else f"{published:,}",
        ratio,
        reached,
        f"{found.pairs_per_second:,.0f}",
        f"{found.steps:,}",
        memory,
        f"{found.weights:,}",
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.field", description=__doc__)
    parser.add_argument("--network", default="uci", help="a dataset, or a file of links")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--systems", default="all", help="names, separated by commas")
    parser.add_argument("--batch-size", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20.0, help="at most, for each measurement")
    parser.add_argument("--save", metavar="FILE", help="also write the figures to FILE, as JSON")
    options = parser.parse_args()
    network, device = options.network, str(pick_device(options.device))
    events = cawn.read(network) if Path(network).exists() else cawn.datasets.load(network)
    names = [name for name in systems.names() if systems.entry(name).trained]
    names = names if options.systems == "all" else options.systems.split(",")
    place = torch.cuda.get_device_name(device) if device.startswith("cuda") else processor()
    print(f"{network}, {len(events):,} links, batches of {options.batch_size}; {place}; torch {torch.__version__}")
    headings = "system", "links/s", "published", "ratio", f"bar {BAR:g} x", "pairs/s", "steps", "memory", "weights"
    print(_COLUMNS.format(*headings))
    found = []
    for name in names:
        try:
            found.append(measure(events, name, device, options.batch_size, options.seconds))
            print(row(found[-1]), flush=True)
        except Exception as error:
            print(f"{name:<16} failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)
        gc.collect()
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
    if options.save:
        Path(options.save).write_text(json.dumps([speed._asdict() for speed in found], indent=1) + "\n")
    return 0 if len(found) == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
