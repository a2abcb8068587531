"""Negatives drawn on the device are those of the CPU."""

import numpy as np
import pytest
import torch

from cawn.caw.kernels.cuda.negatives import DeviceChoices
from cawn.learn.negatives import choices
from networks import random_events

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:overflow encountered")]


def test_negatives_are_those_of_the_cpu(gpu) -> None:
    events = random_events(1, num_nodes=15, num_links=500, span=60)
    links = np.sort(np.random.default_rng(2).permutation(400)[:150])
    visible = np.random.default_rng(3).random(len(events)) < 0.9
    visible[links] = True
    random, historical = (
        choices(events, links, kind, seen=links[:20], visible=visible) for kind in ("random", "historical")
    )
    assert 0 < np.mean(historical.count == 0) < 0.5
    for seed in (1, 2**62 + 5):
        key = torch.tensor([seed], device=gpu)
        expected = [one.draw(seed) for one in (random, historical)]
        found = [DeviceChoices(one, gpu).draw(key) for one in (random, historical)]
        for mine, theirs in zip(found, expected, strict=True):
            assert np.array_equal(mine.cpu().numpy(), theirs)
        either = DeviceChoices(historical, gpu).draw(key, fallback=found[0])
        assert np.array_equal(either.cpu().numpy(), np.where(expected[1] >= 0, *expected[::-1]))
