"""What several ranks do together, for tests: a script that is run once, because a process takes seconds to start.

It trains alone, then forks into two and into four ranks, one of which is killed at the end, and resumes alone what they
have left. What they find is written to a folder as JSON. Threads would not survive a fork, so there is one per process.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cawn
from cawn.data import laws
from cawn.learn import evaluation
from cawn.learn.ranks import join
from cawn.systems import settings_type
from ctrl_c import after_each_step
from small_runs import TINY

# Without f2, which multiplies learned frequencies by large times: rounding then grows by orders of magnitude in ten
# steps, also in one process if the links of a batch come in another order.
CONFIG = TINY.with_(time=False, dropout=0.3, epochs=2)
LOSSES = {
    "cawn": CONFIG,
    "one link in the last batch": CONFIG.with_(batch_size=80, num_negatives=2),
    "fewer links than ranks": CONFIG.with_(batch_size=3, num_walks=2, rates=False, two_steps=False, transitions=False),
    "rates": settings_type("rates")(batch_size=60, hidden=8),
    "graphmixer": settings_type("graphmixer")(batch_size=64, neighbours=4, dim=8, time_dim=4, dropout=0.0),
}
STEPS = 12  # of each; the last batch of the first is incomplete
KILLED = {2: 1, 4: 0}  # the rank that is killed, by the number of ranks


def network(seed: int = 0) -> cawn.Events:
    return laws.triadic_closure(60, 1_030, seed=seed).events


def losses(config: Any) -> list[float]:
    trainer = cawn.Trainer(network(), config, seed=3, quiet=True, device="cpu", threads=1)
    return [float(loss) for _, loss in zip(range(STEPS), trainer.steps(0, 0), strict=False)]


def trained(folder: Path | None = None, **options: Any) -> dict[str, Any]:
    how = {name: options.pop(name) for name in ("nodes", "clock", "baselines", "refit") if name in options}
    task = cawn.Task(**{"negatives": ("random",), "baselines": False} | how)
    options = {"task": task, "seed": 3, "quiet": True, "out": folder, "device": "cpu", "threads": 1} | options
    run = cawn.train(network(), CONFIG, **options)
    return {"results": run.results.tests, "epochs": run.epochs, "calibration": run.calibration.to_dict()}


def refused(call: Callable[[], object]) -> str:
    try:
        call()
    except (cawn.CawnError, KeyboardInterrupt) as error:
        return f"{type(error).__name__}: {error}"
    return "not refused"


def during_step(number: int, act: Callable[[cawn.Trainer], object], call: Callable[[], object]) -> str:
    """Why a call fails in which `act` is called during this training step."""
    made = []

    def acting(trainer: cawn.Trainer) -> None:
        made.append(None)
        if len(made) == number:
            act(trainer)

    with after_each_step(acting):
        return refused(call)


def interrupt_last(trainer: cawn.Trainer) -> None:
    """Ctrl-C that reaches the last rank alone."""
    trainer.interrupt.asked = trainer.ranks.rank == trainer.ranks.size - 1


def rank_main(count: int, folder: Path) -> None:
    """The checks of one rank; what it finds is written before the last one, in which a rank is killed, and after it."""
    ranks, found = join("cpu"), dict[str, Any]()
    configs = LOSSES if count == 2 else {name: LOSSES[name] for name in ("cawn", "fewer links than ranks")}
    found["losses"] = {name: losses(config) for name, config in configs.items()}
    if count == 2:
        found["tgn"] = refused(lambda: cawn.Trainer(network(), settings_type("tgn")(), quiet=True))
        other = network(ranks.rank), CONFIG.with_(lr=1e-3 * (1 + ranks.rank))
        found["differing"] = refused(lambda: cawn.Trainer(*other, quiet=True))
        found["whole"] = trained(baselines=True, refit=True)
        found["clock"] = trained(clock="batch:50", nodes="inductive")
    else:
        found["resumed"] = trained(folder / "part", resume=True)
    found["stopped"] = during_step(5, interrupt_last, lambda: trained(folder / f"stopped-{count}"))
    (folder / f"found-{count}-{ranks.rank}.json").write_text(json.dumps(found))

    def die(trainer: cawn.Trainer) -> None:
        if ranks.rank == KILLED[count]:
            os.kill(os.getpid(), signal.SIGKILL)

    found["killed"] = during_step(8, die, lambda: trained(folder / f"killed-{count}"))
    (folder / f"found-{count}-{ranks.rank}.json").write_text(json.dumps(found))


def fork(count: int, folder: Path) -> list[int]:
    """The exit codes of `count` ranks; they have written what they found."""
    children = []
    for rank in range(count):
        if (child := os.fork()) == 0:
            os.environ.update(dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(count)))
            os.environ.update(dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank)))
            os.environ.update(CAWN_RANKS_STORE=str(folder / f"store-{count}"), GLOO_SOCKET_IFNAME="lo")
            try:
                rank_main(count, folder)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def main(folder: Path) -> None:
    evaluation.RANKED_LINKS = 20  # as in the other tests
    found: dict[str, Any] = {"losses": {name: losses(config) for name, config in LOSSES.items()}}
    found["whole"] = trained(baselines=True)
    found["clock"] = trained(clock="batch:50", nodes="inductive")

    def stop(trainer: cawn.Trainer) -> None:
        trainer.interrupt.asked = True

    during_step(5, stop, lambda: trained(folder / "part"))
    for count in KILLED:
        codes = fork(count, folder)
        paths = [folder / f"found-{count}-{rank}.json" for rank in range(count)]
        found[str(count)] = {
            "codes": codes,
            "ranks": [json.loads(path.read_text()) for path in paths],
            "resumed": {kind: trained(folder / f"{kind}-{count}", resume=True) for kind in ("stopped", "killed")},
        }
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
