"""What walks add is what the network says without them, computed again by hand."""

import numpy as np
import pytest
import torch

import cawn
from cawn.data.names import NameIndex
from cawn.explain.distinct_walks import distinct_walks
from cawn.explain.leave_out import group_contributions, logits_without_walks, select_pairs
from cawn.explain.link import explain_link
from cawn.learn.calibration import Calibration
from cawn.systems.cawn.model import CAWN
from cawn.systems.cawn.system import WalkScorer
from networks import random_events
from small_cawn import random_scorer
from tolerances import SCORES, assert_same_scores

M = 12


def made(**changes: object) -> tuple[WalkScorer, CAWN, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    config = cawn.Config(**{"num_walks": M, "dim": 8} | changes)
    events = random_events(3, num_nodes=10, num_links=150)
    scorer = random_scorer(config, events, (0.05, 1.0), noise=0.2)
    rng = np.random.default_rng(4)
    src, dst = rng.integers(0, 10, (2, 5))
    ends = src, dst, np.append(rng.choice(events.t, 4), events.t[0])  # the last has no history
    return scorer, scorer._system.module.eval(), ends


def test_leaves_are_the_walks_that_were_sampled() -> None:
    scorer, _, (src, dst, t) = made()
    batcher = scorer.batcher
    batch = batcher.trace(src, dst, t, seed=7)
    leaves = distinct_walks(batch)
    sets = [batcher.history.sample(nodes, t, num_walks=M, length=2, seed=7) for nodes in (src, dst)]
    shapes = cawn.walk_shapes(cawn.anonymize(*sets))  # [B, 2, M, L, 2]
    shapes = np.where(np.isinf(shapes), 3, shapes)
    for side, walks in enumerate(sets):
        orders = cawn.anonymize_each(walks)
        for b in range(len(src)):
            mine = np.flatnonzero((leaves.pair == b) & (leaves.side == side))
            assert leaves.count[mine].sum() == M
            for i in mine:
                same = (walks.events[b] == leaves.events[i]).all(axis=1)
                assert same.sum() == leaves.count[i]
                k = int(np.flatnonzero(same)[0])
                assert np.array_equal(walks.nodes[b, k], leaves.nodes[i])
                assert np.array_equal(shapes[b, side, k], leaves.shapes[i])
                assert np.array_equal(orders[b, k], leaves.orders[i])
                assert leaves.level[i] == (walks.nodes[b, k] >= 0).sum() - 1


@pytest.mark.parametrize("changes", [{}, {"pooling": "attention"}, {"rnn": "gru", "sides": "joint"}], ids=str)
def test_pairs_may_be_repeated_in_any_order(changes: dict) -> None:
    scorer, _, ends = made(**changes)
    batcher = scorer.batcher
    batch = batcher.trace(*ends, seed=7)
    again, _ = select_pairs(batch, np.array([3, 0, 3, 4, 1]))
    expected = scorer.logits_of(batch)
    assert_same_scores(scorer.logits_of(again), expected[[3, 0, 3, 4, 1]])


@pytest.mark.parametrize("sides", ["separate", "joint"])
@pytest.mark.parametrize("pooling", ["mean", "attention"])
def test_left_out_by_hand(sides: str, pooling: str) -> None:
    """Encodings of the remaining walks, pooled again and given to the head."""
    scorer, model, ends = made(sides=sides, pooling=pooling)
    batcher = scorer.batcher
    batch = batcher.trace(*ends, seed=7)
    leaves = distinct_walks(batch)
    found, pair, whole = group_contributions(scorer, batch, leaves, np.arange(len(leaves.pair)))
    np.testing.assert_array_equal(pair, leaves.pair)
    tensors = batch.to("cpu")
    with torch.no_grad():
        states = model.walks(tensors)
        known = model.from_rates(tensors.rates)
        for left in range(len(leaves.pair)):
            pooled = []
            for which in ((0,), (1,)) if sides == "separate" else ((0, 1),):
                walks = [
                    states[leaves.level[i]][leaves.row[i]].expand(int(leaves.count[i]), -1)
                    for i in np.flatnonzero(leaves.pair == leaves.pair[left])
                    if leaves.side[i] in which and i != left
                ]
                rows = torch.cat(walks) if walks else None
                if rows is None:
                    pooled.append(torch.zeros(8))
                else:
                    pooled.append(rows.mean(0) if model.attention is None else model.attention(rows[None])[0])
            logit = model.head(torch.cat([*pooled, known[leaves.pair[left]]])[None]).item()
            assert found[left] == pytest.approx(whole[leaves.pair[left]] - logit, abs=2 * SCORES)


@pytest.mark.parametrize("changes", [{}, {"sides": "joint"}, {"rates": False}, {"rnn": "transformer"}], ids=str)
def test_shares_of_a_linear_head_add_up(changes: dict) -> None:
    scorer, _, (src, dst, t) = made(head="linear", **changes)
    for b in range(4):
        ends = (src[[b]], dst[[b]], t[[b]])
        why = explain_link(scorer, NameIndex.of(np.arange(10)), Calibration(), ends, draws=2, prior=0.5)
        assert why.method == "additive"
        total = why.base + (why.rates or 0.0) + sum(walk.contribution for walk in why.walks)
        assert_same_scores(total, why.logit)
        assert_same_scores(why.logit, scorer(*ends)[0])


def test_without_any_walk() -> None:
    scorer, model, ends = made(head="linear", rates=False)
    bare = logits_without_walks(scorer, scorer.batcher.pairs(*ends, seed=1))
    assert_same_scores(bare, model.head.bias.item())


def test_times_beyond_all_reason_stay_finite() -> None:
    events = random_events(3, num_nodes=10, num_links=150, dtype=np.float64)
    scorer = random_scorer(cawn.Config(num_walks=M, dim=8), events, (0.05, 1.0))
    ends = np.array([1]), np.array([2]), np.array([1e305])
    why = explain_link(scorer, NameIndex.of(np.arange(10)), Calibration(), ends, draws=2, prior=0.5)
    assert np.isfinite([why.probability, why.logit, why.base, why.rates]).all()


def test_very_long_walks_have_shapes() -> None:
    scorer, _, (src, dst, t) = made(length=200)
    batcher = scorer.batcher
    batch = batcher.trace(src, dst, t, seed=7)
    leaves = distinct_walks(batch)
    assert leaves.shapes.max() == 201
    assert leaves.shapes.min() == -1
