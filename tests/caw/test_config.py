"""Settings: presets, files, and what is refused."""

import pytest

import cawn
from cawn.caw.config import Config


@pytest.mark.parametrize("name", list(Config.PRESETS))
def test_presets_survive_a_file(name: str) -> None:
    config = Config.preset(name)
    assert Config.from_toml(config.to_toml()) == config


def test_values_survive_a_file() -> None:
    config = Config(alpha=(1e-300, 0.0, 2.5), num_walks=63, lr=1e-5, directed=True, rnn="gru")
    assert Config.from_toml(config.to_toml()) == config
    tree = Config(alpha=0.1, num_walks=12, tree=(4, 3))
    assert Config.from_toml(tree.to_toml()) == Config.from_dict(tree.to_dict() | {"tree": [4, 3]}) == tree
    assert Config.from_toml("dim = 7\n") == Config(dim=7)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dims": 3}, "setting 'dims' does not exist; there are alpha, "),
        ({"dim": 0}, "dim is 0: give an integer from 1 to 4096"),
        ({"dim": 1.5}, "dim is 1.5"),
        ({"dim": "a"}, "dim is 'a'"),
        ({"dim": True}, "dim is True"),
        ({"lr": -1}, "lr is -1: give a number"),
        ({"dropout": float("nan")}, "dropout is nan"),
        ({"rnn": "cnn"}, "rnn is 'cnn': give one of lstm, gru, transformer, bidirectional"),
        ({"time": 1}, "time is 1: give true or false"),
        ({"alpha": -1.0}, "alpha is -1.0"),
        ({"alpha": "medium"}, "alpha is 'medium'"),
        ({"alpha": ()}, r"alpha is \(\)"),
        ({"alpha": (1.0, 2.0, 3.0)}, "num_walks=64 cannot be divided evenly among 3 decays"),
        ({"tree": 64}, "tree is 64: give a fan-out >= 1 for each step, such as"),
        ({"tree": "8;8"}, "tree is '8;8': give a fan-out"),
        ({"tree": (8.0, 8)}, r"tree is \(8.0, 8\): give a fan-out"),
        ({"tree": (True, 64)}, r"tree is \(True, 64\): give a fan-out"),
        ({"tree": (-8, -8)}, r"tree is \(-8, -8\): give a fan-out"),
        ({"tree": (64,)}, r"tree is \(64,\): give length=2 fan-outs whose product is num_walks=64"),
        ({"tree": (8, 4)}, r"tree is \(8, 4\): give length=2 fan-outs whose product is num_walks=64"),
        ({"tree": (8, 8), "num_walks": 32}, "whose product is num_walks=32"),
        ({"tree": (4, 16)}, r"the first fan-out of tree=\(4, 16\) cannot be divided evenly among 8 decays"),
        ({"tree": (4, 16), "alpha": (1.0,) * 8}, "cannot be divided evenly among 8 decays; change it or alpha"),
    ],
)
def test_refused(changes: dict, message: str) -> None:
    with pytest.raises(cawn.QueryError, match=message):
        Config().with_(**changes)


def test_unknown_preset_and_broken_file() -> None:
    with pytest.raises(
        cawn.QueryError, match="'frob': there are default, paper-mean, paper-attn, fast, large, ranking, walks, authors"
    ):
        Config.preset("frob")
    with pytest.raises(cawn.QueryError, match="not TOML"):
        Config.from_toml("dim = = 3")
    with pytest.raises(cawn.QueryError, match="setting 'frob' does not exist"):
        Config.from_toml("frob = 3")


def test_sides_follow_directions() -> None:
    assert Config().sides == Config().with_(directed=True).sides == "separate"
    assert Config(directed=False).sides == Config().with_(directed=False).sides == "symmetric"
    assert Config().with_(directed=False).with_(directed=True).sides == "separate"
    assert Config.preset("paper-mean").sides == "joint"
    assert Config.from_toml('directed = false\nsides = "separate"').sides == "separate"
    assert Config.from_toml(Config(directed=False).to_toml()) == Config(directed=False)
    with pytest.raises(cawn.QueryError, match="directed=false"):
        Config(sides="symmetric")


def test_links_drawn_at_each_step() -> None:
    assert Config(num_walks=12, length=3).widths == (12, 12, 12)
    assert Config(num_walks=12, length=3, tree=(4, 3, 1)).widths == (4, 12, 12)
    for alpha, decays in ((0.1, 1), ((0.1, 1), 2), ("paper", 1), ("auto", 8), ("ladder", 8)):
        assert Config(alpha=alpha).num_decays == decays
    assert Config(num_walks=20).num_decays == 4


def test_presets_beside_the_papers() -> None:
    assert Config.preset("fast") == Config(num_walks=32, length=1, dim=32)
    assert Config.preset("large") == Config(num_walks=256, dim=128)
    assert Config.preset("ranking") == Config(negatives="random", num_negatives=4)
    assert not Config.preset("walks").pair_parts.any
    authors, paper = (Config.preset(name).to_dict() for name in ("authors", "paper-mean"))
    differences = {"dim", "frequencies", "rnn", "sides", "time_code"}
    assert {name for name in paper if paper[name] != authors[name]} == differences
