"""`cawn demo`."""

import json

from command_line import call_cawn


def test_demo_tells_the_two_links_apart() -> None:
    shown = call_cawn("demo", "--no-train")
    assert shown.code == 0
    assert shown.err == ""
    assert "closes a triangle" in shown.out
    assert "does not" in shown.out
    assert "(1,1)" in shown.out
    assert "10 of 10 where the triangle closes, 0 of 10" in shown.out.replace("\n", " ")


def test_demo_as_json() -> None:
    result = json.loads(call_cawn("demo", "--no-train", "--json", "--walks", "3", "--length", "2", "--seed", "5").out)
    closes, does_not = result["closes"], result["does_not"]
    assert closes["src"] == does_not["src"]
    assert closes["t"] == does_not["t"]
    for view in (closes, does_not):
        assert [len(walk) for walk in view["walks"]] == [3] * 6
        assert view["identities"][str(view["src"])][0][0] == 3
        assert view["shapes"][0][0][0] == 0
    assert closes["meeting"] > does_not["meeting"]


def test_the_whole_demo() -> None:
    """It trains, and the link that closes a triangle scores higher than the one that does not."""
    found = json.loads(call_cawn("demo", "--json").out)["training"]
    good, bad = (row["probability"] for row in found["scored"])
    assert good > bad + 0.2
