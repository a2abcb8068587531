"""Config: the settings of CAW-N."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from cawn.errors import QueryError, brief
from cawn.systems.settings import Settings, is_number

Alpha = Literal["auto", "ladder", "paper"] | float | tuple[float, ...]

_FORMER_SIDES = {"together": "joint", "apart": "separate"}  # names in older run folders
_PAPER = {
    "alpha": "paper",
    "dim": 64,
    "sides": "joint",
    "logarithms": False,
    "degree": False,
    "rates": False,
    "directed": False,
    "standardise": False,
    "dropout_at": "walks",
    "weight_decay": 0.0,
    "negatives": "random",
    "batch_size": 32,
    "lr": 1e-4,
    "epochs": 50,
    "schedule": "constant",
}


@dataclass(frozen=True)
class Config(Settings):
    """Settings of CAW-N. The defaults are the preset "default"; "paper-mean" and "paper-attn" follow the paper."""

    # Walks
    num_walks: int = 64  # M
    length: int = 2  # m
    alpha: Alpha = "auto"  # decays, per unit of time; or how to choose them: "auto", "ladder", "paper", see `decays`

    # Network
    dim: int = 64  # d
    frequencies: int = 16  # of f2
    rnn: Literal["lstm", "gru", "transformer"] = "lstm"
    pooling: Literal["mean", "attention"] = "mean"
    sides: Literal["auto", "joint", "separate", "symmetric"] = "auto"  # pool S_u and S_v as one set, as in the paper,
    # or separately, with their order kept ("separate") or ignored ("symmetric"); "auto": by `directed`
    identity: Literal["caw", "aw", "none"] = "caw"  # relative identities: I_CAW, one-hot I_AW, or none
    time: bool = True  # f2
    logarithms: bool = True  # add log(1 + g), log(1 + elapsed) and log(1 + age) to the paper's features
    degree: bool = True  # log(1 + number of earlier links) of the node at each position
    rates: bool = True  # exact decayed counts of the links of both ends and of the pair, added to the pooled walks
    directed: bool = True  # the direction of each link
    head: Literal["mlp", "linear"] = "mlp"  # from the pair's embedding to the logit; "linear" makes walks additive
    dropout: float = 0.1
    dropout_at: Literal["walks", "pairs"] = "pairs"  # on each encoded walk, or on the pooled walks of a pair

    RANGES: ClassVar[dict[str, tuple[float, float]]] = Settings.RANGES | {
        "num_walks": (1, 100_000),
        "length": (1, 255),
        "dim": (1, 4096),
        "frequencies": (1, 1024),
        "dropout": (0, 0.95),
    }
    MEMORY: ClassVar[tuple[str, ...]] = ("num_walks", "batch_size", "dim")
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "default": {},
        "paper-mean": _PAPER,
        "paper-attn": _PAPER | {"pooling": "attention"},
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "sides", _FORMER_SIDES.get(str(self.sides), self.sides))
        super().__post_init__()
        if self.sides == "auto":
            object.__setattr__(self, "sides", "separate" if self.directed else "symmetric")
        if self.sides == "symmetric" and self.directed:
            raise QueryError("sides='symmetric' ignores which end is the source: give directed=false as well")
        if isinstance(self.alpha, tuple) and self.num_walks % len(self.alpha):
            raise QueryError(f"num_walks={self.num_walks} cannot be divided evenly among {len(self.alpha)} decays")

    def with_(self, /, **changes: Any) -> Self:
        """Returns a copy with these settings changed; `sides` follows `directed` unless it is given."""
        if "directed" in changes and self.sides != "joint":
            changes = {"sides": "auto"} | changes
        return super().with_(**changes)

    @property
    def symmetric(self) -> bool:
        """Whether the logits of (u, v) and (v, u) are equal, up to rounding."""
        return self.sides == "symmetric" or (self.sides == "joint" and not self.directed and not self.rates)

    @property
    def uses_direction(self) -> bool:
        """Whether it matters which end of a link is its source."""
        return self.directed

    def _check(self, name: str, value: Any, hint: Any) -> None:
        if name != "alpha":
            return super()._check(name, value, hint)
        decays = value if isinstance(value, tuple) and value else (value,)
        named = isinstance(value, str) and value in ("auto", "ladder", "paper")
        if not named and not all(is_number(a) and 0 <= a < math.inf for a in decays):
            raise QueryError(
                f"alpha is {brief(value)}: give 'auto', 'ladder', 'paper', a number >= 0, or a tuple of such numbers"
            )
        return None
