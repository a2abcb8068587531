"""`cawn info`."""

import json
import shutil
from pathlib import Path

import pytest

from cawn.data.hashing import write_sealed
from cawn.learn.plots import can_draw
from cawn.learn.run_info import run_info
from cawn.serve.store import LiveStore
from command_line import assert_refused, call_cawn


def test_as_text_and_as_json(trained: Path, tmp_path: Path) -> None:
    found = call_cawn("info", trained / "run", "--json")
    assert (found.code, found.err) == (0, "")
    assert json.loads(found.out) == run_info(trained / "run") | {"live": None}
    shown = call_cawn("info", trained / "run")
    assert (shown.code, shown.err) == (0, "")
    assert "400 links, 30 nodes" in shown.out
    assert "src rater; dst ratee; time when" in shown.out
    assert_refused(call_cawn("info", tmp_path), "holds no run")


def test_checksums_of_a_run(trained: Path, tmp_path: Path) -> None:
    run = shutil.copytree(trained / "run", tmp_path / "run")
    assert call_cawn("info", run, "--verify").code == 0
    path = next(run.glob("network-*/src.npy"))
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    assert_refused(call_cawn("info", run, "--verify"), "src.npy: missing or damaged")


def test_the_state_of_a_server(run: Path, tmp_path: Path) -> None:
    assert "live" not in call_cawn("info", run).out
    LiveStore(tmp_path / "state").close()
    assert "0 links, 0 nodes" in call_cawn("info", run, "--state", tmp_path / "state").out
    LiveStore(run / "live").close()
    assert json.loads(call_cawn("info", run, "--json").out)["live"]["folder"] == str(run / "live")


@pytest.mark.skipif(not can_draw(), reason="matplotlib is not installed")
def test_reliability_diagram(trained: Path, tmp_path: Path) -> None:
    drawn = tmp_path / "reliability.svg"
    assert call_cawn("info", trained / "run", "--plot", drawn).code == 0
    assert "fitted on validation links: ECE" in drawn.read_text()


def test_a_run_of_a_former_format(trained: Path, tmp_path: Path) -> None:
    run = shutil.copytree(trained / "run", tmp_path / "run")
    write_sealed(run / "run.json", json.loads((run / "run.json").read_text()) | {"format": 4, "cawn": "0.1"})
    for command in ("info", "serve"):
        assert_refused(call_cawn(command, run), "in format 4, and this one reads format 5; the run must be")


def test_an_estimate_of_an_index_that_does_not_exist() -> None:
    options = ("--estimate", "links=3e5,nodes=1e4", "--estimate", "pairs=1e5", "--set", "alpha=0.1", "--json")
    found, small = (json.loads(call_cawn("info", *options, "--memory", limit).out) for limit in ("4GiB", "20MiB"))
    assert (found["links"], found["nodes"], found["pairs"], found["decays"]) == (300_000, 10_000, 100_000, 1)
    assert found["disk"] == small["disk"] > 300_000 * 100
    assert found["temporary"] == 0 < small["temporary"]
    assert found["seconds"] > 0
    assert "300,000 links" in call_cawn("info", *options[:-1]).out
    for options, message in (
        (("--estimate", "nodes=3"), "--estimate lacks links=N"),
        (("--estimate", "links=many"), "--estimate is 'links=many'"),
        (("--estimate", "links=2e9"), "one index holds fewer than 2**30"),
        (("--estimate", "links=9", "--system", "tgn"), "has no index"),
        ((), "give either RUN, a run or index folder, or --estimate links=N"),
    ):
        assert_refused(call_cawn("info", *options), message)
