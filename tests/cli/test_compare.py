"""`cawn compare`."""

import json
from pathlib import Path

import pytest

from cawn.cli.compare import parse_settings_by_system
from command_line import assert_refused, call_cawn

QUICK = ("--systems", "rates", "--seeds", "1", "--set", "epochs=1", "--jobs", "0", "--device", "cpu")


def test_tables_and_json(workshop: Path, tmp_path: Path) -> None:
    shown = call_cawn("compare", workshop / "edges.csv", "-o", tmp_path / "c", *QUICK)
    assert shown.code == 0, shown.err
    for text in ("transductive, all test links", "AP historical", "MRR", "peak memory", "comparison.md"):
        assert text in shown.out
    assert "rates, transductive, seed 0: AP random 0." in shown.err
    found = call_cawn("compare", workshop / "edges.csv", "-o", tmp_path / "c", "--json", "-q", *QUICK)
    assert (found.code, found.err) == (0, "")
    assert json.loads(found.out)["about"]["settings"] == {"rates": {"epochs": 1}}


def test_a_comparison_without_a_result_fails_and_keeps_earlier_tables(workshop: Path, tmp_path: Path) -> None:
    command = ("compare", workshop / "edges.csv", "-o", tmp_path / "c", *QUICK)
    assert call_cawn(*command).code == 0
    before = (tmp_path / "c" / "comparison.md").read_text()
    shown = call_cawn(*command, "--set", "epochs=2")
    assert shown.code == 2
    assert "settings (epochs)" in shown.err
    assert "no table was written" in shown.err
    assert "already finished" not in shown.err
    assert "written:" not in shown.out
    assert (tmp_path / "c" / "comparison.md").read_text() == before


def test_bad_input(workshop: Path, tmp_path: Path) -> None:
    assert_refused(call_cawn("compare", "frob", "-q"), "no such file, and no dataset of this name")
    command = ("compare", workshop / "edges.csv", "-q", "-o", tmp_path / "c")
    assert_refused(call_cawn(*command, "--systems", "rates,frob"), "system is 'frob'")
    assert_refused(call_cawn(*command, "--set", "frob.epochs=3"), "system is 'frob'")
    assert_refused(
        call_cawn(*command, "--systems", "rates", "--set", "tgn.dim=8"), "--set tgn.dim: tgn is not compared"
    )
    assert_refused(call_cawn(*command, "--set", "epochs"), "write KEY=VALUE")
    assert_refused(call_cawn(*command, "--clock", ""), "clock is ''")
    assert_refused(call_cawn("compare", "frob", "--systems", "tng"), "system is 'tng'")  # before the links are read
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([], {}),
        (["epochs=3"], {"all": {"epochs": 3}}),
        (["tgn.lr=1e-3", "tgn.epochs=2"], {"tgn": {"lr": 1e-3, "epochs": 2}}),
        (["jodie-original.dim=0.5"], {"jodie-original": {"dim": 0.5}}),
    ],
)
def test_settings_of_one_system_or_of_all(given: list[str], found: dict) -> None:
    assert parse_settings_by_system(given) == found
