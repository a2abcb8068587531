"""Checks of the arguments of `train`, made before any work starts."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any, get_args

from cawn.checks import check_choice, check_path, check_seed, check_threads, check_type
from cawn.data.events import Events
from cawn.devices import check_device
from cawn.errors import QueryError, brief
from cawn.learn.splits import Task, TimeSplit
from cawn.systems.settings import Settings


def check_training(
    events: Any, config: Any, task: Any, seed: Any, out: Any, device: Any, threads: Any, split: Any, callback: Any
) -> None:
    """Refuse invalid arguments of `train`."""
    check_type(events, "events", Events, "give cawn.Events, or read them with cawn.read")
    check_type(config, "config", Settings, "give a cawn.Config")
    check_choice(task, "task", get_args(Task))
    check_seed(seed)
    check_device(device)
    check_threads(threads)
    if out is not None:
        check_path(out, "out")
    if split is not None:
        check_type(split, "split", TimeSplit, "give a cawn.TimeSplit")
    if callback is not None and not callable(callback):
        raise QueryError(f"callback is {brief(callback)}: give a function of one argument")


def with_global_batch(config: Settings, size: int, *, scaled: bool) -> tuple[Settings, str]:
    """The settings with another batch size, and what was changed, in a line of text.

    If `scaled`, the learning rate grows in proportion to the batch size: on validation links of three networks that
    was better than its square root, which is usual for Adam, and than no change (see docs/scale.md).
    """
    if not scaled:
        return config.with_(batch_size=size), f"global batch of {size:,} links; lr {config.lr:g} as given"
    rate = config.lr * size / config.batch_size
    rule = f"lr {config.lr:g} x {size:,} / {config.batch_size:,} = {rate:g}"
    return config.with_(batch_size=size, lr=rate), f"global batch of {size:,} links: {rule}"


def how_to_resume(folder: str | os.PathLike[str] | None) -> str:
    """How to resume a stopped run, as the end of a message."""
    if folder is None or not (Path(folder) / "run.json").exists():
        return "; nothing was written"
    return f"; to resume: cawn train --resume -o {shlex.quote(str(folder))}, or resume=True"
