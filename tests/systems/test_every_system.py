"""Every system of the registry keeps the promises of `cawn.testing`; states and histories that are unusual."""

from functools import lru_cache

import numpy as np
import pytest

import cawn
from cawn import systems
from cawn.systems.base import HasTrainingState
from cawn.testing import PROMISES, Case, random_network
from systems.small_settings import NAMES, small

UNTRAINED = {name for name in NAMES if not systems.entry(name).trained}

STATEFUL = [name for name in NAMES if hasattr(systems.system_type(name), "training_state")]

every_system = pytest.mark.parametrize("name", NAMES)


@lru_cache(maxsize=64)
def case(name: str) -> Case:
    return Case(small(name, lr=0.01), random_network())


@pytest.mark.parametrize("promise", PROMISES)
@every_system
def test_every_promise_is_kept(name: str, promise: str) -> None:
    PROMISES[promise](case(name))


@every_system
def test_a_history_without_links_has_scores(name: str) -> None:
    scorer = case(name).scorer(cawn.Events([], [], np.empty(0, np.int64), num_nodes=3))
    assert np.isfinite(scorer(np.array([0, 1, 7]), np.array([1, 1, 2]), np.array([0, 5, 5]))).all()


@pytest.mark.parametrize("name", STATEFUL)
def test_a_state_that_does_not_fit_is_refused(name: str) -> None:
    trainer = case(name).trainer(case(name).without_ties)
    system = trainer.system
    next(trainer.steps(0, 0))
    assert isinstance(system, HasTrainingState)
    state = system.training_state()
    system.load_training_state(state)
    for key, value in state.items():
        with pytest.raises(ValueError, match=f"{key} has the wrong shape"):
            system.load_training_state(state | {key: value[:-1]})
    with pytest.raises(KeyError):
        system.load_training_state({})
