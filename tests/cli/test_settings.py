"""`--set key=value`."""

import pytest

import cawn
from cawn.cli.settings import parse_settings


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
