"""The layers of the package: each module imports only from its own layer and from those before it.

There are no import cycles. Every import counts: at the top of a module, inside a function and under TYPE_CHECKING.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import cawn

ROOT = Path(cawn.__file__).parent

FOUNDATION = {"errors", "checks", "files", "progress", "interrupt", "devices"}
LAYERS = (
    "foundation",
    "kernels",
    "data",
    "index",
    "walks",
    "systems",
    "caw",
    "rivals",
    "learn",
    "studies",
    "explain",
    "predictor",
    "paper",
    "scale",
    "serve",
    "cli",
)
MODULES = {
    "rankings": "predictor",
    "snapshot": "predictor",
    "datasets": "data",
    "laws": "data",
    "testing": "learn",
} | dict.fromkeys(FOUNDATION, "foundation")
ENTRY_POINTS = {"cawn", "cawn.__main__"}  # they gather the public names of every layer
SYSTEMS = {"baselines", "counts", "rates"}  # modules of systems/ that are systems; the others serve every system
RIVAL_PARTS = {"matrices", "stream", "versions"}  # modules of rivals/ that several rivals share


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path, known: set[str]) -> Iterator[str]:
    """The modules of the package that a module imports. `from a import b` names a.b where that is a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "cawn")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import; write the whole name"
            if node.module and node.module.split(".")[0] == "cawn":
                for alias in node.names:
                    if alias.name == "__version__":
                        continue
                    whole = f"{node.module}.{alias.name}"
                    yield whole if whole in known else node.module


MODULE_PATHS = modules()
IMPORTS = sorted(
    {(name, other) for name, path in MODULE_PATHS.items() for other in imports(name, path, set(MODULE_PATHS))}
)


def layer(name: str) -> str:
    """The layer of a module; of the package itself, whose names are those of all layers, the last."""
    part = name.split(".")[1] if "." in name else "cli"
    return MODULES.get(part, part)


def later_layer(name: str, other: str) -> bool:
    return name not in ENTRY_POINTS and LAYERS.index(layer(other)) > LAYERS.index(layer(name))


def system(name: str) -> str | None:
    """The system that a module belongs to; None if it serves several."""
    room, part = [*name.split(".")[1:3], "", ""][:2]
    if (room == "rivals" and part not in {*RIVAL_PARTS, ""}) or (room == "systems" and part in SYSTEMS):
        return part
    return "caw" if room == "caw" else None


def other_system(name: str, other: str) -> bool:
    """A system imports another one. All may import what is shared; the registry names all and imports none."""
    return layer(name) in ("systems", "caw", "rivals") and system(other) not in (None, system(name))


def annex(name: str, other: str) -> bool:
    """Only the registry knows the rivals, by name, and only a command the paper."""
    room = layer(other)
    return room in ("rivals", "paper") and layer(name) != room and name != f"cawn.cli.{room}"


def one_system(name: str, other: str) -> bool:
    """What serves every system names none of those that are trained: they come from the registry."""
    serves_all = layer(name) in ("learn", "studies", "predictor", "cli") and name not in ENTRY_POINTS
    return serves_all and system(other) not in (None, "baselines")


RULES = {
    "a layer imports from a later one": later_layer,
    "a system imports another": other_system,
    "an annex is imported": annex,
    "what serves every system imports one of them": one_system,
}


def broken() -> dict[str, str]:
    return {
        f"{name} -> {other}": rule for rule, breaks in RULES.items() for name, other in IMPORTS if breaks(name, other)
    }


def test_every_module_has_a_layer() -> None:
    assert {layer(name) for name in MODULE_PATHS if name not in ENTRY_POINTS} <= set(LAYERS)


def test_imports_follow_the_layers() -> None:
    assert broken() == {}


def test_no_import_cycles() -> None:
    imported = {name: [other for importer, other in IMPORTS if importer == name] for name in MODULE_PATHS}
    TopologicalSorter(imported).prepare()  # raises CycleError, which lists the modules


def test_a_class_has_a_name_of_its_own() -> None:
    """One name for one thing, in the whole package."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in MODULE_PATHS.values()]
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, count in names.items() if count > 1} == set()


@pytest.mark.parametrize(
    ("name", "other", "rule"),
    [
        ("cawn.data.events", "cawn.walks.history", later_layer),
        ("cawn.files", "cawn.kernels.jit", later_layer),
        ("cawn.learn.runs", "cawn", later_layer),
        ("cawn.systems.baselines", "cawn.caw.config", other_system),
        ("cawn.rivals.tgat", "cawn.rivals.memory", other_system),
        ("cawn.systems.base", "cawn.systems.rates", other_system),
        ("cawn.studies.study", "cawn.rivals.stream", annex),
        ("cawn.learn.runs", "cawn.paper", annex),
        ("cawn.learn.trainer", "cawn.caw.model", one_system),
    ],
)
def test_each_rule_can_be_broken(name: str, other: str, rule) -> None:
    assert rule(name, other)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("cawn.walks.history", "cawn.data.events"),
        ("cawn.predictor", "cawn.explain.link"),
        ("cawn", "cawn.cli"),
        ("cawn.rivals.tgat", "cawn.systems.neural"),
        ("cawn.cli.paper", "cawn.paper.sweep"),
        ("cawn.caw.system", "cawn.systems.base"),
        ("cawn.caw.system", "cawn.caw.model"),
        ("cawn.learn.trainer", "cawn.systems.base"),
        ("cawn.learn.trainer", "cawn.systems"),
    ],
)
def test_allowed_imports(name: str, other: str) -> None:
    assert not any(breaks(name, other) for breaks in RULES.values())
