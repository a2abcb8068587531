"""The systems of the tables, and the settings that a user may change."""

from pathlib import Path

import pytest

import cawn
from cawn import systems
from cawn.paper.experiments import Request
from cawn.paper.grid import Grid
from cawn.paper.results import Result, Results
from cawn.paper.tables import Table2
from cawn.paper.variants import BY_NAME, VARIANTS, check_request, chosen_variants, paper_config, settings_of, tuned
from paper_results import gather, result


def request(results: Results | None = None, **changes: object) -> Request:
    return Request({}, 1, results or Results(Path("none")), changes)


def trial(ap: float, preset: str = "paper-mean", stopped: bool = False, **searched: object) -> Result:
    value = {"validation": [0.1, ap]} | ({"stopped": True} if stopped else {})
    settings = {"preset": preset, "searched": searched}
    return result("trial", f"grid {preset}, {searched}", value, settings)


def test_every_variant_has_settings() -> None:
    for variant in VARIANTS:
        assert systems.name_of(settings_of(variant, "uci", request())) == variant.system


def test_changes_apply_to_the_systems_that_have_the_setting() -> None:
    changed = request(epochs=3, num_walks=7)
    assert settings_of(BY_NAME["default"], "uci", changed).to_dict()["num_walks"] == 7
    assert settings_of(BY_NAME["rates"], "uci", changed).to_dict()["epochs"] == 3


def test_paper_presets_take_what_the_search_found() -> None:
    found = gather(trial(0.8, alpha=1e-5), trial(0.9, alpha=1e-6), trial(0.95, alpha=1e-7, stopped=True))
    assert tuned(found, "uci", "paper-mean") == {"alpha": 1e-6}
    assert tuned(found, "uci", "paper-attn") == {"alpha": 1e-6}  # has no search of its own
    assert tuned(found, "uci", "default") == {}
    assert tuned(found, "enron", "paper-mean") == {}
    assert paper_config(request(found), "uci").alpha == 1e-6
    assert paper_config(request(found, alpha=1e-4), "uci").alpha == 1e-4


def test_of_nearly_equal_settings_the_cheapest_are_taken() -> None:
    found = gather(trial(0.9, num_walks=128), trial(0.89999, num_walks=32), trial(0.8, num_walks=16))
    assert tuned(found, "uci", "paper-mean") == {"num_walks": 32}


def test_chosen_variants() -> None:
    assert chosen_variants(request()) == list(VARIANTS)
    chosen = Request({}, 1, Results(Path("none")), systems=("rates", "paper-attn"))
    assert [variant.label for variant in chosen_variants(chosen)] == ["rates", "CAW-N-attn"]


def test_refusals() -> None:
    check_request(Table2(), ("rates",), {"epochs": 3})
    with pytest.raises(cawn.QueryError, match="system is 'frob': give one of paper-mean"):
        check_request(Table2(), ("frob",), {})
    with pytest.raises(cawn.QueryError, match=r"system is 'rates': give one of paper-mean, paper-attn$"):
        check_request(Grid(), ("rates",), {})
    with pytest.raises(cawn.QueryError, match="no system that table2 trains has this setting"):
        check_request(Table2(), ("rates",), {"num_walks": 3})
    with pytest.raises(cawn.QueryError, match="--set 'frob'"):
        check_request(Table2(), None, {"frob": 3})
