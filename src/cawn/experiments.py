"""Whole runs: train once, train for several seeds, test again."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from cawn import metrics
from cawn.checkpoints import stored_model
from cawn.checks import check_flag, check_path
from cawn.config import Config
from cawn.decays import LADDERS, better, decays
from cawn.devices import Device, check_device, pick_device
from cawn.errors import QueryError, brief
from cawn.evaluation import evaluate, mean_rows
from cawn.events import Events
from cawn.files import write_text
from cawn.gpu.batches import on_device
from cawn.gpu.launch import memory_for
from cawn.kernels.jit import check_threads
from cawn.negatives import Kind, check_kinds
from cawn.runs import read_description, read_run, refuse_existing, refuse_foreign
from cawn.seeds import seed_for
from cawn.splits import Task, split
from cawn.training import Run, Trainer, check_training
from cawn.walks import check_seed

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
) -> Run:
    """Train CAW-N on a network and evaluate it on its last links.

    Args:
        events: The network.
        config: Settings; the preset "default" if not given.
        task: "transductive", or "inductive": a tenth of the nodes are hidden, and the test is links that touch them.
        seed: Of the split, the negatives, the weights and the walks.
        out: A folder for the run: config.toml, run.json, metrics.jsonl, weights, checkpoint, results.json.
        device: "auto" is the GPU where there is one.
        resume: Continue the run in `out` where it stopped.
        tensorboard: Also write the curves to `out`/tensorboard.
        kinds: The negatives to evaluate against.
    """
    config = Config() if config is None else config
    check_training(events, config, task, seed, out, device, threads)
    for flag, name in ((resume, "resume"), (quiet, "quiet"), (tensorboard, "tensorboard")):
        check_flag(flag, name)
    check_kinds(kinds)
    options: dict[str, Any] = {"task": task, "seed": seed, "device": device, "threads": threads}
    alpha = None
    if resume and out is not None:
        alpha = tuple(read_description(check_path(out, "out"))["alpha"])
    elif out is not None:
        refuse_existing(check_path(out, "out"))
    if config.alpha == "auto" and not resume:
        try:
            alpha = compare_ladders(events, config, quiet=quiet, **options)
        except KeyboardInterrupt:
            if not quiet:
                print("stopped before the training began; nothing was written", file=sys.stderr, flush=True)
            raise
    more: dict[str, Any] = {"resume": resume, "quiet": quiet, "tensorboard": tensorboard}
    return Trainer(events, config, **options, out=out, alpha=alpha, **more).fit(kinds)


def compare_ladders(events: Events, config: Config, *, quiet: bool, **options: Any) -> tuple[float, ...]:
    """The decays of the ladder that does best on validation links after a short training; see `decays`."""
    if not quiet:
        print("comparing slow and fast decays ...", file=sys.stderr, flush=True)
    small = config.with_(dim=min(config.dim, TRIAL_DIM), epochs=1, schedule="constant", alpha="ladder")
    tau = events[split(events, options["task"], seed=options["seed"]).train].intensity
    trials = {
        name: Trainer(events, small, **options, quiet=True, alpha=decays(config, tau, name)).trial() for name in LADDERS
    }
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


def evaluate_run(
    folder: str | os.PathLike[str],
    kinds: tuple[Kind, ...] = ("random", "historical", "inductive"),
    *,
    device: Device = "auto",
    threads: int | None = None,
) -> list[dict[str, Any]]:
    """Test the model of a run folder again: the rows of its results.json, to the last digit if software and device are
    the same.
    """
    path = check_path(folder, "folder")
    check_kinds(kinds)
    check_device(device)
    check_threads(threads)
    run = read_run(path, threads=threads)
    found, events = run.description, run.events
    if not run.record.finished:
        warnings.warn(f"{path}: its training has not ended; these are its best weights so far", stacklevel=2)
    if len(events) != found["links"]:
        raise QueryError(f"{path}: has learned of new links since its training; evaluate the run it was saved from")
    place, model = pick_device(device), stored_model(run)
    with memory_for("the model"):
        model.to(place)
    placed = on_device(run.batcher, place)
    parts = split(events, found["task"], seed=found["seed"])
    return evaluate(model, placed, events, parts, kinds, run.calibration, seed=seed_for(found["seed"], "test"))
