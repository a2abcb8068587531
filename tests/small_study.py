"""Studies for tests: small real ones, and ones whose trainings only pretend, to be killed at every moment."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import cawn
from cawn.files import write_text
from cawn.learn.reporting import Progress
from cawn.studies.tuning.objective import Objective
from cawn.studies.tuning.plan import SearchPlan
from cawn.studies.tuning.space import parse_space
from cawn.studies.tuning.trials import SharedStudy
from cawn.systems.rates import RatesSettings

SPACE = {
    "lr": {"low": 1e-4, "high": 1e-1, "log": True},
    "hidden": [4, 8, 16],
    "counted": [{"since": True, "two_steps": True}, {"since": False, "two_steps": False}],
}
TRIALS = 5  # of a small real study
QUICK = RatesSettings(epochs=3, hidden=8, batch_size=64, lr=3e-4)


def plan(seeds: tuple[int, ...] = (0, 1), **changes: Any) -> SearchPlan:
    config = QUICK.with_(**changes)
    return SearchPlan(config, parse_space(SPACE, config), "ap", seeds, 0, cawn.Task())


class Killed(BaseException):
    """Stands for the end of a process by kill -9."""


class Pretended(Objective):
    """Trainings without a network: the larger `hidden` and the nearer `lr` to 0.01, the better."""

    def __init__(self, plan: SearchPlan) -> None:
        super().__init__(None, plan, "cpu", 1)  # type: ignore[arg-type]

    def trainer(self, config: Any, seed: int, folder: Path, listener: Any = None, task: Any = None) -> Any:
        return _PretendedTrainer(config, seed, folder, listener)


class _PretendedTrainer:
    def __init__(self, config: Any, seed: int, folder: Path, listener: Any) -> None:
        self._config, self._seed, self._file, self._listener = config, seed, folder / "state.json", listener
        folder.mkdir(exist_ok=True)
        found = json.loads(self._file.read_text()) if self._file.exists() else {"epoch": 0, "best": -1.0, "at": -1}
        self._best = found["best"]
        self.state = SimpleNamespace(epoch=found["epoch"], best_epoch=found["at"], seconds=1.0)

    def value(self, epoch: int) -> float:
        lr = self._config.lr
        return 0.5 + self._config.hidden / 100 - abs(0.01 - min(lr, 0.02)) + 0.01 * epoch - 0.001 * self._seed

    def fit_untested(self) -> None:
        state, epochs = self.state, self._config.epochs
        while state.epoch < epochs:
            ap, state.epoch = self.value(state.epoch), state.epoch + 1
            if ap > self._best:
                self._best, state.best_epoch = ap, state.epoch - 1
            best = state.best_epoch == state.epoch - 1
            row = {"val_ap": ap}
            self._listener(Progress("epoch", 1, 1, state.epoch, epochs, metrics=row, best=best))
            write_text(self._file, json.dumps({"epoch": state.epoch, "best": self._best, "at": state.best_epoch}))


def facts(study: SharedStudy) -> list[Any]:
    """All that is known of the trials, to compare studies with."""
    return [vars(trial) for trial in study.trials()]


@contextmanager
def killed(at: int, how: str) -> Iterator[list[int]]:
    """Every write to the disk is counted, and the process is killed at one: "before", "within" or "after" it."""
    import optuna

    from cawn import files

    backend, made = optuna.storages.journal.JournalFileBackend, [0]
    append, write = backend.append_logs, files.write_atomically

    def count(really: Any, torn: Any, *arguments: Any) -> None:
        made[0] += 1
        if made[0] == at and how == "before":
            raise Killed
        if made[0] == at and how == "within":
            torn(*arguments)
            raise Killed
        really(*arguments)
        if made[0] == at:
            raise Killed

    def torn_line(self: Any, logs: list[dict[str, Any]]) -> None:
        with open(self._file_path, "ab") as file:
            file.write(json.dumps(logs[0])[:-7].encode())

    def torn_file(path: Path, _: Any) -> None:
        (path.parent / f".cawn-{'0' * 16}.tmp").write_bytes(b"half of")

    with (
        mock.patch.object(backend, "append_logs", lambda *given: count(append, torn_line, *given)),
        mock.patch.object(files, "write_atomically", lambda *given: count(write, torn_file, *given)),
    ):
        yield made


def tiny_network() -> cawn.Events:
    from cawn.data import laws

    return laws.triadic_closure(30, 400, seed=0).events
