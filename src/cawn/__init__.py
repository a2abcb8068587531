"""cawn: learn the law by which a temporal network evolves, and apply it to nodes never seen."""

from __future__ import annotations

import ast
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # The one list of public names: type checkers and editors see imports, `_public_names` parses them.
    from cawn import scale as scale
    from cawn.caw.config import Config as Config
    from cawn.data import datasets as datasets
    from cawn.data import laws as laws
    from cawn.data.events import Events as Events
    from cawn.data.readers import read as read
    from cawn.errors import CawnError as CawnError
    from cawn.errors import DataError as DataError
    from cawn.errors import DeviceError as DeviceError
    from cawn.errors import LateEventError as LateEventError
    from cawn.errors import QueryError as QueryError
    from cawn.errors import StorageError as StorageError
    from cawn.learn.experiments import evaluate as evaluate
    from cawn.learn.experiments import train as train
    from cawn.learn.reporting import TensorBoard as TensorBoard
    from cawn.learn.results import Results as Results
    from cawn.learn.task import Task as Task
    from cawn.learn.task import TimeSplit as TimeSplit
    from cawn.learn.testing import Run as Run
    from cawn.learn.trainer import Trainer as Trainer
    from cawn.predictor import LinkPredictor as LinkPredictor
    from cawn.studies.compare import compare as compare
    from cawn.studies.seeds import train_seeds as train_seeds
    from cawn.studies.tables import Comparison as Comparison
    from cawn.studies.tuning import Search as Search
    from cawn.studies.tuning import tune as tune
    from cawn.walks.history import History as History
    from cawn.walks.identities import anonymize as anonymize
    from cawn.walks.identities import anonymize_each as anonymize_each
    from cawn.walks.identities import walk_shapes as walk_shapes
    from cawn.walks.sampling import Walks as Walks
    from cawn.walks.stream import Stream as Stream

__version__ = "0.1.0"

# PyTorch's threads wait for each other by spinning. Where another program wants the cores too, that made a training
# step fifty times slower; giving up after some 10 microseconds costs nothing where it does not. Read when torch loads.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")


def _public_names() -> dict[str, str]:
    """The names imported above, each with the module it comes from."""
    with open(__file__, encoding="utf-8") as file:
        source = ast.parse(file.read())
    block = next(node for node in source.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


_HOME = _public_names()
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that `cawn --help` does not wait for numba and PyTorch."""
    if name not in _HOME:
        raise AttributeError(f"module 'cawn' has no attribute {name!r}")
    home = import_module(_HOME[name])
    value = vars(home)[name] if name in vars(home) else import_module(f"{_HOME[name]}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not, for tab completion."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
