"""`cawn info`."""

import json
from pathlib import Path

from cawn.learn.run_info import run_info
from command_line import assert_refused, call_cawn


def test_as_text_and_as_json(trained: Path, tmp_path: Path) -> None:
    found = call_cawn("info", trained / "run", "--json")
    assert (found.code, found.err) == (0, "")
    assert json.loads(found.out) == run_info(trained / "run")
    shown = call_cawn("info", trained / "run")
    assert (shown.code, shown.err) == (0, "")
    assert "400 links, 30 nodes" in shown.out
    assert "src rater; dst ratee; time when" in shown.out
    assert_refused(call_cawn("info", tmp_path), "holds no run")
