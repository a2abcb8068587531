"""Measurements: the units of work of all experiments, each identified by everything that its result depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from cawn import __version__
from cawn.data.events import Events
from cawn.learn.shared_links import read_links
from cawn.studies.jobs import Send

# The function that makes each kind of measurement, called with a `Task` and a `Send`; returns JSON-compatible values.
KINDS = {
    "complexity": "cawn.paper.complexity:measure",
    "shapes": "cawn.paper.shapes:measure",
    "statistics": "cawn.paper.networks:measure",
    "training": "cawn.paper.training:measure",
    "trial": "cawn.paper.grid:measure",
    "ties": "cawn.paper.clocks:measure_ties",
    "transfer": "cawn.paper.transfer:measure",
}


@dataclass(frozen=True)
class Measurement:
    """What to measure on a network. A measurement that several experiments need is made once."""

    network: str
    kind: str  # a key of `KINDS`
    settings: Mapping[str, Any]  # JSON-compatible
    label: str  # its role in tables and plots, unique in its network

    def __str__(self) -> str:
        return f"{self.network}, {self.label}"

    @property
    def networks(self) -> tuple[str, ...]:
        """The networks that it needs: its own, and those named in the setting "others"."""
        return self.network, *self.settings.get("others", ())

    def key(self, digests: Mapping[str, str]) -> str:
        """A hash of everything the result depends on, given the digests of the networks."""
        depends = {
            "cawn": __version__,
            "kind": self.kind,
            "links": [digests[name] for name in self.networks],
            "settings": dict(self.settings),
        }
        return hashlib.blake2b(json.dumps(depends, sort_keys=True).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class Task:
    """A measurement, as passed to the process that makes it."""

    network: str
    settings: dict[str, Any]
    links: dict[str, str]  # files of links by network, see `read_links`
    device: str
    threads: int | None
    folder: Path  # of this measurement alone; kept if it is interrupted, otherwise removed at its end

    def events(self, network: str | None = None) -> Events:
        """The links of its network, or of another that it needs."""
        return read_links(self.links[network or self.network])


def measure(kind: str, task: Task, send: Send) -> Any:
    """Make a measurement; every job of a sweep calls this function."""
    module, _, name = KINDS[kind].partition(":")
    return getattr(import_module(module), name)(task, send)
