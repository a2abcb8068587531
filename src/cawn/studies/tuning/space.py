"""The settings that a study searches, and the values each may have.

A space is a table of parameters. A parameter is named after a setting and is a list of values, or a range:

    lr = {low = 1e-4, high = 1e-2, log = true}
    dropout = {low = 0.0, high = 0.4, step = 0.1}
    dim = [32, 64, 128]

If its values are tables, a parameter changes several settings at once and may have any name. With `when`, it is
searched only if other settings have one of the given values; otherwise its settings are those of the preset:

    walks = [{num_walks = 32, length = 1}, {num_walks = 64, length = 2, tree = [8, 8]}]
    head = {choices = ["mlp", "linear"], when = {pooling = ["mean"]}}
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, get_type_hints

from cawn.errors import QueryError, brief
from cawn.files import read_file
from cawn.systems.settings import Settings, is_number, toml_value

NOT_SEARCHED = ("epochs", "patience")  # trials are compared epoch by epoch
_RANGE, _CHOICES = {"low", "high", "log", "step", "when"}, {"choices", "when"}
_DIGITS = 3  # significant digits of values drawn from a range


@dataclass(frozen=True)
class Parameter:
    """A setting to search: one of several choices, or a number in a range."""

    name: str
    choices: tuple[Any, ...] = ()  # values of the setting, or tables of settings
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    step: float | None = None
    integer: bool = False
    when: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def settings(self) -> list[str]:
        """The settings that it changes."""
        tables = [choice for choice in self.choices if isinstance(choice, dict)]
        return list(dict.fromkeys(name for table in tables for name in table)) or [self.name]

    @property
    def labels(self) -> list[Any]:
        """The choices as Optuna stores them: as they are if all are single values, else as text."""
        if all(isinstance(choice, bool | int | float | str) for choice in self.choices):
            return list(self.choices)
        return [_label(choice) for choice in self.choices]

    def applies(self, settings: Mapping[str, Any]) -> bool:
        """Whether it is searched, given the settings that were chosen before it."""
        return all(settings[name] in values for name, values in self.when.items())

    def changes(self, value: Any) -> dict[str, Any]:
        """The settings that a value, as Optuna stores it, stands for."""
        if self.choices:
            chosen = self.choices[self.labels.index(value)]
            return dict(chosen) if isinstance(chosen, dict) else {self.name: chosen}
        return {self.name: int(value) if self.integer else float(f"{value:.{_DIGITS}g}")}

    def value_in(self, config: Settings) -> Any:
        """The value that stands for these settings, as Optuna stores it; None if there is none."""
        if self.choices:
            for label, choice in zip(self.labels, self.choices, strict=True):
                table = choice if isinstance(choice, dict) else {self.name: choice}
                if all(getattr(config, name) == value for name, value in table.items()):
                    return label
            return None
        value = getattr(config, self.name)
        if not is_number(value) or not self.low <= value <= self.high:
            return None
        steps = 0.0 if self.step is None else (value - self.low) / self.step
        return value if abs(steps - round(steps)) < 1e-9 else None

    def distribution(self, optuna: Any) -> Any:
        """Its values as a distribution of Optuna."""
        found = optuna.distributions
        if self.choices:
            return found.CategoricalDistribution(self.labels)
        if self.integer:
            return found.IntDistribution(self.low, self.high, log=self.log, step=self.step or 1)
        return found.FloatDistribution(self.low, self.high, log=self.log, step=self.step)

    def suggest(self, trial: Any) -> Any:
        """A value drawn by the sampler of an Optuna trial."""
        if self.choices:
            return trial.suggest_categorical(self.name, self.labels)
        if self.integer:
            return trial.suggest_int(self.name, self.low, self.high, log=self.log, step=self.step or 1)
        return trial.suggest_float(self.name, self.low, self.high, log=self.log, step=self.step)

    def to_plain(self) -> Any:
        """As in a TOML file."""
        found: dict[str, Any] = {"choices": [_plain(choice) for choice in self.choices]}
        if not self.choices:
            found = {"low": self.low, "high": self.high}
            found |= {"log": True} if self.log else {}
            found |= {} if self.step is None else {"step": self.step}
        if self.when:
            return found | {"when": {name: [_plain(value) for value in values] for name, values in self.when.items()}}
        return found.get("choices", found)

    def __str__(self) -> str:
        return f"{self.name} = {toml_value(self.to_plain())}"


@dataclass(frozen=True)
class Space:
    """The parameters of a study; a parameter may depend only on those before it."""

    parameters: tuple[Parameter, ...]

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self.parameters)

    def suggest(self, trial: Any, config: Settings) -> None:
        """Let the sampler of an Optuna trial choose the parameters that apply, starting from these settings."""
        settings = config.to_dict()
        for parameter in self:
            if parameter.applies(settings):
                settings |= parameter.changes(parameter.suggest(trial))

    def changes(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that the parameters of a trial stand for."""
        found: dict[str, Any] = {}
        for parameter in self:
            if parameter.name in chosen:
                found |= parameter.changes(chosen[parameter.name])
        return found

    def parameters_of(self, config: Settings) -> dict[str, Any]:
        """The parameters that stand for these settings; without those whose values the space does not contain."""
        settings = config.to_dict()
        values = {each.name: each.value_in(config) for each in self if each.applies(settings)}
        return {name: value for name, value in values.items() if value is not None}

    def to_plain(self) -> dict[str, Any]:
        """As JSON-compatible values."""
        return {parameter.name: parameter.to_plain() for parameter in self}

    def to_toml(self) -> str:
        """A file that `read_space` reads."""
        return "".join(f"{parameter}\n" for parameter in self)


def default_space(config: Settings, fixed: Collection[str] = ()) -> Space:
    """The space that the settings of a system define, extended so that it contains `config`.

    Parameters of which a setting is `fixed` are left out; of those that change several settings, the choices that agree
    with `config` are kept.
    """
    found = []
    for name, given in type(config).SEARCHED.items():
        parameter = _parse(name, given, config)
        if name in fixed:
            continue
        known = [setting for setting in parameter.settings if setting in fixed]
        choices = tuple(
            choice
            for choice in parameter.choices
            if not known or all(choice.get(setting) == getattr(config, setting) for setting in known)
        )
        if parameter.choices and known and len(choices) < 2:
            continue
        found.append(_containing(replace(parameter, choices=choices), config))
    return Space(tuple(found))


def _containing(parameter: Parameter, config: Settings) -> Parameter:
    """The parameter with the value of these settings added, if it lacks it."""
    if parameter.value_in(config) is not None:
        return parameter
    if parameter.choices:
        own = {name: getattr(config, name) for name in parameter.settings}
        single = not isinstance(parameter.choices[0], dict)
        return replace(parameter, choices=(*parameter.choices, own[parameter.name] if single else own))
    value = getattr(config, parameter.name)
    return replace(parameter, low=min(parameter.low, value), high=max(parameter.high, value), step=None)


def read_space(path: Path, config: Settings, fixed: Collection[str] = ()) -> Space:
    """The space in a TOML file; QueryError with the file and the parameter if it is not valid."""
    try:
        text = read_file(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise QueryError(f"{path}: cannot be read; give a TOML file, see --show-space") from error
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise QueryError(f"{path}: not TOML: {error}") from error
    try:
        return parse_space(content, config, fixed)
    except QueryError as error:
        raise QueryError(f"{path}: {error}") from error


def parse_space(content: Mapping[str, Any], config: Settings, fixed: Collection[str] = ()) -> Space:
    """The space that a table of parameters describes."""
    if not isinstance(content, Mapping) or not content:
        raise QueryError("the space is empty; add a parameter such as dim = [32, 64]")
    found = [_parse(name, given, config) for name, given in content.items()]
    searched: dict[str, str] = {}
    for parameter in found:
        for setting in parameter.settings:
            if setting in fixed:
                raise QueryError(f"{parameter.name}: {setting} is also given a fixed value; remove one of the two")
            if setting in searched:
                raise QueryError(f"{parameter.name}: {setting} is also changed by {searched[setting]}")
            searched[setting] = parameter.name
        if later := [name for name in parameter.when if name in {s for p in found for s in p.settings} - set(searched)]:
            raise QueryError(f"{parameter.name}: `when` refers to {later[0]}, which must be defined before it")
    return Space(tuple(found))


def _parse(name: str, given: Any, config: Settings) -> Parameter:
    table = {"choices": given} if isinstance(given, list) else given
    if not isinstance(table, dict) or not ("choices" in table or {"low", "high"} <= set(table)):
        raise QueryError(f"{name}: give a list of values, or a range such as {{low = 0.1, high = 0.9}}")
    known = _CHOICES if "choices" in table else _RANGE
    if unknown := sorted(set(table) - known):
        raise QueryError(f"{name}: {brief(unknown[0])} is not one of {', '.join(sorted(known))}")
    when = _conditions(name, table.get("when", {}), config)
    found = _choices(name, table["choices"], config) if "choices" in table else _range(name, table, config)
    if refused := [setting for setting in found.settings if setting in NOT_SEARCHED]:
        raise QueryError(f"{name}: {refused[0]} cannot be searched, because trials are compared epoch by epoch")
    return replace(found, when=when)


def _choices(name: str, given: Any, config: Settings) -> Parameter:
    if not isinstance(given, list) or len(given) < 2:
        raise QueryError(f"{name}: give at least two choices")
    tables = [isinstance(choice, dict) for choice in given]
    if any(tables) and not all(tables):
        raise QueryError(f"{name}: give either values or tables of settings, not both")
    choices = tuple(
        {key: _value(name, key, value, config) for key, value in choice.items()}
        if isinstance(choice, dict)
        else _value(name, name, choice, config)
        for choice in given
    )
    found = Parameter(name, choices)
    if tables[0] and any(set(choice) != set(found.settings) for choice in choices):
        raise QueryError(f"{name}: every choice must name the same settings, {', '.join(found.settings)}")
    if len(set(found.labels)) < len(choices):
        raise QueryError(f"{name}: two choices are equal")
    return found


def _range(name: str, table: dict[str, Any], config: Settings) -> Parameter:
    low, high, log, step = (table.get(key) for key in ("low", "high", "log", "step"))
    integer = get_type_hints(type(config)).get(name) is int
    for value in (low, high):
        _value(name, name, value, config)
        if not is_number(value):
            raise QueryError(f"{name}: low and high are numbers; give a list for other values")
    if not low < high:  # type: ignore[operator]
        raise QueryError(f"{name}: low is {low} and high is {high}; low must be less")
    if log not in (None, True, False) or (log and (low <= 0 or step is not None)):  # type: ignore[operator]
        raise QueryError(f"{name}: log is true or false; with true, low must be above 0, and there can be no step")
    if step is not None and (not is_number(step) or not 0 < step < inf or (integer and not isinstance(step, int))):
        raise QueryError(f"{name}: step is {brief(step)}: give {'an integer' if integer else 'a number'} above 0")
    if step is not None and step > high - low:  # type: ignore[operator]
        raise QueryError(f"{name}: step is {step}, more than the range from {low} to {high}")
    return Parameter(name, (), low, high, bool(log), step, integer)  # type: ignore[arg-type]


def _conditions(name: str, given: Any, config: Settings) -> dict[str, tuple[Any, ...]]:
    if not isinstance(given, dict):
        raise QueryError(f"{name}: when is {brief(given)}: give a table such as {{pooling = ['mean']}}")
    return {
        key: tuple(_value(name, key, value, config) for value in (values if isinstance(values, list) else [values]))
        for key, values in given.items()
    }


def _value(parameter: str, setting: str, given: Any, config: Settings) -> Any:
    """A value of a setting, checked."""
    value = tuple(given) if isinstance(given, list) else given
    try:
        type(config).check_value(setting, value)
    except QueryError as error:
        raise QueryError(f"{parameter}: {error}") from error
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(held) for name, held in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _label(choice: Any) -> str:
    if isinstance(choice, dict):
        return ", ".join(f"{name} {_label(value)}" for name, value in choice.items())
    if isinstance(choice, tuple):
        return f"[{', '.join(map(str, choice))}]"
    return str(choice)
