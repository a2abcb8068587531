"""The same question: bit-equal in the same batch, within `tolerances.SCORES` in every other; see docs/evaluation.md."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

import cawn
from networks import random_events
from small_cawn import random_scorer
from tolerances import assert_same_scores

PAIRS = 1_000
Ask = Callable[[np.ndarray], np.ndarray]


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(count):
            yield
    finally:
        torch.set_num_threads(before)


def asking(changes: dict[str, object]) -> Ask:
    """Gives the logits of the pairs of these numbers, by a model with random weights well away from zero."""
    config = cawn.Config(**{"num_walks": 8, "dim": 16, "frequencies": 4} | changes)
    events = random_events(1, num_nodes=30, num_links=600, span=300)
    scorer = random_scorer(config, events, (0.01, 0.1))
    draw = np.random.default_rng(2)
    src, dst = draw.integers(0, 32, (2, PAIRS))  # two of them have no history
    t = draw.integers(0, 310, PAIRS)
    return lambda rows: scorer.logits(src[rows], dst[rows], t[rows], seed=3)


def in_batches(ask: Ask, rows: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([ask(rows[i : i + size]) for i in range(0, len(rows), size)])


MODELS = [{}, {"rnn": "gru"}, {"rnn": "transformer"}, {"pooling": "attention"}, {"rnn": "bidirectional"}]


@pytest.mark.parametrize("changes", MODELS, ids=str)
def test_the_same_question(changes: dict[str, object]) -> None:
    ask, rows = asking(changes), np.arange(PAIRS)
    truth = ask(rows)
    assert np.ptp(truth) > 0.5
    order = np.random.default_rng(0).permutation(PAIRS)
    for count in (1, 2):
        with threads(count):
            for size in (1, 7, 64, PAIRS):
                some = rows[: 10 * size]
                found = in_batches(ask, some, size)
                assert_same_scores(found, truth[some])
                np.testing.assert_array_equal(found, in_batches(ask, some, size))
            assert_same_scores(ask(order), truth[order])
