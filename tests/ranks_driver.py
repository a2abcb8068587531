"""What ranks do together, for tests: run as a script by each of several processes, which `started` starts.

Rank 0 writes what it finds as JSON. Many checks share one group of processes, because starting one takes seconds.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cawn
from cawn.data import laws
from cawn.systems import settings_type
from small_runs import TINY

# Without f2, whose frequencies are multiplied by large times: rounding then grows by orders of magnitude in ten steps,
# in one process too if the links of a batch come in another order.
CONFIG = TINY.with_(time=False, dropout=0.3, epochs=2)
LOSSES = {
    "cawn": CONFIG,
    "cawn, one link in the last batch": CONFIG.with_(batch_size=52, num_negatives=2),
    "rates": settings_type("rates")(batch_size=60, hidden=8),
    "graphmixer": settings_type("graphmixer")(batch_size=64, neighbours=4, dim=8, time_dim=4, dropout=0.0),
}
STOPPED_AFTER = 5


def network(seed: int = 0) -> cawn.Events:
    return laws.triadic_closure(60, 1_030, seed=seed).events


def losses(config: Any) -> list[float]:
    """Of the steps of an epoch."""
    trainer = cawn.Trainer(network(), config, seed=3, quiet=True)
    return [float(loss) for loss in trainer.steps(0, 0)]


def trained(folder: Path | None = None, **options: Any) -> cawn.Run:
    options = {"seed": 3, "quiet": True, "kinds": ("random",), "out": folder} | options
    return cawn.train(network(), CONFIG, **options)


def figures(run: cawn.Run) -> dict[str, Any]:
    return {"results": run.results, "epochs": run.epochs, "calibration": run.calibration.to_dict()}


def refused(call: Callable[[], object]) -> str:
    try:
        call()
    except cawn.CawnError as error:
        return str(error)
    return "not refused"


def stop_after(count: int, act: Callable[[cawn.Trainer], object], call: Callable[[], object]) -> None:
    """Make a call in which `act` is called during the training step of this number."""
    from ctrl_c import after_each_step

    made = []

    def acting(trainer: cawn.Trainer) -> None:
        made.append(None)
        if len(made) == count:
            act(trainer)

    with after_each_step(acting):
        call()


def interrupt(trainer: cawn.Trainer) -> None:
    """Ctrl-C that reaches the last rank alone."""
    trainer.interrupt.asked = trainer.ranks.rank == trainer.ranks.size - 1


def die(rank: int) -> Callable[[cawn.Trainer], None]:
    def act(trainer: cawn.Trainer) -> None:
        if trainer.ranks.rank == rank:
            os.kill(os.getpid(), signal.SIGKILL)

    return act


def started(count: int, folder: Path, *checks: str) -> dict[str, Any]:
    """What the checks find in `count` processes, and their exit codes and error output."""
    numbers = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "OMP_NUM_THREADS": "1"}
    store = {"CAWN_RANKS_STORE": str(folder / "store"), "GLOO_SOCKET_IFNAME": "lo"}
    modules = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    processes = []
    for rank in range(count):
        environment = os.environ | numbers | store | modules | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        command = [sys.executable, __file__, str(folder), *checks]
        processes.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
    errors = [process.communicate()[1] for process in processes]
    path = folder / "found.json"
    assert path.exists(), errors
    codes = [process.returncode for process in processes]
    return json.loads(path.read_text()) | {"codes": codes, "errors": errors}


def main(folder: Path, checks: list[str]) -> None:
    ranks = cawn.learn.ranks.join("cpu")
    found: dict[str, Any] = {}

    def keep() -> None:
        if ranks.first:
            (folder / "found.json").write_text(json.dumps(found))

    if "losses" in checks:
        found["losses"] = {name: losses(config) for name, config in LOSSES.items()}
        found["refused"] = [refused(lambda: cawn.Trainer(network(), settings_type("tgn")(), quiet=True))]
        other = network(ranks.rank), CONFIG.with_(lr=1e-3 * (1 + ranks.rank))
        found["differing"] = refused(lambda: cawn.Trainer(*other, quiet=True))
    found["whole"] = figures(trained(folder / "whole"))
    found["resumed"] = figures(trained(folder / "part", resume=True))
    try:
        stop_after(STOPPED_AFTER, interrupt, lambda: trained(folder / "stopped"))
    except KeyboardInterrupt:
        found["stopped"] = True
    keep()
    stop_after(STOPPED_AFTER + 3, die(1 if "losses" in checks else 0), lambda: trained(folder / "killed"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
