"""`--system`, `--preset` and `--set key=value`."""

import pytest

import cawn
from cawn.cli.settings import parse_settings, settings_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dim=8", {"dim": 8}),
        (" lr = 1e-3", {"lr": 1e-3}),
        ("rates=false", {"rates": False}),
        ("alpha=[0.1, 2]", {"alpha": (0.1, 2)}),
        ("tree=8, 4", {"tree": (8, 4)}),
        ("tree=8,", {"tree": (8,)}),
        ("tree=[8]", {"tree": (8,)}),
        ("name=a,b", {"name": "a,b"}),
        ("alpha=ladder", {"alpha": "ladder"}),
        ('alpha="ladder"', {"alpha": "ladder"}),
        ("alpha=a=b", {"alpha": "a=b"}),
        ("dim=", {"dim": ""}),
    ],
)
def test_values_are_read_as_toml(text: str, expected: dict) -> None:
    assert parse_settings([text]) == expected


def test_the_last_counts() -> None:
    assert parse_settings(["dim=8", "lr=1", "dim=16"]) == {"dim": 16, "lr": 1}


@pytest.mark.parametrize("text", ["dim", "=8", "", " = 1"])
def test_refused(text: str) -> None:
    with pytest.raises(cawn.QueryError, match="write KEY=VALUE, such as --set epochs=5"):
        parse_settings([text])


def test_settings_of_a_preset_or_a_file(tmp_path) -> None:
    assert settings_of("cawn", "fast", {"epochs": 3}) == cawn.Config.preset("fast").with_(epochs=3)
    tuned = cawn.Config(dim=8, alpha=(0.1, 2.0), lr=0.01)
    (tmp_path / "best.toml").write_text(tuned.to_toml())
    assert settings_of("cawn", str(tmp_path / "best.toml"), {"epochs": 3}) == tuned.with_(epochs=3)


@pytest.mark.parametrize(
    ("content", "why"), [(b"dim = ", "not TOML"), (b"frob = 1", "frob"), (b"\xff", "cannot be read")]
)
def test_a_bad_file_of_settings_is_named(tmp_path, content: bytes, why: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(cawn.QueryError, match=rf"bad\.toml: .*{why}"):
        settings_of("cawn", str(path), {})
    with pytest.raises(cawn.QueryError, match=r"none\.toml: cannot be read"):
        settings_of("cawn", str(tmp_path / "none.toml"), {})
