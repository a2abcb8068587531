"""The features of pairs on a GPU are those of the CPU."""

import numpy as np
import pytest
import torch

from cawn.index.cuda import DevicePairFeatures, place_index
from cawn.index.features import NO_SEQUENCES, PairFeatures, PairParts
from cawn.index.index import Index
from networks import queries, random_events

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value")]

ALPHAS, UNIT = np.array([0.0, 0.003, 0.05, 2.0, 40.0]), 2e-4
PARTS = (
    PairParts(),
    PairParts(**NO_SEQUENCES),
    PairParts(directed=False, **NO_SEQUENCES),
    PairParts(rates=False, transitions=False),
    PairParts(rates=False, since=False, two_steps=False),
)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_the_same_features_on_a_gpu(gpu, dtype: type, parts: PairParts) -> None:
    """Lists of many blocks, of less than one, and of none; nodes without links; ids that are unknown; no links."""
    events = random_events(5, num_nodes=12, num_links=300, dtype=dtype)
    u, t = queries(events, 4, 20)
    v = np.random.default_rng(0).integers(-1, events.num_nodes + 2, 20)
    for indexed in (events, events[:0]):
        index = Index.of(indexed, ALPHAS, parts.kinds, parts.decay(UNIT))
        out = torch.full((20, parts.width(len(ALPHAS))), 7.0, device=gpu)
        asked = (torch.from_numpy(array).to(gpu) for array in (u, v, t, np.array([UNIT])))
        DevicePairFeatures(parts, place_index(index, gpu)).fill(*asked, out)
        expected = PairFeatures(parts, index, UNIT).features(u, v, t)
        np.testing.assert_allclose(out.cpu().numpy(), expected, rtol=1e-6, atol=1e-7)
