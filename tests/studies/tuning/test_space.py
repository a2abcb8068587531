"""The settings to search: defaults that are always valid, and files with clear errors."""

from pathlib import Path
from typing import Any

import pytest

import cawn
from cawn import systems
from cawn.studies.tuning.space import default_space, parse_space, read_space

optuna = pytest.importorskip("optuna")
CONFIG = cawn.Config()
TRAINED = [name for name in systems.names() if systems.entry(name).trained]


def drawn(space: Any, config: Any, count: int) -> list[Any]:
    """The settings of random trials."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    found = []
    for _ in range(count):
        trial = study.ask()
        space.suggest(trial, config)
        found.append(config.with_(**space.changes(trial.params)))
    return found


@pytest.mark.parametrize("name", TRAINED)
def test_every_system_has_a_space_of_valid_settings_around_each_preset(name: str) -> None:
    kind = systems.settings_type(name)
    for preset in kind.PRESETS:
        config = kind.preset(preset)
        space = default_space(config)
        assert set(space.parameters_of(config)) == {parameter.name for parameter in space}
        assert len({str(each) for each in drawn(space, config, 20)}) == 20
        assert parse_space(space.to_plain(), config).to_plain() == space.to_plain()


def test_fixed_settings_are_not_searched() -> None:
    config = CONFIG.with_(lr=1e-2, num_walks=64)
    space = default_space(config, ["lr", "num_walks"])
    assert "lr" not in {parameter.name for parameter in space}
    assert {each.num_walks for each in drawn(space, config, 40)} == {64}
    assert len({(each.length, each.tree) for each in drawn(space, config, 40)}) == 4
    config = CONFIG.with_(num_walks=24)
    assert "walks" not in {parameter.name for parameter in default_space(config, ["num_walks"])}


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    path.write_text(
        """
        lr = {low = 1e-4, high = 1e-2, log = true}
        dim = {low = 8, high = 64, step = 8}
        dropout = {low = 0.0, high = 0.3, step = 0.1}
        walks = [{num_walks = 32, tree = []}, {num_walks = 64, tree = [8, 8]}]
        pooling = ["mean", "attention"]
        [head]
        choices = ["mlp", "linear"]
        when = {pooling = "mean"}
        """
    )
    space = read_space(path, CONFIG)
    for each in drawn(space, CONFIG, 50):
        assert each.dim % 8 == 0
        assert round(each.dropout, 1) in (0.0, 0.1, 0.2, 0.3)
        assert (each.num_walks, each.tree) in ((32, ()), (64, (8, 8)))
        assert each.head == "mlp" or each.pooling == "mean"
        assert each.lr == float(f"{each.lr:.3g}")
    (tmp_path / "again.toml").write_text(space.to_toml())
    assert read_space(tmp_path / "again.toml", CONFIG) == space


def test_a_preset_outside_of_a_file() -> None:
    space = parse_space({"lr": {"low": 1e-5, "high": 1e-4}, "dim": [8, 64], "dropout": [0.2, 0.3]}, CONFIG)
    assert space.parameters_of(CONFIG) == {"dim": 64}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lr = ", "not TOML"),
        ("", "the space is empty"),
        ("lrr = [1, 2]", "lrr: setting 'lrr' does not exist; there are"),
        ("dim = [8]", "dim: give at least two choices"),
        ("dim = [8, 8]", "dim: two choices are equal"),
        ("dim = 8", "dim: give a list of values, or a range"),
        ("dim = [8, 'wide']", "dim: dim is 'wide': give an integer from 1 to 4096"),
        ("dim = {low = 8, high = 16.5}", "dim: dim is 16.5: give an integer"),
        ("dim = {low = 16, high = 8}", "dim: low is 16 and high is 8; low must be less"),
        ("dim = {min = 8, max = 16}", "dim: give a list of values, or a range"),
        ("dim = {low = 8, high = 16, base = 2}", "dim: 'base' is not one of high, log, low, step, when"),
        ("dropout = {low = 0.0, high = 0.4, log = true}", "dropout: log is true or false; with true, low must be"),
        ("dim = {low = 8, high = 16, step = 0.5}", "dim: step is 0.5: give an integer above 0"),
        ("dropout = {low = 0.0, high = 0.4, step = 5.0}", "dropout: step is 5.0, more than the range from 0.0 to 0.4"),
        ("rnn = {low = 1, high = 2}", "rnn: rnn is 1: give one of lstm"),
        ("epochs = [5, 10]", "epochs: epochs cannot be searched"),
        ("batch_size = [8, 16]", "batch_size: batch_size is also given a fixed value"),
        ("w = [{dim = 8}, {dim = 16, length = 1}]", "w: every choice must name the same settings, dim, length"),
        ("lr = {low = 1e-3, high = 1e-2, step = nan}", "lr: step is nan: give a number above 0"),
        ("w = [{dim = 8}, 16]", "w: give either values or tables of settings"),
        ("dim = [8, 16]\nw = [{dim = 8}, {dim = 4}]", "w: dim is also changed by dim"),
        (
            "dim = {choices = [8, 16], when = {rnn = 'lstm'}}\nrnn = ['lstm', 'gru']",
            "dim: `when` refers to rnn, ",
        ),
        ("dim = {choices = [8, 16], when = {rnn = 'x'}}", "dim: rnn is 'x': give one of"),
        ("dim = {choices = [8, 16], when = 3}", "dim: when is 3: give a table"),
    ],
)
def test_bad_files_are_refused_in_one_line(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_text(text)
    with pytest.raises(cawn.QueryError) as caught:
        read_space(tmp_path / "space.toml", CONFIG, ["batch_size"])
    assert str(caught.value).startswith(f"{tmp_path / 'space.toml'}: {reason}")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(cawn.QueryError, match="cannot be read; give a TOML file"):
        read_space(tmp_path / "none.toml", CONFIG)
