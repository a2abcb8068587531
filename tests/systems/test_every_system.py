"""Every system of the registry keeps the promises of `cawn.testing`."""

from functools import lru_cache

import pytest
import torch

from cawn import systems
from cawn.testing import PROMISES, Case, random_network
from systems.small_settings import NAMES, small

UNTRAINED = {name for name in NAMES if not systems.entry(name).trained}

every_system = pytest.mark.parametrize("name", NAMES)


@lru_cache(maxsize=64)
def case(name: str) -> Case:
    torch.manual_seed(0)
    return Case(small(name, lr=0.01), random_network())


@pytest.mark.parametrize("promise", PROMISES)
@every_system
def test_every_promise_is_kept(name: str, promise: str) -> None:
    PROMISES[promise](case(name))
