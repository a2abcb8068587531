"""Settings of the memory models: TGN, and JODIE and DyRep in their TGN form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from cawn.systems.settings import PublishedSettings, setting


@dataclass(frozen=True)
class TgnSettings(PublishedSettings):
    """Settings of TGN."""

    batch_size: int = setting(200, "links per batch and per training step; more where a tie would be split")
    dim: int = setting(172, "width of the memory and of the embedding", 1, 4096)
    time_dim: int = setting(100, "width of the time encoding", 1, 4096)
    neighbours: int = setting(10, "most recent links, the input of the attention", 1, 4096)
    heads: int = setting(2, "attention heads", 1, 64)
    dropout: float = setting(0.1, "dropout", 0.0, 0.99)
    aggregation: Literal["last", "mean"] = setting("last", "how a node's messages in a batch are aggregated")
    updater: Literal["gru", "rnn"] = setting("gru", "the cell that updates memories")
    embedding: Literal["attention", "projection", "memory"] = setting(
        "attention", "how a node is embedded from its memory"
    )
    message: Literal["memory", "attention"] = setting("memory", "what a message contains of the other node")

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "default": {},
        "fast": {"lr": 3e-4, "schedule": "one-cycle", "epochs": 25},  # a memory needs more steps than other systems
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
