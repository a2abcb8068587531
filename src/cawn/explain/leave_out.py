"""The contribution of walks to a score: their terms of the logit, or its change without them.

If the logit is a sum over walks (mean pooling, linear head), contributions are terms of the sum, and add up to the
logit. Otherwise the network is evaluated again without the walks: they are left out of the pooling, and the mean is
taken over the remaining ones; relative identities are still counted over all walks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.explain.distinct_walks import DistinctWalks
from cawn.kernels.cpu.prefixes import Level
from cawn.systems.cawn.config import Config
from cawn.systems.cawn.features import Batch
from cawn.systems.cawn.system import WalkScorer

Array = npt.NDArray[Any]

_PAIRS_PER_CHUNK = 1024


def is_additive(config: Config) -> bool:
    """Whether the logit is a sum over walks."""
    return config.head == "linear" and config.pooling == "mean" and config.sides != "symmetric"


def group_contributions(
    scorer: WalkScorer, batch: Batch, walks: DistinctWalks, group: Array
) -> tuple[Array, Array, Array]:
    """How much each group of walks contributes to the logit of its pair.

    Args:
        group: [n] the group of each distinct walk, from 0; the walks of a group belong to one pair.

    Returns:
        The contribution of each group and its pair [groups], and the logits of all pairs [B].
    """
    logits = np.concatenate(
        [scorer.logits_of(select_pairs(batch, pairs)[0]) for pairs in _chunks(np.arange(batch.num_pairs))]
    )
    pair = np.zeros(int(group.max()) + 1, np.int64)
    pair[group] = walks.pair
    row_groups = [np.full(len(level.owner), -1, np.int64) for level in batch.levels]  # -1 where no walk ends
    for i, groups in enumerate(row_groups):
        here = walks.level == i
        groups[walks.row[here]] = group[here]
    if is_additive(scorer.config):
        return _sums(scorer, batch, pair, row_groups), pair, logits
    remaining = [
        scorer.logits_of(_without(batch, pair[groups], groups, row_groups, scorer.config))
        for groups in _chunks(np.arange(len(pair)))
    ]
    return logits[pair] - np.concatenate(remaining), pair, logits


def logits_without_walks(scorer: WalkScorer, batch: Batch) -> Array:
    """The logits if no walk is pooled at all: [B]."""
    bare = replace(batch, levels=[level._replace(weight=np.zeros_like(level.weight)) for level in batch.levels])
    return scorer.logits_of(bare)


def select_pairs(batch: Batch, pairs: Array) -> tuple[Batch, list[Array]]:
    """A batch of these pairs, in any order and possibly repeated, and the rows of each level they come from."""
    starts = [np.searchsorted(level.owner, 2 * np.arange(batch.num_pairs + 1)) for level in batch.levels]
    levels, rows, offset = [], [], np.zeros(len(pairs), np.int64)
    for level, start in zip(batch.levels, starts, strict=True):
        sizes = (start[1:] - start[:-1])[pairs]
        begins = np.cumsum(sizes) - sizes
        copy = np.repeat(np.arange(len(pairs)), sizes)
        at = np.arange(sizes.sum()) + (start[pairs] - begins)[copy]
        chosen = Level(*(None if field is None else field[at] for field in level))
        levels.append(chosen._replace(owner=2 * copy + (chosen.owner & 1), parent=chosen.parent + offset[copy]))
        rows.append(at)
        offset = begins - start[pairs]
    return replace(batch, levels=levels, pair_features=batch.pair_features[pairs]), rows


def _chunks(numbers: Array) -> list[Array]:
    return [numbers[first : first + _PAIRS_PER_CHUNK] for first in range(0, len(numbers), _PAIRS_PER_CHUNK)]


def _sums(scorer: WalkScorer, batch: Batch, pair: Array, row_groups: list[Array]) -> Array:
    """What each group adds to a logit that is a sum over walks: [groups]. Every walk is encoded once."""
    levels = [
        level._replace(owner=2 * np.maximum(groups, 0) + (level.owner & 1))  # no walk ends at a row without a group
        for level, groups in zip(batch.levels, row_groups, strict=True)
    ]
    by_group = replace(batch, levels=levels, pair_features=batch.pair_features[pair])
    return scorer.logits_of(by_group) - logits_without_walks(scorer, batch)[pair]


def _without(batch: Batch, pair: Array, groups: Array, row_groups: list[Array], config: Config) -> Batch:
    """The pair of each group without its walks; `row_groups` has the group of each row of each level."""
    copies, rows = select_pairs(batch, pair)
    left_out = [
        of_rows[at] == groups[level.owner >> 1]
        for of_rows, at, level in zip(row_groups, rows, copies.levels, strict=True)
    ]
    lost = np.zeros(2 * len(groups))
    for level, mask in zip(copies.levels, left_out, strict=True):
        lost += np.bincount(level.owner[mask], weights=level.weight[mask], minlength=len(lost))
    if config.sides == "joint":
        lost = np.repeat(lost.reshape(-1, 2).mean(axis=1), 2)
    scale = 1 / np.maximum(1 - lost, 1e-6)  # of the remaining walks of each side
    levels = [
        level._replace(weight=np.where(mask, 0, level.weight * scale[level.owner]).astype(np.float32))
        for level, mask in zip(copies.levels, left_out, strict=True)
    ]
    return replace(copies, levels=levels)
