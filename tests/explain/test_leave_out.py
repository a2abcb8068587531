"""The contribution of walks is the change of the logit without them, computed again by hand."""

import numpy as np
import pytest
import torch

from cawn.explain.distinct_walks import distinct_walks
from cawn.explain.leave_out import group_contributions, logits_without_walks, select_pairs
from cawn.walks.pairs import NO_SEQUENCES
from small_explanation import random_pairs
from tolerances import SCORES, assert_same_scores


@pytest.mark.parametrize(
    "changes", [{}, {"pooling": "attention"}, {"rnn": "gru", "sides": "joint"}, {"rnn": "bidirectional"}], ids=str
)
def test_pairs_may_be_repeated_in_any_order(changes: dict) -> None:
    scorer, _, ends = random_pairs(**changes)
    batcher = scorer.batcher
    batch = batcher.trace(*ends, seed=7)
    again, _ = select_pairs(batch, np.array([3, 0, 3, 4, 1]))
    expected = scorer.logits_of(batch)
    assert_same_scores(scorer.logits_of(again), expected[[3, 0, 3, 4, 1]])


@pytest.mark.parametrize("sides", ["separate", "joint"])
@pytest.mark.parametrize("pooling", ["mean", "attention", "transformer"])
def test_left_out_by_hand(sides: str, pooling: str) -> None:
    """Encodings of the remaining walks, pooled again and given to the head."""
    scorer, model, ends = random_pairs(sides=sides, pooling=pooling)
    batcher = scorer.batcher
    batch = batcher.trace(*ends, seed=7)
    walks = distinct_walks(batch)
    found, pair, whole = group_contributions(scorer, batch, walks, np.arange(len(walks.pair)))
    np.testing.assert_array_equal(pair, walks.pair)
    tensors = batch.to("cpu")
    with torch.no_grad():
        states = model.walks(tensors)
        known = model.from_rates(tensors.pair_features)
        for left in range(len(walks.pair)):
            pooled = []
            for which in ((0,), (1,)) if sides == "separate" else ((0, 1),):
                encodings = [
                    states[walks.level[i]][walks.row[i]].expand(int(walks.count[i]), -1)
                    for i in np.flatnonzero(walks.pair == walks.pair[left])
                    if walks.side[i] in which and i != left
                ]
                rows = torch.cat(encodings) if encodings else None
                if rows is None:
                    pooled.append(torch.zeros(8))
                else:
                    pooled.append(rows.mean(0) if model.attention is None else model.attention(rows[None])[0])
            logit = model.head(torch.cat([*pooled, known[walks.pair[left]]])[None]).item()
            assert found[left] == pytest.approx(whole[walks.pair[left]] - logit, abs=2 * SCORES)


def test_without_any_walk() -> None:
    scorer, model, ends = random_pairs(head="linear", rates=False, **NO_SEQUENCES)
    bare = logits_without_walks(scorer, scorer.batcher.pairs(*ends, seed=1))
    assert_same_scores(bare, model.head.bias.item())


@pytest.mark.parametrize("changes", [{}, {"sides": "joint", "rates": False}, {"rnn": "bidirectional"}], ids=str)
def test_terms_of_a_sum(changes: dict) -> None:
    """With a linear head, the contributions of any groups of walks add up to the logit."""
    scorer, model, ends = random_pairs(head="linear", **changes)
    batch = scorer.batcher.trace(*ends, seed=7)
    walks = distinct_walks(batch)
    each, pair, logits = group_contributions(scorer, batch, walks, np.arange(len(walks.pair)))
    weights = model.head.weight.detach().numpy()[0]
    width = 0 if scorer.config.sides == "joint" else 8
    with torch.no_grad():
        states = model.walks(batch.to("cpu"))
    for i, found in enumerate(each):
        state = states[walks.level[i]][walks.row[i]].numpy()
        share = walks.count[i] / batch.num_walks / (1 if width else 2)
        first = walks.side[i] * width
        assert found == pytest.approx(share * weights[first : first + 8] @ state, abs=2 * SCORES)
    total = np.bincount(pair, weights=each, minlength=batch.num_pairs)
    assert_same_scores(total + logits_without_walks(scorer, batch), logits)
    side, pair_of_side, _ = group_contributions(scorer, batch, walks, 2 * walks.pair + walks.side)
    assert_same_scores(np.bincount(pair_of_side, weights=side), total)
