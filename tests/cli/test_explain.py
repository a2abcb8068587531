"""`cawn explain`: text, JSON and pictures."""

import json
from pathlib import Path

import pytest

from command_line import call_cawn, run_cawn


def test_explain(workshop: Path, tmp_path: Path) -> None:
    link = ["explain", str(workshop / "run"), "--src", "person 1", "--dst", "person 2", "--time", "2024-04-01"]
    shown = call_cawn(*link)
    assert shown.code == 0, shown.err
    assert shown.out.startswith("A link between person 1 and person 2 at 2024-04-01 is ")
    assert "log-odds" in shown.out
    found = json.loads(call_cawn(*link, "--json", "-q").out)
    assert {walk["start"] for walk in found["walks"]} == {"src", "dst"}
    assert sum(walk["count"] for walk in found["walks"]) == 16
    total = found["base"] + sum(part["contribution"] for part in found["parts"])
    assert total == pytest.approx(found["logit"], abs=1e-6)
    assert found["time"] == "2024-04-01"
    more = call_cawn(*link, "--json", "-q", "--what-if", "--shapes", "--background", "pairs")
    more = json.loads(more.out)
    assert more["background"] == "pairs"
    assert more["what_if"]["additions"]
    assert more["shapes"]
    for kind in ("html", "svg", "png", "json"):
        for arguments in (link, ["explain", str(workshop / "run"), "--global", "--links", "50"]):
            out = tmp_path / f"{len(arguments)}.{kind}"
            done = call_cawn(*arguments, "-o", str(out))
            assert done.code == 0, done.err
            assert out.stat().st_size > 1000
            assert done.out == ""
    again = call_cawn(*link, "-o", str(tmp_path / f"{len(link)}.html"))
    assert again.code == 2
    assert "give --force" in again.err
    assert call_cawn(*link, "-o", str(tmp_path / f"{len(link)}.html"), "--force").code == 0
    assert run_cawn(*link, PYTHONIOENCODING="ascii").code == 0
    law = call_cawn("explain", str(workshop / "run"), "--global", "--links", "50")
    assert "causal anonymous walks" in law.out
    assert json.loads((tmp_path / f"{len(link)}.json").read_text()) == found


def test_options_that_do_not_fit(workshop: Path) -> None:
    link = ["explain", str(workshop / "run"), "--src", "person 1", "--dst", "person 2", "--time", "2024-04-01"]
    wrong = call_cawn(*link, "--background", "friends")
    assert (wrong.code, wrong.out) == (2, "")
    assert "background is 'friends': give one of strangers, pairs" in wrong.err
    both = call_cawn("explain", str(workshop / "run"), "--global", "--what-if", "--shapes")
    assert both.code == 2
    assert "cannot be combined with --shapes, --what-if" in both.err
