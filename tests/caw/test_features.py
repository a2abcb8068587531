"""From pairs to the input of the network: columns and their values."""

from collections import Counter

import numpy as np
import pytest

import cawn
from cawn.caw.config import Config
from cawn.caw.features import FEATURES, LOG_SCALE, Batch, Batcher, columns, input_widths
from cawn.caw.host import prefetch
from reference import walks as reference
from small_cawn import OPTIONS, SMALL, attributed, pairs


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_widths_are_those_of_the_batches(options: dict) -> None:
    config, events = Config(**SMALL, **options), attributed()
    batch = Batcher.of(config, events, (0.01, 0.2), 10.0).pairs(*pairs(), seed=1)
    x_width, pair_width = input_widths(config, events, 2)
    assert {level.x.shape[1] for level in batch.levels} == {x_width}
    assert batch.pair_features.shape == (40, pair_width)
    used = columns(config, events)
    assert list(used) == [feature.name for feature in FEATURES if feature.name in used]
    assert sum(part.stop - part.start for part in used.values()) == x_width


def test_values_by_hand() -> None:
    """Two links 0 -> 1 at 10 and 1 -> 2 at 14, seen from node 2 at 20: one walk, 2 to 1 to 0."""
    events = cawn.Events([0, 1], [1, 2], [10, 14], msg=[[5.0], [7.0]], x=[[1.0], [2.0], [3.0]])
    config = Config(num_walks=2, length=2, alpha=0.1, rates=False)
    batch = Batcher.of(config, events, (0.1,), 2.0).pairs(np.array([2]), np.array([2]), np.array([20]), seed=0)
    used = columns(config, events)
    assert list(used) == ["time", "direction", "msg", "x", "degree"]
    expected = [  # elapsed and age in units of 2, taken from source, from destination, msg, x, degree
        [[0, 0], [0, 0], [0], [3], [1]],
        [[3, 3], [0, 1], [7], [2], [1]],
        [[2, 5], [0, 1], [5], [1], [0]],
    ]
    for level, (times, direction, msg, x, degree) in zip(batch.levels, expected, strict=True):
        wanted = [*np.log1p(times) / LOG_SCALE, *direction, *msg, *x, *np.log1p(degree) / LOG_SCALE]
        for row in level.x:
            np.testing.assert_allclose(row, wanted, rtol=1e-6)
        assert set(level.elapsed) == {times[0]}
    config = config.with_(time_code="age")
    batch = Batcher.of(config, events, (0.1,), 2.0).pairs(np.array([2]), np.array([2]), np.array([20]), seed=0)
    assert [set(level.age) for level in batch.levels] == [{times[1]} for times, *_ in expected]


def events_of_walks(batch: Batch) -> Counter[tuple[int, ...]]:
    """The links of the walks of both sides of one pair, and how many walks have them."""
    found: Counter[tuple[int, ...]] = Counter()
    above: list[tuple[int, ...]] = []
    for level in batch.levels:
        paths = [(*above[p], int(e)) if above else () for p, e in zip(level.parent, level.event, strict=True)]
        for path, owner, weight in zip(paths, level.owner, level.weight, strict=True):
            found[(int(owner), *path)] += round(float(weight) * batch.num_walks)
        above = paths
    return +found


@pytest.mark.parametrize("tree", [(), (12, 1, 1), (2, 3, 2), (4, 1, 3), (2, 1, 6)], ids=str)
def test_walks_of_a_tree_are_those_of_the_reference(tree: tuple[int, ...]) -> None:
    config, events = Config(**SMALL | {"num_walks": 12, "tree": tree}), attributed()
    batcher = Batcher.of(config, events, config.alpha, 10.0)
    for u, v, t in zip(*pairs(10), strict=True):
        batch = batcher.trace(np.array([u]), np.array([v]), np.array([t]), seed=3)
        expected: Counter[tuple[int, ...]] = Counter()
        for side, node in enumerate((u, v)):
            walks = reference.sample_walks(events, config.alpha, node, t, config.widths, 3)
            expected.update((side, *(event for _, _, event in walk if event >= 0)) for walk in walks)
            for depth, width in enumerate(config.widths, start=1):
                assert len({path[: depth + 1] for path in expected if path[0] == side}) <= width
        assert events_of_walks(batch) == expected


def test_prefetching_keeps_the_order_and_passes_errors_on() -> None:
    assert list(prefetch([lambda i=i: i for i in range(9)])) == list(range(9))
    assert list(prefetch([])) == []

    def fail() -> int:
        raise ValueError("no")

    results = prefetch([lambda: 1, fail, lambda: 3])
    assert next(results) == 1
    with pytest.raises(ValueError, match="no"):
        next(results)
