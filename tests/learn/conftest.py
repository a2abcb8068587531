"""What the tests of learn/ train on."""

import pytest
import torch

import cawn
from cawn.data import laws
from small_runs import TINY


@pytest.fixture(scope="module")
def events() -> cawn.Events:
    return laws.triadic_closure(60, 800, seed=0).events


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def whole(events, one_thread, tmp_path_factory):
    """A run that nothing stopped."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    return cawn.train(events, TINY, seed=3, out=out, quiet=True, task=cawn.Task(negatives=("random",)))
