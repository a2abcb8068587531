"""Kills `train`, `predict`, `update` and `save` with -9 at random moments, and counts what is lost.

    python tools/kills.py --kills 200 --seed 0

Each is started in a process of its own, killed, looked at, and done again: a run must be there as it was or as it
becomes, an output file whole or absent, and what was resumed the same as what was never interrupted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch

import cawn
from cawn.cli import main
from cawn.files import FolderLock
from cawn.learn.runs import read_run, replace_links
from cawn.predictor import changes_of

CONFIG = cawn.Config(alpha=0.5, num_walks=8, dim=8, frequencies=4, batch_size=16, epochs=3)
NAMES = [f"node {i}" for i in range(30)]


def links(count: int) -> cawn.Events:
    rng = np.random.default_rng(1)
    return cawn.Events(*rng.integers(0, 30, (2, 600)), np.arange(600), labels=NAMES)[:count]


class Workplace:
    """A folder with a finished run and a file of pairs, and the four things that are done there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.run, self.pairs = folder, folder / "run", folder / "pairs.csv"
        self.target = folder / "target"
        rows = (f"{NAMES[i % 30]},{NAMES[(i * 7 + 1) % 30]},600" for i in range(40_000))
        self.pairs.write_text("src,dst,t\n" + "\n".join(rows) + "\n")

    def prepare(self, action: str) -> None:
        """What must be there before the action is done for the first time."""
        if self.target.is_dir():
            shutil.rmtree(self.target)
        for path in self.folder.glob("scored.csv*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if action == "update":
            shutil.copytree(self.run, self.target)

    def train(self) -> None:
        resume = (self.target / "run.json").exists()
        cawn.train(links(500), CONFIG, out=self.target, resume=resume, quiet=True, device="cpu", threads=1)

    def update(self) -> None:
        with FolderLock(self.target) as lock:
            predictor = cawn.LinkPredictor.load(self.target, device="cpu", threads=1)
            predictor.update(links(600)[predictor.num_links :])
            state = predictor.snapshot()
            replace_links(self.target, state.events, names=state.names, lock=lock, changes=changes_of(state))

    def save(self) -> None:
        if not self.target.exists():
            cawn.LinkPredictor.load(self.run, device="cpu", threads=1).save(self.target)

    def predict(self) -> None:
        out = str(self.folder / "scored.csv")
        options = ["--force", "--device", "cpu", "--threads", "1", "--quiet"]
        sys.argv = ["cawn", "predict", str(self.run), str(self.pairs), "-o", out, *options]
        with suppress(SystemExit):
            main()

    def state(self, action: str) -> object:
        """What the action leaves, and whether it is all there: None where there is nothing yet."""
        if action == "predict":
            out = self.folder / "scored.csv"
            return out.read_bytes() if out.exists() else None
        if not (self.target / "run.json").exists():
            return None
        try:
            weights = {name: value.tolist() for name, value in read_run(self.target, evaluated=True).weights.items()}
        except cawn.StorageError as error:
            if action == "train" and "no weights before" in str(error):
                return None
            raise
        predictor = cawn.LinkPredictor.load(self.target, device="cpu", threads=1)
        results = (self.target / "results.json").exists()
        return weights, predictor.score(NAMES[:9], NAMES[9:18], 600).tolist(), predictor.finished and results


def in_child(action: Callable[[], None], seconds: float | None) -> tuple[bool, float]:
    """Do it in another process, killed after so many seconds; returns whether it came to its end, and when."""
    start = time.perf_counter()
    child = os.fork()
    if child == 0:
        status = 1
        with open(os.devnull, "w") as silent:
            os.dup2(silent.fileno(), 2)
        try:
            action()
            status = 0
        finally:
            os._exit(status)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if seconds is None and status != 0:
        raise RuntimeError("it fails without being killed")
    return status == 0, time.perf_counter() - start


def attack(place: Workplace, action: str, rng: np.random.Generator, wanted: object, takes: float) -> tuple[bool, bool]:
    """One kill; returns whether it came before the end, and whether something was lost."""
    place.prepare(action)
    before = place.state(action)
    do = getattr(place, action)
    ended, _ = in_child(do, rng.uniform(0, takes))
    try:
        seen = place.state(action)
        partial = action == "train" and seen is not None  # its best weights so far
        if not partial and seen not in (before, wanted):
            return not ended, True
        in_child(do, None)
        return not ended, place.state(action) != wanted
    except (cawn.CawnError, RuntimeError) as error:
        print(f"{action}: {error}", file=sys.stderr)
        return not ended, True


def run() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(options.seed)
    actions = ("train", "predict", "update", "save")
    with tempfile.TemporaryDirectory() as folder:
        place = Workplace(Path(folder))
        cawn.train(links(500), CONFIG, out=place.run, quiet=True, device="cpu", threads=1)
        wanted, takes = {}, {}
        for action in actions:
            place.prepare(action)
            _, takes[action] = in_child(getattr(place, action), None)
            wanted[action] = place.state(action)
        print(f"{'':8}  kills  before the end  lost")
        lost = 0
        for i, action in enumerate(actions):
            share = options.kills // 4 + (i < options.kills % 4)
            found = [attack(place, action, rng, wanted[action], takes[action]) for _ in range(share)]
            cut, bad = (sum(column) for column in zip(*found, strict=True)) if found else (0, 0)
            print(f"{action:8}  {share:5}  {cut:14}  {bad:4}", flush=True)
            lost += bad
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(run())
