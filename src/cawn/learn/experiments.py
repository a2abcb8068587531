"""Train a system and evaluate it, once or again."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from cawn.checks import check_flags, check_path, check_threads
from cawn.data.events import Events
from cawn.devices import Device, check_device, pick_device
from cawn.errors import CawnError, QueryError
from cawn.learn.arguments import how_to_resume, settings_for
from cawn.learn.negatives import training_links
from cawn.learn.ranks import is_first, leave_reason
from cawn.learn.reporting import Listener, Listeners
from cawn.learn.results import Results
from cawn.learn.runs import load_system, read_run
from cawn.learn.splits import split_to_test
from cawn.learn.task import Nodes, Task
from cawn.learn.testing import Run, evaluate_system
from cawn.learn.trainer import Stopped, Trainer
from cawn.systems.base import Context
from cawn.systems.ranks import RankError
from cawn.systems.settings import Settings, memory_to


def train(
    events: Events,
    config: Settings | str | None = None,
    *,
    task: Task | Nodes = "transductive",
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    device: Device = "auto",
    threads: int | None = None,
    quiet: bool = False,
    callback: Listener | None = None,
) -> Run:
    """Train a system on a network and evaluate it on its last links.

    Args:
        events: The network. If links have their own negatives (`events.negative`), these are used instead of drawn
            ones; if they have weights (`events.weight`), the loss of each is multiplied by its weight, and links of
            weight 0 are part of the history but not trained on.
        config: Settings of the system, or its name for its default settings; those of CAW-N if not given.
        task: What is asked: the split, the nodes, the protocol and so on; or just "transductive" or "inductive".
        seed: For the split, the negatives, the weights and the walks.
        out: A folder for the run: config.toml, run.json, metrics.jsonl, weights, checkpoint, results.json.
        resume: Continue the run in `out` where it stopped, with its own split.
        device: "auto" is the GPU if there is one.
        threads: CPU threads; all cores by default.
        quiet: Print nothing.
        callback: Called with a `Progress` a few times a second and at the end of each epoch; `cawn.TensorBoard` is one.
            An exception it raises ends the training.
    """
    options: dict[str, Any] = {"task": task, "seed": seed, "out": out, "resume": resume, "device": device}
    options |= {"threads": threads, "quiet": quiet, "callback": callback}
    try:
        return Trainer(events, settings_for(config), **options, chooses=True).fit()
    except (RankError, Stopped):
        raise
    except CawnError as error:
        leave_reason(str(error))
        raise
    except KeyboardInterrupt:
        if not quiet and is_first():
            print(f"stopped{how_to_resume(out)}", file=sys.stderr, flush=True)
        raise


def evaluate(
    folder: str | os.PathLike[str],
    *,
    negatives: tuple[str, ...] | None = None,
    protocol: str | None = None,
    clock: str | None = None,
    baselines: bool = True,
    device: Device = "auto",
    threads: int | None = None,
    quiet: bool = True,
) -> Results:
    """Evaluate the model of a run folder again; its results are identical to those of the run if software and device
    are the same. Weights that were trained on all links, if there are any, are not used.

    Args:
        negatives: See `cawn.Task`; by default those of the protocol.
        protocol: See `cawn.Task`; by default that of the run. Refused if it tests links that the run was trained on.
        clock: See `cawn.Task`; by default that of the run.
        baselines: Whether to evaluate the baselines on the same links as well.
    """
    path = check_path(folder, "folder")
    check_device(device)
    check_threads(threads)
    check_flags(quiet=quiet)
    changes: dict[str, Any] = {"negatives": negatives, "baselines": baselines}
    changes |= {name: value for name, value in (("protocol", protocol), ("clock", clock)) if value is not None}
    Task(**changes)  # refuses what is wrong in itself
    run = read_run(path, evaluated=True)
    found, events, seed = run.description, run.events, run.description["seed"]
    if not run.record.finished:
        warnings.warn(f"{path}: its training has not ended; these are its best weights so far", stacklevel=2)
    if len(events) != found["links"]:
        raise QueryError(f"{path}: links were added after its training; evaluate the run it was saved from")
    split = split_to_test(events, found, **changes)
    training = training_links(events, split, run.config, seed)
    listeners = Listeners(quiet)
    context = Context(run.config, events[split.visible], seed, pick_device(device), threads, training)
    try:
        with memory_to("testing", run.config, scoring=True):
            system = load_system(run, context.device, threads)
            scorer, calibration = system.scorer(events), run.calibration
            return Results(evaluate_system(context, system, scorer, events, split, calibration, listeners.stage).tests)
    finally:
        listeners.close()
