"""Settings of the memory models: TGN, and JODIE and DyRep in their TGN form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from cawn.systems.settings import PublishedSettings


@dataclass(frozen=True)
class TgnSettings(PublishedSettings):
    """Settings of TGN."""

    batch_size: int = 200  # links per batch and per training step; more where a tie would be split
    dim: int = 172  # width of the memory and of the embedding
    time_dim: int = 100  # width of the time encoding
    neighbours: int = 10  # most recent links, the input of the attention
    heads: int = 2  # attention heads
    dropout: float = 0.1
    aggregation: Literal["last", "mean"] = "last"  # how a node's messages in a batch are aggregated
    updater: Literal["gru", "rnn"] = "gru"  # the cell that updates memories
    embedding: Literal["attention", "projection", "memory"] = "attention"  # how a node is embedded from its memory
    message: Literal["memory", "attention"] = "memory"  # what a message contains of the other node

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "default": {},
        "fast": {"lr": 3e-4, "schedule": "one-cycle", "epochs": 25},  # a memory needs more steps than other systems
    }
    RANGES: ClassVar[dict[str, tuple[float, float]]] = PublishedSettings.RANGES | {
        "dim": (1, 4096),
        "time_dim": (1, 4096),
        "neighbours": (1, 4096),
        "heads": (1, 64),
        "dropout": (0.0, 0.99),
    }
    MEMORY: ClassVar[tuple[str, ...]] = ("batch_size", "neighbours", "dim")
    SEARCHED: ClassVar[dict[str, Any]] = PublishedSettings.SEARCHED | {
        "dim": [64, 100, 172],
        "neighbours": [5, 10, 20],
        "dropout": {"low": 0.0, "high": 0.5, "step": 0.1},
    }


@dataclass(frozen=True)
class JodieSettings(TgnSettings):
    """Settings of JODIE in its TGN form."""

    updater: Literal["gru", "rnn"] = "rnn"
    embedding: Literal["attention", "projection", "memory"] = "projection"

    MEMORY: ClassVar[tuple[str, ...]] = ("batch_size", "dim")


@dataclass(frozen=True)
class DyrepSettings(TgnSettings):
    """Settings of DyRep in its TGN form."""

    updater: Literal["gru", "rnn"] = "rnn"
    embedding: Literal["attention", "projection", "memory"] = "memory"
    message: Literal["memory", "attention"] = "attention"
