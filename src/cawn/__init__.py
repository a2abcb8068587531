"""cawn: learn the law by which a temporal network evolves, and apply it to nodes never seen."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors; at run time `__getattr__` loads what `_HOME` lists
    from cawn import datasets as datasets
    from cawn import laws as laws
    from cawn.config import Config as Config
    from cawn.errors import CawnError as CawnError
    from cawn.errors import DataError as DataError
    from cawn.errors import DeviceError as DeviceError
    from cawn.errors import LateEventError as LateEventError
    from cawn.errors import QueryError as QueryError
    from cawn.errors import StorageError as StorageError
    from cawn.events import Events as Events
    from cawn.experiments import evaluate_run as evaluate_run
    from cawn.experiments import train as train
    from cawn.experiments import train_seeds as train_seeds
    from cawn.history import History as History
    from cawn.identities import anonymize as anonymize
    from cawn.identities import anonymize_each as anonymize_each
    from cawn.identities import walk_shapes as walk_shapes
    from cawn.predictor import LinkPredictor as LinkPredictor
    from cawn.readers import read as read
    from cawn.splits import TimeSplit as TimeSplit
    from cawn.stream import Stream as Stream
    from cawn.training import Run as Run
    from cawn.training import Trainer as Trainer
    from cawn.walks import Walks as Walks

__version__ = "0.1.0"

# PyTorch's threads wait for each other by spinning. Where another program wants the cores too, that made a training
# step fifty times slower; giving up after some 10 microseconds costs nothing where it does not. Read when torch loads.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

# The public names, and the module of each; None for a name that is itself a module.
_HOME = {
    "CawnError": "errors",
    "Config": "config",
    "DataError": "errors",
    "DeviceError": "errors",
    "Events": "events",
    "History": "history",
    "LateEventError": "errors",
    "LinkPredictor": "predictor",
    "QueryError": "errors",
    "Run": "training",
    "StorageError": "errors",
    "Stream": "stream",
    "TimeSplit": "splits",
    "Trainer": "training",
    "Walks": "walks",
    "anonymize": "identities",
    "anonymize_each": "identities",
    "datasets": None,
    "evaluate_run": "experiments",
    "laws": None,
    "read": "readers",
    "train": "experiments",
    "train_seeds": "experiments",
    "walk_shapes": "identities",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `cawn --help` must not wait for a compiler."""
    if name not in _HOME:
        raise AttributeError(f"module 'cawn' has no attribute {name!r}")
    home = _HOME[name]
    value = import_module(f"cawn.{name}") if home is None else getattr(import_module(f"cawn.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not, so that editors and shells can complete them."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
