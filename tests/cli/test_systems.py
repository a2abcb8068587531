"""`cawn systems`."""

import json

from cawn import systems
from command_line import assert_refused, call_cawn


def test_every_system_and_baseline_is_listed() -> None:
    found = call_cawn("systems", "--json")
    assert (found.code, found.err) == (0, "")
    rows = json.loads(found.out)
    assert sorted(row["name"] for row in rows) == sorted(systems.names())
    assert [row["name"] for row in rows if not row["trained"]] == ["recency", "popularity", "edgebank", "heuristics"]
    assert not any(row["trained"] for row in rows[-4:])  # the untrained last
    shown = call_cawn("systems")
    assert (shown.code, shown.err) == (0, "")
    for row in rows:
        assert row["name"] in shown.out
        assert row["summary"].split(" ")[0] in shown.out


def test_the_settings_of_a_system() -> None:
    found = call_cawn("systems", "rates", "--json")
    assert (found.code, found.err) == (0, "")
    description = json.loads(found.out)
    assert description["name"] == "rates"
    assert description["presets"] == ["default", "fast"]
    rows = {row["name"]: row for row in description["settings"]}
    assert rows.keys() == systems.settings_type("rates")().to_dict().keys()
    hidden = {"name": "hidden", "default": 64, "values": "1 to 4,096", "meaning": "width of the two hidden layers"}
    assert rows["hidden"] == hidden
    assert rows["schedule"]["values"] == "constant, one-cycle"
    assert rows["patience"]["meaning"] == "epochs without a better validation AP before training stops"
    shown = call_cawn("systems", "rates")
    assert (shown.code, shown.err) == (0, "")
    assert "also count links by direction; otherwise scores are symmetric" in shown.out


def test_a_comment_of_two_lines() -> None:
    rows = {row["name"]: row["meaning"] for row in systems.settings_type("cawn").describe()}
    assert rows["sides"].startswith("pool S_u and S_v as one set, as in the paper, or separately")
    assert rows["tree"].startswith("fan-outs (k_1, ..., k_m) with product M")


def test_an_unknown_system() -> None:
    assert_refused(call_cawn("systems", "frob"), "system is 'frob': there are cawn, rates")
