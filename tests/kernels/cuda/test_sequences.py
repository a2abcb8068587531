"""Features from the sequences of links on a GPU are those of the CPU."""

import numpy as np
import pytest
import torch
from cawn.walks.rates import Rates
from cawn.walks.sequences import SequenceParts as Parts
from cawn.walks.sequences import Sequences

import cawn
from cawn.kernels.cuda.sequences import sequence_features
from cawn.walks.cuda import DeviceSequences
from networks import queries, random_events

ALPHAS = (0.0, 0.05, 2.0)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value")
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("parts", [Parts(), Parts(False, True, False), Parts(True, False, True)])
def test_the_same_features_on_a_gpu(gpu, dtype: type, parts: Parts) -> None:
    events = random_events(5, num_links=150, dtype=dtype)
    u, t = queries(events, 4, 40)
    pairs = Rates(events, cawn.History(events, ALPHAS), directed=False).pairs
    v, index = np.roll(u, 9), Sequences.of(events, pairs, 2e-4)
    device, width = DeviceSequences(index, parts, gpu), parts.width(len(ALPHAS))
    out = torch.full((40, 3 + 2 * width), 7.0, device=gpu)
    ends = (torch.from_numpy(nodes.astype(np.int64)).to(gpu) for nodes in (u, v))
    sequence_features(device.index, *ends, torch.from_numpy(t).to(gpu), out, column=3, **device.constants)
    expected = np.concatenate([index.features(u, v, t, parts), index.features(v, u, t, parts)], axis=1)
    np.testing.assert_allclose(out[:, 3:].cpu().numpy(), expected, rtol=1e-5, atol=1e-6)
    assert (out[:, :3] == 7).all()
