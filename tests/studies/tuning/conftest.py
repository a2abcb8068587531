"""A small real study that nothing stopped."""

from pathlib import Path

import pytest
import torch

import cawn
from cawn.studies.tuning import Search, tune
from cawn.studies.tuning.outcome import Tuned
from small_study import QUICK, SPACE, TRIALS, tiny_network


@pytest.fixture(scope="session")
def network() -> cawn.Events:
    return tiny_network()


@pytest.fixture(scope="session")
def tuned(network, tmp_path_factory) -> Tuned:
    pytest.importorskip("optuna")
    torch.set_num_threads(1)
    return study(network, tmp_path_factory.mktemp("tuned") / "study")


def study(network: cawn.Events, folder: Path) -> Tuned:
    options = {"trials": TRIALS, "device": "cpu", "threads": 1, "quiet": True}
    return tune(network, QUICK, search=Search(SPACE, seeds=2), out=folder, **options)
