"""Config: everything that makes a model and its training what they are; a frozen value that is also a TOML file."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args, get_type_hints

from cawn.errors import QueryError, brief

Alpha = Literal["auto", "ladder", "paper"] | float | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of CAW-N. The values here are the preset "default"; `Config.preset` knows the others."""

    # Walks
    num_walks: int = 64  # M
    length: int = 2  # m
    alpha: Alpha = "auto"  # decays, per unit of time; or how to choose them: "auto", "ladder", "paper", see `decays`

    # Network
    dim: int = 64  # d
    frequencies: int = 16  # of f2
    rnn: Literal["lstm", "gru", "transformer"] = "lstm"
    pooling: Literal["mean", "attention"] = "mean"
    sides: Literal["auto", "together", "apart", "symmetric"] = "auto"  # S_u and S_v pooled as one set, as in the paper,
    # or each by itself, their order kept ("apart") or ignored ("symmetric"); "auto" is apart where links are directed
    identity: Literal["caw", "aw", "none"] = "caw"  # relative identities: I_CAW, one-hot I_AW, or none
    time: bool = True  # f2
    logarithms: bool = True  # log(1 + g), log(1 + elapsed), log(1 + age) beside the paper's features
    degree: bool = True  # log(1 + number of earlier links) of the node at each position
    rates: bool = True  # how much the ends and the pair have linked, exactly, beside the pooled walks
    directed: bool = True  # which way each link points
    attributes: bool = True  # link and node attributes, where there are any
    standardise: bool = True  # attributes that are numbers, by their mean and deviation in training
    head: Literal["mlp", "linear"] = "mlp"  # from what is pooled to the logit; linear makes walks' shares of it add up
    dropout: float = 0.1
    dropout_at: Literal["walks", "pairs"] = "pairs"  # on each encoded walk, or on what the pair's walks pool to

    # Training
    batch_size: int = 128
    lr: float = 1e-3
    epochs: int = 10
    patience: int = 3
    schedule: Literal["constant", "one-cycle"] = "one-cycle"  # of the learning rate, over the epochs
    weight_decay: float = 0.1  # decoupled, times the learning rate
    negatives: Literal["random", "mixed"] = "mixed"  # "mixed": a quarter are destinations the source had before

    def __post_init__(self) -> None:
        hints = get_type_hints(Config)
        for field in fields(self):
            _check(field.name, getattr(self, field.name), hints[field.name])
        if self.sides == "auto":
            object.__setattr__(self, "sides", "apart" if self.directed else "symmetric")
        if self.sides == "symmetric" and self.directed:
            raise QueryError("sides='symmetric' ignores which end is the source: give directed=false as well")
        if isinstance(self.alpha, tuple) and self.num_walks % len(self.alpha):
            raise QueryError(f"num_walks={self.num_walks} cannot be shared evenly by {len(self.alpha)} decays")

    @classmethod
    def preset(cls, name: str) -> Config:
        """ "default", or the paper's equations and settings: "paper-mean", "paper-attn"."""
        if not isinstance(name, str) or name not in _PRESETS:
            raise QueryError(f"preset {brief(name)}: there are {', '.join(_PRESETS)}")
        return replace(cls(), **_PRESETS[name])

    def with_(self, /, **changes: Any) -> Config:
        """Returns a copy with these settings changed."""
        known = {field.name for field in fields(self)}
        if unknown := sorted(set(changes) - known):
            raise QueryError(f"setting {brief(unknown[0])} does not exist; there are {', '.join(sorted(known))}")
        if "directed" in changes and self.sides != "together":
            changes = {"sides": "auto"} | changes
        return replace(self, **changes)

    @property
    def symmetric(self) -> bool:
        """Whether the logit of (u, v) is that of (v, u), up to rounding."""
        return self.sides == "symmetric" or (self.sides == "together" and not self.directed and not self.rates)

    def to_toml(self) -> str:
        """One line for each setting."""
        return "".join(f"{field.name} = {_toml(getattr(self, field.name))}\n" for field in fields(self))

    @classmethod
    def from_toml(cls, text: str) -> Config:
        """The inverse of `to_toml`; settings left out have their defaults."""
        if not isinstance(text, str):
            raise QueryError(f"settings are {brief(text)}: give the text of a TOML file")
        try:
            values = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # also of integers too long, and of nesting too deep
            raise QueryError(f"not TOML: {error}") from error
        return cls.from_dict(values)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Config:
        """From settings by name, lists for tuples; settings left out have their defaults."""
        if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
            raise QueryError(f"settings are {brief(values)}: give a dictionary of settings by name")
        return cls().with_(**{key: tuple(v) if isinstance(v, list) else v for key, v in values.items()})


_PAPER = {
    "alpha": "paper",
    "dim": 64,
    "sides": "together",
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
_PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper-mean": _PAPER,
    "paper-attn": _PAPER | {"pooling": "attention"},
}
_RANGES = {
    "num_walks": (1, 100_000),
    "length": (1, 255),
    "dim": (1, 4096),
    "frequencies": (1, 1024),
    "dropout": (0, 0.95),
    "batch_size": (1, 1 << 20),
    "lr": (1e-12, 10),
    "weight_decay": (0, 100),
    "epochs": (1, 100_000),
    "patience": (1, 100_000),
}


def _check(name: str, value: Any, hint: Any) -> None:
    if name == "alpha":
        decays = value if isinstance(value, tuple) and value else (value,)
        named = isinstance(value, str) and value in ("auto", "ladder", "paper")
        if not named and not all(_is_number(a) and 0 <= a < math.inf for a in decays):
            raise QueryError(
                f"alpha is {brief(value)}: give 'auto', 'ladder', 'paper', a number >= 0, or a tuple of such numbers"
            )
    elif hint is bool:
        if not isinstance(value, bool):
            raise QueryError(f"{name} is {brief(value)}: give true or false")
    elif choices := get_args(hint):
        if not isinstance(value, str) or value not in choices:
            raise QueryError(f"{name} is {brief(value)}: give one of {', '.join(choices)}")
    else:
        low, high = _RANGES[name]
        if not _is_number(value) or (hint is int and not isinstance(value, int)) or not low <= value <= high:
            kind = "an integer" if hint is int else "a number"
            raise QueryError(f"{name} is {brief(value)}: give {kind} from {low} to {high}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(repr, value))}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)
