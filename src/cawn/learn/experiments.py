"""Whole runs: train once, train for several seeds, test again."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cawn.checks import check_flags, check_path, check_seed
from cawn.data.events import Events
from cawn.devices import Device, check_device, pick_device
from cawn.errors import QueryError, StorageError, brief, enough_memory
from cawn.files import write_text
from cawn.kernels.cuda.launch import memory_for
from cawn.kernels.jit import check_threads
from cawn.kernels.rng import seed_for
from cawn.learn import metrics, splits
from cawn.learn.board import check_board
from cawn.learn.checkpoints import stored_model
from cawn.learn.evaluation import evaluate, mean_rows
from cawn.learn.negatives import Kind, check_kinds
from cawn.learn.runs import read_description, read_run, refuse_existing, refuse_foreign
from cawn.learn.splits import Task, TimeSplit, recorded_cuts, split_of_run
from cawn.learn.trainer import TRIAL_STEPS, Run, Stopped, Trainer, check_training, how_to_resume
from cawn.progress import progress
from cawn.systems.cawn.config import Config
from cawn.systems.cawn.decays import LADDERS, better, decays
from cawn.systems.cawn.device_batches import on_device
from cawn.systems.cawn.steps import TrainingLinks
from cawn.systems.rates_only import train_rates_only

TRIAL_DIM = 32  # of the short comparison behind alpha="auto"


def train(
    events: Events,
    config: Config | None = None,
    *,
    task: Task = "transductive",
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    device: Device = "auto",
    threads: int | None = None,
    resume: bool = False,
    quiet: bool = False,
    tensorboard: bool = False,
    kinds: tuple[Kind, ...] = ("random", "historical", "inductive"),
    split: TimeSplit | None = None,
) -> Run:
    """Train CAW-N on a network and evaluate it on its last links.

    Args:
        events: The network. Where links have own negatives (`events.negative`), these are used in place of drawn ones;
            where they have weights (`events.weight`), the loss of each is multiplied by its weight, and links of
            weight 0 are only part of the past.
        config: Settings; the preset "default" if not given.
        task: "transductive", or "inductive": a tenth of the nodes are hidden, and the test is links that touch them.
        seed: Of the split, the negatives, the weights and the walks.
        out: A folder for the run: config.toml, run.json, metrics.jsonl, weights, checkpoint, results.json.
        device: "auto" is the GPU where there is one.
        resume: Continue the run in `out` where it stopped.
        tensorboard: Also write the curves to `out`/tensorboard.
        kinds: The negatives to evaluate against. Own negatives of test links are always evaluated, too.
        split: Where training ends and the test begins; by default after 70 % and 85 % of the links. A resumed run
            keeps its own.
    """
    config = Config() if config is None else config
    check_training(events, config, task, seed, out, device, threads, split)
    check_flags(resume=resume, quiet=quiet, tensorboard=tensorboard)
    check_options(seed=seed, out=out, device=device, resume=resume, tensorboard=tensorboard, kinds=kinds)
    alpha = None
    if resume and out is not None:
        found = read_description(check_path(out, "out"))
        alpha, split = tuple(found["alpha"]), split or recorded_cuts(found)
    parts = splits.split(events, task, seed=seed, by=split)
    TrainingLinks(events, parts, config, seed).negatives(0)  # refused where there are none
    options: dict[str, Any] = {"task": task, "seed": seed, "device": device, "threads": threads, "split": split}
    more: dict[str, Any] = {"resume": resume, "quiet": quiet, "tensorboard": tensorboard}
    try:
        if config.alpha == "auto" and not resume:
            alpha = compare_ladders(events, config, quiet=quiet, **options)
        return Trainer(events, config, **options, out=out, alpha=alpha, **more).fit(kinds)
    except Stopped:
        raise
    except KeyboardInterrupt:
        if not quiet:
            print(f"stopped{how_to_resume(out)}", file=sys.stderr, flush=True)
        raise


def check_options(
    *,
    seed: int,
    out: str | os.PathLike[str] | None,
    device: Device,
    resume: bool,
    tensorboard: bool,
    kinds: tuple[Kind, ...] = (),
) -> None:
    """Refuse what can be refused before any link is read."""
    check_seed(seed)
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
        _check_writable(folder)


def _check_writable(folder: Path) -> None:
    """Refuse a folder that could not be made or written to."""
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise StorageError(f"{folder}: cannot be written; choose another folder")


def compare_ladders(events: Events, config: Config, *, quiet: bool, **options: Any) -> tuple[float, ...]:
    """The decays of the ladder that does best on validation links after a short training; see `decays`."""
    small = config.with_(dim=min(config.dim, TRIAL_DIM), epochs=1, schedule="constant", alpha="ladder")
    parts = splits.split(events, options["task"], seed=options["seed"], by=options.get("split"))
    tau = events[parts.train].intensity
    steps = min(TRIAL_STEPS, -(-len(parts.train) // config.batch_size))
    if not quiet:
        line = f"comparing slow and fast decays: {len(LADDERS)} short trainings of {steps} steps ..."
        print(line, file=sys.stderr, flush=True)
    trials = {}
    with progress("comparing decays", len(LADDERS) * steps, quiet=quiet) as report:
        for number, name in enumerate(LADDERS):

            def steps_done(count: float, before: int = number * steps) -> None:
                report(before + count)

            trainer = Trainer(events, small, **options, quiet=True, alpha=decays(config, tau, name))
            trials[name] = trainer.trial(steps_done)
    chosen = better(trials)
    if not quiet:
        found = ", ".join(f"{name} {metrics.average_precision(*scores):.4f}" for name, scores in trials.items())
        why = "no clear difference, so " if chosen == "wide" else ""
        print(f"decays: {why}{chosen} (AP after a short training: {found})", file=sys.stderr, flush=True)
    return decays(config, tau, chosen)


def train_seeds(
    events: Events,
    config: Config | None = None,
    *,
    seeds: Sequence[int],
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    **options: Any,
) -> tuple[list[Run], list[dict[str, Any]]]:
    """A run for each seed (of split, negatives, weights and walks), and their figures as mean and 95 % interval.

    Each run has a folder of its own in `out`, called after its seed; `options` are those of `train`.
    """
    if not isinstance(seeds, Sequence) or isinstance(seeds, str | bytes) or not seeds:
        raise QueryError(f"seeds is {brief(seeds)}: give a list of at least one seed")
    for seed in seeds:
        check_seed(seed)
    check_flags(resume=resume)
    folder_of_all = None if out is None else check_path(out, "out")
    if folder_of_all is not None:
        refuse_foreign(folder_of_all)
    runs = []
    for seed in seeds:
        folder = None if folder_of_all is None else folder_of_all / f"seed-{seed}"
        begun = folder is not None and (folder / "run.json").exists()
        runs.append(train(events, config, seed=seed, out=folder, **options | {"resume": resume and begun}))
    summary = mean_rows([run.results for run in runs])
    if folder_of_all is not None:
        write_text(folder_of_all / "summary.json", json.dumps(summary, indent=1) + "\n")
    return runs, summary


@enough_memory("testing", "train with a lower num_walks or dim")
def evaluate_run(
    folder: str | os.PathLike[str],
    kinds: tuple[Kind, ...] = ("random", "historical", "inductive"),
    *,
    device: Device = "auto",
    threads: int | None = None,
    quiet: bool = True,
) -> list[dict[str, Any]]:
    """Test the model of a run folder again: the rows of its results.json, to the last digit if software and device are
    the same.
    """
    path = check_path(folder, "folder")
    check_kinds(kinds)
    check_device(device)
    check_threads(threads)
    check_flags(quiet=quiet)
    run = read_run(path, threads=threads)
    found, events = run.description, run.events
    if not run.record.finished:
        warnings.warn(f"{path}: its training has not ended; these are its best weights so far", stacklevel=2)
    if len(events) != found["links"]:
        raise QueryError(f"{path}: has learned of new links since its training; evaluate the run it was saved from")
    place, model = pick_device(device), stored_model(run)
    with memory_for("the model"):
        model.to(place)
    placed, parts = on_device(run.batcher, place), split_of_run(events, found)
    links = TrainingLinks(events, parts, run.batcher.config, found["seed"])
    with progress("training the baseline on rates", 1.0, quiet=quiet) as report:
        rates_only = train_rates_only(links, run.batcher, report)
    return evaluate(
        model,
        placed,
        events,
        parts,
        kinds,
        run.calibration,
        seed=seed_for(found["seed"], "test"),
        baselines={"rates only": rates_only},
        quiet=quiet,
    )
