"""cawn: learn the law by which a temporal network evolves, and apply it to nodes never seen."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cawn.datasets as datasets
    import cawn.laws as laws
    from cawn.config import Config
    from cawn.errors import CawnError, DataError, LateEventError, QueryError, StorageError
    from cawn.events import Events
    from cawn.experiments import evaluate_run, train, train_seeds
    from cawn.history import History
    from cawn.identities import anonymize, anonymize_each, walk_shapes
    from cawn.predictor import LinkPredictor
    from cawn.readers import read
    from cawn.stream import Stream
    from cawn.training import Run, Trainer
    from cawn.walks import Walks

__version__ = "0.1.0"

# PyTorch's threads wait for each other by spinning. Where another program wants the cores too, that made a training
# step fifty times slower; giving up after some 10 microseconds costs nothing where it does not. Read when torch loads.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

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
    "Trainer": "training",
    "Walks": "walks",
    "anonymize": "identities",
    "anonymize_each": "identities",
    "read": "readers",
    "evaluate_run": "experiments",
    "train": "experiments",
    "train_seeds": "experiments",
    "walk_shapes": "identities",
}

__all__ = [
    "CawnError",
    "Config",
    "DataError",
    "DeviceError",
    "Events",
    "History",
    "LateEventError",
    "LinkPredictor",
    "QueryError",
    "Run",
    "StorageError",
    "Stream",
    "Trainer",
    "Walks",
    "anonymize",
    "anonymize_each",
    "datasets",
    "evaluate_run",
    "laws",
    "read",
    "train",
    "train_seeds",
    "walk_shapes",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `cawn --help` must not wait for a compiler."""
    if name in ("datasets", "laws"):
        return import_module(f"cawn.{name}")
    if name in _HOME:
        value = getattr(import_module(f"cawn.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'cawn' has no attribute {name!r}")
