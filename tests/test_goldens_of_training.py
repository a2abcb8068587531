"""What a change of structure must not change: losses, accuracy, settings, search spaces, parameters and options.

`python tests/test_goldens_of_training.py` writes the files anew; do that only where they are meant to change. Tables of
the paper's report are compared with docs/reproduction.md, by tests/test_docs.py.
"""

import inspect
import json
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import cawn
from cawn import systems
from cawn.cli import app
from cawn.learn.trainer import Trainer
from cawn.studies.tuning.space import default_space
from systems.small_settings import small

LOSSES, INTERFACE = (Path(__file__).parent / "goldens" / f"{name}.json" for name in ("losses", "interface"))
STEPS = 20  # whose losses are compared
FIRST = 3  # whose losses differ on another CPU by rounding only; later ones also by what Adam makes of such gradients
ROUNDED, LATER, AP = 1e-4, 2e-3, 2e-2  # how far losses, relative to their size, and AP may differ
OURS = [name for name in systems.names() if systems.settings_type(name).__module__.startswith("cawn.")]
FUNCTIONS = ("train", "train_seeds", "evaluate", "compare", "tune")


def answers(name: str) -> dict[str, Any]:
    """The losses of the first steps of a system, and its AP on test links after an epoch."""
    events, config = cawn.laws.triadic_closure(30, 500, seed=3).events, small(name, epochs=1)  # no choice of the best
    config = config.with_(lr=min(config.lr, 1e-4))  # the larger, the more rounding matters
    found: dict[str, Any] = {}
    if systems.entry(name).trained:
        trainer = Trainer(events, config, device="cpu", threads=1, quiet=True)
        steps = chain.from_iterable(trainer.steps(epoch, 0) for epoch in count())
        found["losses"] = [round(float(loss), 5) for loss in islice(steps, STEPS)]
    run = cawn.train(events, config, device="cpu", threads=1, quiet=True, task=cawn.Task(baselines=False))
    return found | {"AP": {row["negatives"]: round(row["model"]["ap"], 5) for row in run.results.tests}}


@pytest.mark.parametrize("name", OURS)
def test_losses_and_accuracy_are_as_before(name: str) -> None:
    expected, found = json.loads(LOSSES.read_text())[name], answers(name)
    assert found.keys() == expected.keys()
    before, now = (each.get("losses", []) for each in (expected, found))
    np.testing.assert_allclose(now[:FIRST], before[:FIRST], rtol=ROUNDED)
    np.testing.assert_allclose(now, before, rtol=LATER)
    assert found["AP"] == pytest.approx(expected["AP"], abs=AP)


def interface() -> dict[str, Any]:
    """What users can give: options, parameters of functions, settings of systems and their search spaces."""
    settings = {name: systems.settings_type(name)() for name in OURS}
    return {
        "options": dict(_options("cawn", typer.main.get_command(app))),
        "parameters": {name: list(inspect.signature(getattr(cawn, name)).parameters) for name in FUNCTIONS},
        "settings": {name: config.to_toml().splitlines() for name, config in settings.items()},
        "spaces": {name: default_space(config).to_toml().splitlines() for name, config in settings.items()},
    }


def _options(name: str, command: Any) -> Any:
    yield name, sorted(option for each in command.params if not getattr(each, "hidden", False) for option in each.opts)
    for part, each in getattr(command, "commands", {}).items():
        yield from _options(f"{name} {part}", each)


@pytest.mark.parametrize("what", ["options", "parameters", "settings", "spaces"])
def test_the_interface_is_as_before(what: str) -> None:
    assert interface()[what] == json.loads(INTERFACE.read_text())[what]


if __name__ == "__main__":
    for path, content in ((LOSSES, {name: answers(name) for name in OURS}), (INTERFACE, interface())):
        lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in content.items())
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
