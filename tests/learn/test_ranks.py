"""Several processes train one system: as one process does, whatever happens to one of them."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import cawn
import ranks_driver
from cawn.learn.ranks import cuts, place, prints, share_links
from cawn.systems.ranks import Ranks

NEAR = {"rel": 2e-5}  # float rounding, over 24 steps


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict:
    """What one process, two and four ranks find; see `ranks_driver`."""
    folder = tmp_path_factory.mktemp("ranks")
    modules = os.pathsep.join(path for path in sys.path if path)
    environment = os.environ | {"PYTHONPATH": modules, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, ranks_driver.__file__, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "found.json").read_text()) | {"folder": folder}


def assert_same_figures(found: dict, expected: dict, *, baselines: bool = False) -> None:
    for mine, theirs in zip(found["epochs"], expected["epochs"], strict=True):
        assert mine == pytest.approx(theirs, **NEAR)
    for mine, theirs in zip(found["results"], expected["results"], strict=True):
        assert mine["digest"] == theirs["digest"]
        assert mine["model"] == pytest.approx(theirs["model"], abs=2e-4)  # a few pairs may change places
        assert not baselines or mine["baselines"] == theirs["baselines"]


@pytest.mark.parametrize("count", ["2", "4"])
def test_losses_are_those_of_one_process_on_all_ranks(found, count: str) -> None:
    for rank in found[count]["ranks"]:
        for name, losses in rank["losses"].items():
            assert losses == pytest.approx(found["losses"][name], **NEAR), name


def test_a_run_is_that_of_one_process_on_all_ranks(found) -> None:
    for rank in found["2"]["ranks"]:
        assert_same_figures(rank["whole"], found["whole"], baselines=True)
        assert_same_figures(rank["clock"], found["clock"])


def test_a_run_of_one_process_is_resumed_by_several(found) -> None:
    """Rank 0 is killed later, after it has written this."""
    assert_same_figures(found["4"]["ranks"][0]["resumed"], found["whole"])


@pytest.mark.parametrize("count", ["2", "4"])
def test_ctrl_c_on_one_rank_stops_all_and_one_process_resumes(found, count: str) -> None:
    assert [rank["stopped"] for rank in found[count]["ranks"]] == ["Stopped: "] * int(count)
    assert_same_figures(found[count]["resumed"]["stopped"], found["whole"])


@pytest.mark.parametrize("count", [2, 4])
def test_a_killed_rank_leaves_a_checkpoint(found, count: int) -> None:
    """Rank 1 of 2; and rank 0 of 4, whose folder one of the others takes over."""
    together, folder = found[str(count)], found["folder"] / f"killed-{count}"
    killed = ranks_driver.KILLED[count]
    assert together["codes"] == [-9 if rank == killed else 0 for rank in range(count)]
    how = f"; to resume: cawn train --resume -o {folder}, or resume=True"
    steps = ("7", "8")  # the last message of a killed process may be lost
    messages = [f"RankError: another rank has exited; stopped in epoch 1/2, step {step}{how}" for step in steps]
    for rank in (rank for i, rank in enumerate(together["ranks"]) if i != killed):
        assert rank["killed"] in messages
    assert_same_figures(together["resumed"]["killed"], found["whole"])


def test_refusals_are_the_same_on_all_ranks(found) -> None:
    for rank in found["2"]["ranks"]:
        assert "QueryError: tgn cannot be trained by several processes" in rank["tgn"]
        expected = "QueryError: rank 1 differs from rank 0 in the links, the setting lr; start all ranks with the same"
        assert rank["differing"] == expected


def test_ranks_of_one_host_with_different_data_are_refused() -> None:
    class TwoRanks(Ranks):
        def all_gather_objects(self, value):
            return [(0, "a.csv"), (1, "b.csv")]

    with pytest.raises(cawn.QueryError, match="rank 1 differs from rank 0 in the data; start all ranks with the same"):
        share_links(TwoRanks(0, 2, 0, 2), "a.csv", lambda: pytest.fail("the data was read"))


def test_cuts_are_even_and_keep_the_pairs_of_a_source_together() -> None:
    src, t = np.repeat(np.arange(10), 10), np.zeros(100)
    assert cuts(src, t, 3) == [0, 40, 70, 100]
    assert cuts(np.zeros(9), np.zeros(9), 3) == [0, 3, 6, 9]
    assert cuts(np.arange(2), np.arange(2), 4) == [0, 0, 1, 1, 2]
    assert cuts(np.empty(0), np.empty(0), 2) == [0, 0, 0]


def test_the_place_of_a_process(monkeypatch) -> None:
    assert place() is None
    assert prints("anything")
    for name, value in {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert place() == {"rank": 3, "world_size": 4, "local_rank": 1, "local_world_size": 4}
    assert not prints("anything")
