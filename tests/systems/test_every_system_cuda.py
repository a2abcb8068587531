"""What every system promises on a GPU."""

from itertools import islice

import numpy as np
import pytest
import torch

import cawn
from systems.small_settings import small
from systems.test_every_system import UNTRAINED, case, every_system
from tolerances import assert_same_scores

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]


def on_gpu(name: str, **changes: object) -> cawn.Trainer:
    return cawn.Trainer(case(name).without_ties, small(name, **changes), quiet=True, device="cuda")


@every_system
def test_scores_on_a_gpu_are_those_of_the_cpu(name: str) -> None:
    system, events = case(name).system, case(name).events
    asked = case(name).pairs(events)
    other = on_gpu(name).system
    other.module.load_state_dict(system.module.state_dict())
    assert_same_scores(other.scorer(events)(*asked), system.scorer(events)(*asked))


@every_system
def test_training_on_a_gpu_follows_that_on_the_cpu(name: str) -> None:
    """Without dropout, up to rounding, which grows from step to step."""
    if name in UNTRAINED:
        pytest.skip("nothing is trained")
    changes = {key: 0.0 for key in ("dropout", "node_dropout") if hasattr(small(name), key)}
    host = cawn.Trainer(case(name).without_ties, small(name, **changes), quiet=True, device="cpu")
    device = on_gpu(name, **changes)
    device.system.module.load_state_dict(host.system.module.state_dict())
    losses = [[float(loss) for loss in islice(trainer.steps(0, 0), 5)] for trainer in (host, device)]
    np.testing.assert_allclose(losses[1], losses[0], rtol=2e-3, atol=1e-4)


@every_system
def test_a_seed_is_a_run_on_a_gpu(name: str) -> None:
    found = []
    for _ in range(2):
        trainer = on_gpu(name)
        list(trainer.steps(0, 0))
        found.append([value.cpu() for value in trainer.system.module.state_dict().values()])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
