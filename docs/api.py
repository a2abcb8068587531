"""Writes docs/api.md, the public names with their signatures and docstrings, from `cawn` itself."""

import inspect
import re
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import cawn
from cawn.walks.device_history import DeviceHistory

PARTS = {
    "Data": ("read", "Events", "datasets", "laws"),
    "Walks": ("History", "Stream", "Walks", "anonymize", "anonymize_each", "walk_shapes"),
    "Learning": ("Config", "train", "train_seeds", "evaluate_run", "TimeSplit", "Run", "Trainer"),
    "Prediction": ("LinkPredictor",),
    "Errors": ("CawnError", "DataError", "QueryError", "LateEventError", "StorageError", "DeviceError"),
}
RETURNED = {
    "LinkPredictor": (
        *("rankings.Scores", "rankings.Ranked", "rankings.Ranking", "updates.Update"),
        *("explain.link.Explanation", "explain.link.Walk", "explain.link.Link", "explain.law.Law", "explain.law.Shape"),
    ),
    "History": ("gpu.history.DeviceHistory",),
    "datasets": ("datasets.Dataset",),
    "laws": ("laws.LawNetwork",),
}  # classes a user meets but does not call
LOADED = (cawn.LinkPredictor, DeviceHistory)  # not made by calling the class
WIDTH = 100


@dataclass(frozen=True, slots=True, repr=False)
class Annotation:
    """A type as it stands in the source."""

    text: str

    def __repr__(self) -> str:
        return self.text


def signature(function: Any, name: str) -> str:
    """As one would write it, on several lines where it is long."""
    found = inspect.signature(function)
    given = [
        p.replace(annotation=Annotation(p.annotation) if isinstance(p.annotation, str) else p.annotation)
        for p in found.parameters.values()
        if p.name not in ("self", "cls")
    ]
    returns = found.return_annotation
    plain = found.replace(
        parameters=given, return_annotation=Annotation(returns) if isinstance(returns, str) else returns
    )
    line = f"{name}{plain}".removesuffix(" -> None")
    if len(line) <= WIDTH or not given:
        return line
    inside, _, arrow = line[len(name) + 1 :].rpartition(")")
    pieces = re.split(r", (?=\*, |\*?\*?\w+: )", inside)
    return f"{name}(\n" + "".join(f"    {piece},\n" for piece in pieces) + f"){arrow}"


def prose(thing: Any) -> str:
    """The docstring, its arguments as a list."""
    lines, out, listing = (inspect.getdoc(thing) or "").strip().splitlines(), [], False
    for line in lines:
        if line == "Args:":
            listing = True
        elif listing and (entry := re.fullmatch(r"    (\w[\w, ]*): (.*)", line)):
            out.append(f"- `{entry[1]}`: {entry[2]}")
        elif listing and line.startswith("     "):
            out.append(f"  {line.strip()}")
        else:
            listing = listing and not line
            out.append(line)
    return "\n".join(out)


def fields(cls: type) -> str:
    """The fields of a value class with what the source says of them."""
    body = inspect.getsource(cls).splitlines()
    kept = [line[4:] for line in body if re.match(r"    (\w+: |# )", line)]
    return "```python\n" + "\n".join(kept) + "\n```\n" if kept else ""


def members(cls: type) -> list[tuple[str, Any]]:
    """Public methods and properties, in the order of the source; those of cawn's own base classes too."""
    found: dict[str, Any] = {}
    for base in reversed([base for base in cls.__mro__ if base.__module__.startswith("cawn.")]):
        found |= {name: value for name, value in vars(base).items() if not name.startswith("_")}
    callables = (property, classmethod, staticmethod)
    return [(n, v) for n, v in found.items() if (isinstance(v, callables) or inspect.isfunction(v)) and n != "adopt"]


def of_class(cls: type, path: str) -> str:
    is_value = is_dataclass(cls) or issubclass(cls, tuple)
    is_error = issubclass(cls, Exception)
    out = [f"### {path}\n"]
    if not is_value and not is_error and cls not in LOADED:
        out.append(f"```python\n{signature(cls.__init__, path)}\n```\n")
    out.append(prose(cls) + "\n")
    if inspect.isfunction(cls.__init__) and not is_value and not is_error and cls.__init__.__doc__:
        out.append(prose(cls.__init__) + "\n")
    if is_value:
        out.append(fields(cls))
    for name, value in members(cls):
        short = f"{path.rpartition('.')[2]}.{name}"
        if isinstance(value, property):
            out.append(f"**`{name}`**: {prose(value) or 'a property.'}\n")
        else:
            function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            out.append(f"```python\n{signature(function, short)}\n```\n\n{prose(function)}\n")
    return "\n".join(out)


def of_module(module: ModuleType, path: str) -> str:
    public = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    own = [(n, getattr(module, n)) for n in public if inspect.isfunction(getattr(module, n))]
    own = [(n, f) for n, f in own if f.__module__.startswith(module.__name__)]
    shown = [f"```python\n{signature(f, f'{path}.{n}')}\n```\n\n{prose(f)}\n" for n, f in own]
    return "\n".join([f"### {path}\n", prose(module) + "\n", *shown])


def entry(name: str) -> str:
    """One public name, and the classes that come with it."""
    value, path = getattr(cawn, name), f"cawn.{name}"
    if isinstance(value, ModuleType):
        text = of_module(value, path)
    elif isinstance(value, type):
        text = of_class(value, path)
    else:
        text = f"### {path}\n\n```python\n{signature(value, path)}\n```\n\n{prose(value)}\n"
    others = (other.rpartition(".") for other in RETURNED.get(name, ()))
    return "\n".join([text, *(of_class(getattr(import_module(f"cawn.{home}"), cls), cls) for home, _, cls in others)])


def page() -> str:
    listed = [name for names in PARTS.values() for name in names]
    assert sorted(listed) == sorted(cawn.__all__), set(listed) ^ set(cawn.__all__)
    out = ["# API\n", "Every public name of `cawn`, as `python docs/api.py` finds it.\n"]
    for part, names in PARTS.items():
        out += [f"## {part}\n", *map(entry, names)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).rstrip() + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("api.md").write_text(page(), encoding="utf-8")
