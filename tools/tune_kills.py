"""Kills a study of `cawn tune` with -9 at random moments, and counts what is lost, doubled or changed.

    python tools/tune_kills.py --kills 20 --seed 0
    python tools/tune_kills.py --kills 20 --processes 2

A real small study is started again after each kill, until it ends. With one process its trials must be those of a study
that nobody killed: the same settings, values and curves, and the same weights of the best model. With several, of which
one is killed at a time, the trials depend on which end first; then each must be there once, with one result.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cawn
from cawn.learn.runs import read_run
from cawn.studies.tuning import Search, tune
from cawn.studies.tuning.plan import JOURNAL, SearchPlan, read_study
from cawn.studies.tuning.trials import SharedStudy, Trial

CONFIG = cawn.Config(num_walks=8, length=1, dim=8, frequencies=4, batch_size=32, epochs=3, lr=3e-4)
SPACE = {
    "lr": {"low": 1e-4, "high": 3e-2, "log": True},
    "dim": [4, 8, 16],
    "walks": [{"num_walks": 8, "length": 1, "tree": []}, {"num_walks": 16, "length": 2, "tree": [8, 2]}],
    "dropout": {"low": 0.0, "high": 0.4, "step": 0.1},
}
TRIALS, SEEDS = 8, 2


def links() -> cawn.Events:
    from cawn.data import laws

    return laws.triadic_closure(60, 800, seed=0).events


def search(folder: Path, count: int = TRIALS) -> None:
    """Start the study, or continue it, to its end."""
    options: dict[str, Any] = {"device": "cpu", "threads": 1, "quiet": True}
    tune(links(), CONFIG, search=Search(SPACE, seeds=SEEDS), out=folder, trials=count, **options)


def start(folder: Path) -> int:
    """A process that searches; returns its id."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            search(folder)
            status = 0
        except cawn.CawnError as error:
            print(error, file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    return child


def ended(child: int, seconds: float) -> bool:
    """Whether a process ends by itself within so many seconds; raises if it fails."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if status != 0:
                raise RuntimeError("it fails without being killed")
            return True
        time.sleep(0.005)
    return False


def trials(folder: Path) -> list[Trial]:
    """The trials so far."""
    if not (folder / JOURNAL).exists():
        return []
    return SharedStudy(folder, SearchPlan.from_dict(read_study(folder))).trials()


def results_told(folder: Path) -> Counter[int]:
    """How many results the journal has of each trial."""
    lines = (folder / JOURNAL).read_bytes().splitlines(keepends=True) if (folder / JOURNAL).exists() else []
    found = [json.loads(line) for line in lines if line.endswith(b"\n")]
    return Counter(line["trial_id"] for line in found if "trial_id" in line and line.get("state", 0) != 0)


def facts(trial: Trial) -> Any:
    """What must not depend on kills: all but the time that was spent."""
    seeds = {seed: (found["value"], found["epochs"]) for seed, found in trial.seeds.items()}
    return trial.number, trial.state, trial.value, trial.parameters, trial.curve, seeds


class Attack:
    """Studies in the folders of a workplace, killed one after another, and what was found wrong with them."""

    def __init__(self, place: Path, processes: int, seed: int) -> None:
        self.place, self.processes, self.rng = place, processes, np.random.default_rng(seed)
        search(place / "first", 1)  # compiles
        begun = time.monotonic()
        search(place / "whole")
        self.takes, self.whole = time.monotonic() - begun, trials(place / "whole")
        self.weights = read_run(place / "whole" / "best", evaluated=True).weights
        self.kills = self.studies = self.lost = self.doubled = self.changed = self.models = 0

    def run(self, kills: int) -> None:
        """Kill studies until there were so many kills; the last one may come to its end afterwards."""
        while self.kills < kills:
            self.studies += 1
            folder = self.place / f"study-{self.studies}"
            children = [start(folder) for _ in range(self.processes)]
            while self.kills < kills and children:
                wait = self.rng.uniform(0, 2 * self.takes / (kills * self.processes))
                place = int(self.rng.integers(len(children)))
                if ended(children[place], wait):
                    children.pop(place)
                    continue
                os.kill(children[place], signal.SIGKILL)
                os.waitpid(children[place], 0)
                self.kills += 1
                self._look(folder)
                children[place] = start(folder)
            for child in children:
                while not ended(child, 60):
                    pass
            self._look(folder)
            self._compare(folder)

    def _look(self, folder: Path) -> None:
        """Check a study at any moment: no trial beyond the planned ones, none with two results or someone else's."""
        found = trials(folder)
        self.doubled += max(len(found) - TRIALS, 0) + sum(count - 1 for count in results_told(folder).values())
        self.doubled += len(found) - len({str(trial.config) for trial in found})
        if self.processes == 1:
            done = [trial for trial in found if trial.state != "running"]
            self.changed += sum(facts(trial) != facts(self.whole[trial.number]) for trial in done)

    def _compare(self, folder: Path) -> None:
        """Check a study that has come to its end."""
        found = trials(folder)
        self.lost += TRIALS - sum(trial.state in ("complete", "pruned") for trial in found)
        weights = read_run(folder / "best", evaluated=True).weights
        if self.processes == 1:
            same = weights.keys() == self.weights.keys()
            self.models += same and all(np.array_equal(weights[name], self.weights[name]) for name in weights)
        else:
            best = max((trial for trial in found if trial.state == "complete"), key=lambda trial: trial.value or 0.0)
            kept = read_run(folder / "trials" / f"{best.number:04d}" / "seed-0", evaluated=True).weights
            self.models += all(np.array_equal(weights[name], kept[name]) for name in weights)


def run() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        attack = Attack(Path(folder), options.processes, options.seed)
        states = Counter(trial.state for trial in attack.whole)
        print(f"a study of {TRIALS} trials ({dict(states)}) takes {attack.takes:.0f} s", flush=True)
        attack.run(options.kills)
    columns = ("kills", "studies", "lost", "doubled", "changed", "best model found again")
    values = (attack.kills, attack.studies, attack.lost, attack.doubled, attack.changed, attack.models)
    print("  ".join(columns))
    print("  ".join(f"{value:>{len(column)}}" for column, value in zip(columns, values, strict=True)))
    return int(attack.lost + attack.doubled + attack.changed > 0 or attack.models < attack.studies)


if __name__ == "__main__":
    sys.exit(run())
