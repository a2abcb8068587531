"""cawn: learn the law by which a temporal network evolves, and apply it to nodes never seen."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cawn.laws as laws
    from cawn.anonymize import anonymize, anonymize_each, walk_shapes
    from cawn.errors import CawnError, DataError, LateEventError, QueryError
    from cawn.events import Events
    from cawn.history import History
    from cawn.readers import read
    from cawn.stream import Stream
    from cawn.walks import Walks

__version__ = "0.1.0"

_HOME = {
    "CawnError": "errors",
    "DataError": "errors",
    "Events": "events",
    "History": "history",
    "LateEventError": "errors",
    "QueryError": "errors",
    "Stream": "stream",
    "Walks": "walks",
    "anonymize": "anonymize",
    "anonymize_each": "anonymize",
    "read": "readers",
    "walk_shapes": "anonymize",
}

__all__ = [
    "CawnError",
    "DataError",
    "Events",
    "History",
    "LateEventError",
    "QueryError",
    "Stream",
    "Walks",
    "anonymize",
    "anonymize_each",
    "laws",
    "read",
    "walk_shapes",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `cawn --help` must not wait for a compiler."""
    if name == "laws":
        return import_module("cawn.laws")
    if name in _HOME:
        value = getattr(import_module(f"cawn.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'cawn' has no attribute {name!r}")
