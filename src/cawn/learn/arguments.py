"""Checks of the arguments of `train`, made before any work starts."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from cawn import systems
from cawn.checks import check_flags, check_path, check_seed, check_threads, check_type
from cawn.data.events import Events
from cawn.devices import check_device, pick_device
from cawn.errors import QueryError, StorageError, brief
from cawn.learn.runs import refuse_existing
from cawn.systems.settings import Settings


def settings_for(config: Settings | str | None) -> Settings:
    """The settings to use: those that are given, or the default ones of the system with this name."""
    if config is None or isinstance(config, str):
        return systems.settings_type(config or systems.DEFAULT)()
    check_type(config, "config", Settings, "give settings such as cawn.Config(), or the name of a system")
    return config


def check_training(
    events: Any, seed: Any, out: Any, resume: Any, device: Any, threads: Any, quiet: Any, callback: Any
) -> None:
    """Refuse invalid arguments of `train`."""
    check_type(events, "events", Events, "give cawn.Events, or read them with cawn.read")
    check_flags(resume=resume, quiet=quiet)
    check_seed(seed)
    check_threads(threads)
    if callback is not None and not callable(callback):
        raise QueryError(f"callback is {brief(callback)}: give a function of one argument")
    if out is not None:
        check_path(out, "out")
    check_device(device)
    if device != "auto":
        pick_device(device)


def check_folder(out: str | os.PathLike[str] | None, *, resume: bool) -> None:
    """Refuse the folder of a run that cannot be begun or, with `resume`, one that is missing."""
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
