"""Lists of partners, against a slow twin."""

import numpy as np
import pytest

from cawn.kernels.cpu.partners import list_partners


@pytest.mark.parametrize("slots", [1, 3, 20])
@pytest.mark.parametrize("seed", range(3))
def test_lists_of_partners(slots: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    num_nodes, n = 7, 80
    src, dst = rng.integers(0, num_nodes, (2, n))
    moments = np.sort(rng.integers(0, 50, n))
    partners, newest = np.full((2, num_nodes, slots), -1)
    before, writer = np.empty((2, 2 * n, slots), np.int64)
    sizes = np.empty((2 * n, 2), np.int64)
    for first, last in ((0, np.searchsorted(moments, 25)), (np.searchsorted(moments, 25), n)):  # in two parts
        part, messages = slice(first, last), slice(2 * first, 2 * last)
        args = src[part], dst[part], moments[part], first, partners, newest
        list_partners(*args, before[messages], writer[messages], sizes[messages])
        writer[messages] += np.where(writer[messages] >= 0, 2 * first, 0)

    lists: dict[int, dict[int, int]] = {v: {} for v in range(num_nodes)}  # the last link with each partner
    for moment in np.unique(moments):
        links = np.flatnonzero(moments == moment)
        old = {node: set(held) for node, held in lists.items()}
        written: dict[int, dict[int, int]] = {}  # the last message about each partner
        for e in links:
            for side, (node, other) in enumerate(((src[e], dst[e]), (dst[e], src[e]))):
                m, held = 2 * e + side, lists[node]
                assert set(before[m][before[m] >= 0]) == old[other]
                if other not in held and len(held) == slots:
                    oldest = min(held, key=held.__getitem__)
                    del held[oldest]
                    written.get(node, {}).pop(oldest, None)
                held[other] = e
                written.setdefault(node, {})[other] = m
                assert set(writer[m][writer[m] >= 0]) == set(written[node].values())
                assert sizes[m].tolist() == [len(old[node]), len(held)]
    for node, held in lists.items():
        assert {p: e for p, e in zip(partners[node], newest[node], strict=True) if p >= 0} == held
