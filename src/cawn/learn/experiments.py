"""Whole runs: train once, train for several seeds, evaluate again."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cawn import systems
from cawn.checks import check_flags, check_path, check_seed, check_threads
from cawn.data.events import Events
from cawn.devices import Device, check_device, pick_device
from cawn.errors import CawnError, QueryError, StorageError, brief
from cawn.files import write_text
from cawn.learn import metrics, splits
from cawn.learn.arguments import check_training, how_to_resume
from cawn.learn.clocks import Clock, recorded_clock
from cawn.learn.comparison import choose_alternative, trial_steps
from cawn.learn.evaluation import mean_rows
from cawn.learn.negatives import check_kinds, refuse_kinds, training_links
from cawn.learn.protocols import check_protocol
from cawn.learn.ranks import join
from cawn.learn.reporting import Listener, Listeners, Progress, check_board
from cawn.learn.runs import load_system, read_description, read_run, refuse_existing, refuse_foreign
from cawn.learn.splits import Task, TimeSplit, recorded_cuts, split_of_run, split_under
from cawn.learn.testing import Run, evaluate_system
from cawn.learn.trainer import Stopped, Trainer
from cawn.systems.base import Context, HasAlternatives
from cawn.systems.ranks import RankError
from cawn.systems.settings import Settings, memory_to


def train(
    events: Events,
    config: Settings | None = None,
    *,
    system: str | None = None,
    task: Task = "transductive",
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    device: Device = "auto",
    threads: int | None = None,
    resume: bool = False,
    quiet: bool = False,
    tensorboard: bool = False,
    kinds: tuple[str, ...] | None = None,
    split: TimeSplit | None = None,
    callback: Listener | None = None,
    baselines: bool = True,
    protocol: str = "strict",
    clock: str = "strict",
    refit: bool = False,
) -> Run:
    """Train a system on a network and evaluate it on its last links.

    Args:
        events: The network. If links have their own negatives (`events.negative`), these are used instead of drawn
            ones; if they have weights (`events.weight`), the loss of each is multiplied by its weight, and links of
            weight 0 are part of the history but not trained on.
        config: Settings of the system; the preset "default" if not given.
        system: Name of the system; by default that of `config`, or CAW-N.
        task: "transductive", or "inductive": a tenth of the nodes are hidden, and the test links are those that touch
            them.
        seed: For the split, the negatives, the weights and the walks.
        out: A folder for the run: config.toml, run.json, metrics.jsonl, weights, checkpoint, results.json.
        device: "auto" is the GPU if there is one.
        resume: Continue the run in `out` where it stopped.
        quiet: Print nothing.
        tensorboard: Also write the curves to `out`/tensorboard.
        kinds: The kinds of negatives to evaluate against; by default those of the protocol. User-given negatives of
            test links are always included.
        split: Where training ends and the test begins; by default after 70 % and 85 % of the links. A resumed run
            keeps its own.
        callback: Called with a `Progress` a few times a second and at the end of each epoch. An exception it raises
            ends the training.
        baselines: Whether to evaluate the baselines on the same links as well.
        protocol: Split, negatives and metrics: "strict", or as published by others: "tgb" (TGB; "tgb:N" for N
            candidates per link), "dyglib" (DyGLib: a tenth of the nodes are hidden from training, and one run is tested
            on all last links and on those with a new node) or "paper" (the CAW-N paper's code).
        clock: Which earlier links a test link may use: "strict", "event" or "batch:N", see `cawn.learn.clocks`.
            Training is always strict.
        refit: After the evaluation, train once more on all links, for the number of epochs that was best. A predictor
            then uses these weights; the results remain those of the evaluated ones. A resumed run keeps its choice.
    """
    config = settings_for(config, system)
    check_training(events, config, task, seed, out, device, threads, split, callback)
    check_flags(resume=resume, quiet=quiet, tensorboard=tensorboard, baselines=baselines, refit=refit)
    ranks = join(device)
    if not ranks.first:
        quiet, callback, tensorboard = True, None, False
    place = out if ranks.first or resume else None  # rank 0 alone refuses what is in the folder
    check_options(seed=seed, out=place, device=device, resume=resume, tensorboard=tensorboard, kinds=kinds, clock=clock)
    if resume and out is not None:
        found = read_description(check_path(out, "out"))
        split, refit = split or recorded_cuts(found), refit or bool(found.get("refit"))
    refuse_kinds(check_protocol(protocol), kinds)
    parts = splits.split(events, task, seed=seed, by=split, protocol=protocol)
    training_links(events, parts, config, seed)  # raises DataError if there are none
    options: dict[str, Any] = {"task": task, "seed": seed, "device": device, "threads": threads, "split": split}
    options |= {"protocol": protocol, "clock": clock}
    more: dict[str, Any] = {"resume": resume, "quiet": quiet, "tensorboard": tensorboard, "callback": callback}
    more |= {"refit": refit}
    try:
        facts = None
        if not resume:
            listeners = Listeners(quiet, None, callback)
            facts = compare_alternatives(events[parts.train], events, config, listeners, **options)
        return Trainer(events, config, **options, out=out, facts=facts, **more).fit(kinds, baselines=baselines)
    except RankError:
        raise
    except CawnError as error:
        ranks.leave_reason(str(error))
        raise
    except Stopped:
        raise
    except KeyboardInterrupt:
        if not quiet:
            print(f"stopped{how_to_resume(out)}", file=sys.stderr, flush=True)
        raise


def settings_for(config: Settings | None, system: str | None) -> Settings:
    """The settings to use if either argument is None; raises QueryError if they do not match."""
    if config is None:
        return systems.settings_type(systems.DEFAULT if system is None else system)()
    if system is not None:
        systems.check_system(system)
        if not isinstance(config, Settings) or systems.name_of(config) != system:
            kind = systems.settings_type(system).__name__
            raise QueryError(f"config is {brief(config)}: system={system!r} has settings of type {kind}")
    return config


def check_options(
    *,
    seed: int,
    out: str | os.PathLike[str] | None,
    device: Device,
    resume: bool,
    tensorboard: bool,
    kinds: tuple[str, ...] | None = None,
    clock: str = "strict",
) -> None:
    """Check the options that can be checked before any link is read."""
    check_seed(seed)
    Clock(clock)
    check_kinds(kinds)
    check_device(device)
    if device != "auto":
        pick_device(device)
    if tensorboard:
        check_board(out)
    if resume and out is None:
        raise QueryError("resume=True needs out=, the folder of the run to resume")
    if out is not None and not resume:
        folder = check_path(out, "out")
        refuse_existing(folder)
        check_writable(folder)


def check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be created or written to."""
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise StorageError(f"{folder}: cannot be written; choose another folder")


def compare_alternatives(
    train: Events, events: Events, config: Settings, listeners: Listeners, **options: Any
) -> dict[str, Any] | None:
    """The facts of the alternative that does best on validation links after a short training.

    None if the system or its settings leave nothing to compare, or if the training is too short for a comparison.
    """
    kind = systems.system_type(systems.name_of(config))
    found = kind.alternatives(config, train) if isinstance(kind, HasAlternatives) else None
    if found is None:
        return None
    names, trials = list(found.facts), {}
    steps = found.steps or trial_steps(-(-len(train) // config.batch_size) * config.epochs, len(names))
    if steps == 0:
        listeners(Progress("message", text=f"{found.what}: {names[0]} (the training is too short for a comparison)"))
        return None
    line = f"comparing {found.what} ({', '.join(names)}): {len(names)} short training runs of {steps} steps ..."
    listeners(Progress("message", text=line))
    try:
        for number, name in enumerate(names):

            def steps_done(count: float, before: int = number * steps) -> None:
                listeners(Progress("comparing", before + count, len(names) * steps))

            trainer = Trainer(events, found.config, **options, quiet=True, facts=found.facts[name])
            whole = trainer.num_steps * config.epochs  # a trial is never longer than the training
            trials[name] = trainer.trial(min(steps, whole), steps_done)
    finally:
        listeners.close()
    chosen = choose_alternative(trials)
    aps = ", ".join(f"{name} {metrics.average_precision(*scores):.4f}" for name, scores in trials.items())
    why = "no clear difference, so " if chosen == names[0] else ""
    listeners(Progress("message", text=f"{found.what}: {why}{chosen} (AP after a short training: {aps})"))
    return found.facts[chosen]


def train_seeds(
    events: Events,
    config: Settings | None = None,
    *,
    seeds: Sequence[int],
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    **options: Any,
) -> tuple[list[Run], list[dict[str, Any]]]:
    """One run per seed (of split, negatives, weights and walks), and the mean and 95 % interval of their metrics.

    Each run has a folder of its own in `out`, named after its seed; `options` are those of `train`.
    """
    if not isinstance(seeds, Sequence) or isinstance(seeds, str | bytes) or not seeds:
        raise QueryError(f"seeds is {brief(seeds)}: give a list of at least one seed")
    for seed in seeds:
        check_seed(seed)
    check_flags(resume=resume)
    parent = None if out is None else check_path(out, "out")
    if parent is not None:
        refuse_foreign(parent)
    runs = []
    for seed in seeds:
        folder = None if parent is None else parent / f"seed-{seed}"
        begun = folder is not None and (folder / "run.json").exists()
        runs.append(train(events, config, seed=seed, out=folder, **options | {"resume": resume and begun}))
    summary = mean_rows([run.results for run in runs])
    if parent is not None and join().first:
        write_text(parent / "summary.json", json.dumps(summary, indent=1) + "\n")
    return runs, summary


def evaluate(
    folder: str | os.PathLike[str],
    kinds: tuple[str, ...] | None = None,
    *,
    device: Device = "auto",
    threads: int | None = None,
    quiet: bool = True,
    protocol: str | None = None,
    clock: str | None = None,
    baselines: bool = True,
) -> list[dict[str, Any]]:
    """Evaluate the model of a run folder again; returns the rows of its results.json, identical if software and device
    are the same. Weights that were trained on all links, if there are any, are not used.

    Args:
        kinds: The kinds of negatives; by default those of the protocol.
        protocol: See `train`; by default that of the run. Refused if it tests links that the run was trained on.
        clock: See `train`; by default that of the run.
        baselines: Whether to evaluate the baselines on the same links as well.
    """
    path = check_path(folder, "folder")
    check_kinds(kinds)
    check_device(device)
    check_threads(threads)
    check_flags(quiet=quiet, baselines=baselines)
    if clock is not None:
        Clock(clock)
    if protocol is not None:
        check_protocol(protocol)
    run = read_run(path, evaluated=True)
    found, events = run.description, run.events
    if not run.record.finished:
        warnings.warn(f"{path}: its training has not ended; these are its best weights so far", stacklevel=2)
    if len(events) != found["links"]:
        raise QueryError(f"{path}: links were added after its training; evaluate the run it was saved from")
    split = split_of_run(events, found) if protocol is None else split_under(protocol, events, found)
    refuse_kinds(split.protocol, kinds)
    place, seed = pick_device(device), found["seed"]
    followed = recorded_clock(found) if clock is None else Clock(clock)
    training = training_links(events, split, run.config, seed)
    context = Context(run.config, events[split.visible], seed, place, threads, training)
    listeners = Listeners(quiet)
    try:
        with memory_to("testing", run.config, scoring=True):
            system, calibration = load_system(run, place, threads), run.calibration
            scorer = system.scorer(events)
            options: dict[str, Any] = {"clock": followed, "compared": baselines}
            return evaluate_system(
                context, system, scorer, events, split, kinds, calibration, listeners.stage, **options
            ).rows
    finally:
        listeners.close()
