"""Several processes train one system: as one process does, whatever happens to one of them."""

from pathlib import Path

import numpy as np
import pytest

import ranks_driver
from cawn.learn.ranks import cuts, place
from cawn.learn.runs import read_description
from ctrl_c import stopped_after

NEAR = {"rel": 2e-5}  # float rounding, over 34 steps


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict:
    """What one process finds."""
    folder = tmp_path_factory.mktemp("alone")
    return {
        "losses": {name: ranks_driver.losses(config) for name, config in ranks_driver.LOSSES.items()},
        "whole": ranks_driver.figures(ranks_driver.trained(folder / "whole")),
    }


@pytest.fixture(scope="module", params=[2, 4])
def together(request, tmp_path_factory) -> tuple[dict, Path]:
    """What several processes find, one of which is killed at the end."""
    folder = tmp_path_factory.mktemp("together")
    with stopped_after(ranks_driver.STOPPED_AFTER):
        ranks_driver.trained(folder / "part")
    return ranks_driver.started(request.param, folder, *["losses"] * (request.param == 2)), folder


def assert_same_figures(found: dict, expected: dict) -> None:
    for mine, theirs in zip(found["epochs"], expected["epochs"], strict=True):
        assert mine == pytest.approx(theirs, **NEAR)
    for mine, theirs in zip(found["results"], expected["results"], strict=True):
        assert mine["digest"] == theirs["digest"]
        assert mine["model"] == pytest.approx(theirs["model"], abs=2e-4)  # a few pairs may change places
        assert mine["rules"] == theirs["rules"]


def test_losses_are_those_of_one_process(alone, together) -> None:
    found, _ = together
    for name, losses in found.get("losses", {}).items():
        assert losses == pytest.approx(alone["losses"][name], **NEAR), name


def test_a_run_is_that_of_one_process(alone, together) -> None:
    assert_same_figures(together[0]["whole"], alone["whole"])


def test_a_run_of_one_process_is_resumed_by_several(alone, together) -> None:
    assert_same_figures(together[0]["resumed"], alone["whole"])


def test_ctrl_c_on_one_rank_stops_all_and_one_process_resumes(alone, together) -> None:
    found, folder = together
    assert found["stopped"]
    resumed = ranks_driver.trained(folder / "stopped", resume=True)
    assert_same_figures(ranks_driver.figures(resumed), alone["whole"])


def test_a_killed_rank_leaves_a_checkpoint(alone, together) -> None:
    """Rank 1 of 2, then rank 0 of 4, whose folder another rank takes over."""
    found, folder = together
    killed = 1 if len(found["codes"]) == 2 else 0
    assert found["codes"][killed] == -9
    messages = [errors.strip().splitlines()[-1] for i, errors in enumerate(found["errors"]) if i != killed]
    assert all("another rank has ended; stopped in epoch 1/2, step" in message for message in messages), messages
    assert all("to resume: cawn train --resume" in message for message in messages), messages
    resumed = ranks_driver.trained(folder / "killed", resume=True)
    assert_same_figures(ranks_driver.figures(resumed), alone["whole"])


def test_refusals(together) -> None:
    found, folder = together
    if "refused" in found:
        assert "tgn keeps a state" in found["refused"][0]
        assert found["differing"].startswith("rank 1 differs from rank 0 in the links, the setting lr; start")
    assert read_description(folder / "whole")["system"] == "cawn"


def test_cuts_are_even_and_keep_the_pairs_of_a_source_together() -> None:
    src, t = np.repeat(np.arange(10), 10), np.zeros(100)
    assert cuts(src, t, 3) == [0, 40, 70, 100]
    assert cuts(np.zeros(9), np.zeros(9), 3) == [0, 3, 6, 9]
    assert cuts(np.arange(2), np.arange(2), 4) == [0, 0, 1, 1, 2]
    assert cuts(np.empty(0), np.empty(0), 2) == [0, 0, 0]


def test_the_place_of_a_process(monkeypatch) -> None:
    assert place() is None
    for name, value in {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert place() == {"rank": 3, "world_size": 4, "local_rank": 1, "local_world_size": 4}
