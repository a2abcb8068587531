"""Settings of training, immutable and stored as TOML. Each system adds its own fields."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from cawn.errors import QueryError, brief, enough_memory

if TYPE_CHECKING:
    from cawn.data.events import Events

_known_hints: dict[type, dict[str, Any]] = {}
Value = TypeVar("Value")


def setting(default: Value, meaning: str, low: float | None = None, high: float | None = None) -> Value:
    """A field of settings: its default, what it means and, if it is a number, the range of its values."""
    value: Value = field(default=default, metadata={"limits": None if low is None else (low, high), "meaning": meaning})
    return value


class Alternatives(NamedTuple):
    """Choices to compare by a short training each; the first is kept unless another is clearly better."""

    what: str  # what is compared, for messages: "decays"
    config: Any  # settings of the short training runs
    facts: dict[str, dict[str, Any]]  # the facts of each choice, by its name
    steps: int | None = None  # of each short training; by default all together take a tenth of the training


@dataclass(frozen=True)
class Settings:
    """The settings that all systems share."""

    batch_size: int = setting(128, "links per step", 1, 1 << 20)
    lr: float = setting(1e-3, "learning rate", 1e-12, 10)
    epochs: int = setting(10, "most epochs", 1, 100_000)
    patience: int = setting(3, "epochs without a better validation AP before training stops", 1, 100_000)
    schedule: Literal["constant", "one-cycle"] = setting("one-cycle", "of the learning rate, over all epochs")
    weight_decay: float = setting(0.1, "decoupled, times the learning rate", 0, 100)
    negatives: Literal["random", "mixed", "hard", "pairs"] = setting(
        "mixed",
        '"mixed": a quarter are other destinations of the source; "hard": also, a quarter are destinations of '
        'recent links; "pairs": also, a quarter are earlier links',
    )
    pool: Literal["period", "training"] = setting(
        "period",
        "of random negatives: destinations seen by the end of the link's period, a fifth of the training "
        "links, which is how test negatives are drawn; or of all training links",
    )
    attributes: bool = setting(True, "use link and node attributes, if there are any")
    standardise: bool = setting(True, "scale numeric attributes to mean 0 and deviation 1 over the training links")

    draws_negatives: ClassVar[bool] = True
    MEMORY: ClassVar[tuple[str, ...]] = ("batch_size",)  # settings to lower if memory runs out, most effective first
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {"default": {}}
    # What `cawn tune` searches by default, in the form of its TOML files. Not the training negatives: validation
    # negatives are random, so random ones would win, and cost accuracy against harder ones.
    SEARCHED: ClassVar[dict[str, Any]] = {
        "lr": {"low": 1e-4, "high": 1e-2, "log": True},
        "batch_size": [64, 128, 256],
        "weight_decay": [0.0, 0.01, 0.1],
    }

    def __post_init__(self) -> None:
        hints = _hints(type(self))
        for each in fields(self):
            self._check(each.name, getattr(self, each.name), hints[each.name])

    @property
    def symmetric(self) -> bool:
        """Whether the logits of (u, v) and (v, u) are equal, up to rounding."""
        return False

    @property
    def uses_direction(self) -> bool:
        """Whether it matters which end of a link is its source."""
        return True

    def alternatives(self, train: Events) -> Alternatives | None:
        """A fact that is chosen by a short comparison on validation links; None if these settings fix all of them."""
        return None

    @classmethod
    def to_lower(cls, *, scoring: bool = False) -> str:
        """The settings to lower if memory runs out, in words; in `scoring`, the batch size does not matter."""
        names = [name for name in cls.MEMORY if not scoring or name != "batch_size"] or list(cls.MEMORY)
        return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)

    @classmethod
    def preset(cls, name: str) -> Self:
        """The settings of a preset by its name; every system has "default"."""
        if not isinstance(name, str) or name not in cls.PRESETS:
            raise QueryError(f"preset {brief(name)}: there are {', '.join(cls.PRESETS)}")
        return replace(cls(), **cls.PRESETS[name])

    def with_(self, /, **changes: Any) -> Self:
        """Returns a copy with these settings changed."""
        known = {each.name for each in fields(self)}
        if unknown := sorted(set(changes) - known):
            raise QueryError(f"setting {brief(unknown[0])} does not exist; there are {', '.join(sorted(known))}")
        return replace(self, **changes)

    @classmethod
    def check_value(cls, name: str, value: Any) -> None:
        """Refuse an unknown setting, or a value that it cannot have, whatever the other settings are."""
        default = cls()
        default.with_(**{name: getattr(default, name, None)})
        default._check(name, value, _hints(cls)[name])

    def to_dict(self) -> dict[str, Any]:
        """The settings by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def describe(cls) -> list[dict[str, Any]]:
        """A row per setting, for help texts: its name, default, possible values and meaning.

        Its own settings come first, then those that all systems share.
        """
        hints, default = _hints(cls), cls().to_dict()
        names = sorted(default, key=lambda name: name in Settings.__dataclass_fields__)
        return [
            {
                "name": name,
                "default": default[name],
                "values": _values(hints[name], _fact(cls, name, "limits")),
                "meaning": _fact(cls, name, "meaning") or "",
            }
            for name in names
        ]

    def to_toml(self) -> str:
        """One line per setting."""
        return "".join(f"{name} = {toml_value(value)}\n" for name, value in self.to_dict().items())

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """The inverse of `to_toml`; missing settings get their defaults."""
        if not isinstance(text, str):
            raise QueryError(f"settings are {brief(text)}: give the text of a TOML file")
        try:
            values = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # also raised for oversized integers and deep nesting
            raise QueryError(f"not TOML: {error}") from error
        return cls.from_dict(values)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """From settings by name, lists for tuples; missing settings get their defaults."""
        if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
            raise QueryError(f"settings are {brief(values)}: give a dictionary of settings by name")
        return cls().with_(**{key: tuple(v) if isinstance(v, list) else v for key, v in values.items()})

    def _check(self, name: str, value: Any, hint: Any) -> None:
        """Refuse a value outside its type, choices or range."""
        if hint is bool:
            if not isinstance(value, bool):
                raise QueryError(f"{name} is {brief(value)}: give true or false")
        elif choices := get_args(hint):
            if not isinstance(value, str) or value not in choices:
                raise QueryError(f"{name} is {brief(value)}: give one of {', '.join(choices)}")
        else:
            low, high = _fact(type(self), name, "limits")
            if not is_number(value) or (hint is int and not isinstance(value, int)) or not low <= value <= high:
                kind = "an integer" if hint is int else "a number"
                raise QueryError(f"{name} is {brief(value)}: give {kind} from {low} to {high}")


class IgnoresDirection:
    """Mixin for the settings of a system whose scores do not depend on which end of a link is its source."""

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def uses_direction(self) -> bool:
        return False


@dataclass(frozen=True)
class DrawsNoNegatives:
    """Mixin for the settings of a system that draws no negatives in training. Baselines beside it use these."""

    negatives: ClassVar[str] = "random"
    pool: ClassVar[str] = "training"
    draws_negatives: ClassVar[bool] = False


@dataclass(frozen=True)
class PublishedSettings(Settings):
    """The training that most systems of the literature were published with: Adam at a constant rate, random negatives.

    The preset "fast" reaches about the same validation AP in ten epochs.
    """

    batch_size: int = 200
    lr: float = 1e-4
    epochs: int = 100
    patience: int = 20
    schedule: Literal["constant", "one-cycle"] = "constant"
    weight_decay: float = 0.0
    negatives: Literal["random", "mixed", "hard"] = "random"
    pool: Literal["period", "training"] = "training"

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "default": {},
        "fast": {"lr": 1e-3, "schedule": "one-cycle", "epochs": 10},
    }
    SEARCHED: ClassVar[dict[str, Any]] = {
        "lr": {"low": 3e-5, "high": 3e-3, "log": True},
        "batch_size": [100, 200, 400],
        "weight_decay": [0.0, 0.01, 0.1],
    }


@contextmanager
def memory_to(task: str, config: Settings, *, scoring: bool = False) -> Iterator[None]:
    """Turns running out of main or device memory into one line that names the settings to lower."""
    from cawn.kernels.cuda.launch import memory_for  # imports PyTorch

    names = config.to_lower(scoring=scoring)
    remedy = f"ask about fewer pairs at once, or train with lower {names}" if scoring else f"lower {names}"
    with memory_for(task, remedy), enough_memory(task, remedy):
        yield


def is_number(value: Any) -> bool:
    """Whether this is an int or a float, but not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _hints(cls: type[Settings]) -> dict[str, Any]:
    """The types of the settings, which take milliseconds to find."""
    if cls not in _known_hints:
        _known_hints[cls] = get_type_hints(cls)
    return _known_hints[cls]


def _values(hint: Any, limits: tuple[float, float] | None) -> str:
    """The values that a setting of this type and range may have."""
    if hint is bool:
        return "true, false"
    if get_origin(hint) is Literal:
        return ", ".join(get_args(hint))
    if limits is None:
        return ""
    return " to ".join(f"{limit:,}" if isinstance(limit, int) else f"{limit:g}" for limit in limits)


def _fact(cls: type[Settings], name: str, what: str) -> Any:
    """What a class or the nearest of its bases says about a setting."""
    given = (kind.__dict__.get("__dataclass_fields__", {}).get(name) for kind in cls.__mro__)
    return next((found for each in given if each is not None and (found := each.metadata.get(what))), None)


def toml_value(value: Any) -> str:
    """A value in TOML: a number, a boolean, a string, or a list or a table of such values."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name} = {toml_value(held)}' for name, held in value.items())}}}"
    return f'"{value}"' if isinstance(value, str) else repr(value)
