"""What a score would be without some of the walks: exact, since it is the network itself that is asked.

A walk is left out of what is pooled; the relative identities stay as all walks gave them. Where the logit is a sum over
walks (mean pooling, linear head) that sum is left without the walk's term, so terms add up to the logit. Elsewhere the
mean is taken over the walks that remain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.explain.leaves import Leaves
from cawn.kernels.cpu.prefixes import Level
from cawn.systems.cawn.config import Config
from cawn.systems.cawn.features import Batch
from cawn.systems.cawn.system import WalkScorer

Array = npt.NDArray[Any]

_PAIRS_AT_ONCE = 1024


def adds_up(config: Config) -> bool:
    """Whether a model's logit is a sum over walks."""
    return config.head == "linear" and config.pooling == "mean" and config.sides != "symmetric"


def effects(
    scorer: WalkScorer, config: Config, batch: Batch, leaves: Leaves, part: Array
) -> tuple[Array, Array, Array]:
    """What each part of the walks adds to its pair's logit.

    Args:
        part: [n] the part each leaf belongs to, from 0; a part belongs to one pair.

    Returns:
        The effect of each part and the pair it belongs to [parts], and the logits of all pairs [B].
    """
    whole = np.concatenate([scorer.logits_of(some) for some in _pieces(batch)])
    pair = np.zeros(int(part.max()) + 1, np.int64)
    pair[part] = leaves.pair
    of_row = [np.full(len(level.owner), -1, np.int64) for level in batch.levels]  # -1 where no walk ends
    for i, numbers in enumerate(of_row):
        here = leaves.level == i
        numbers[leaves.row[here]] = part[here]
    spans = (range(first, min(first + _PAIRS_AT_ONCE, len(pair))) for first in range(0, len(pair), _PAIRS_AT_ONCE))
    rest = np.concatenate(
        [scorer.logits_of(_without(batch, pair[span], np.array(span), of_row, config)) for span in spans]
    )
    return whole[pair] - rest, pair, whole


def without_walks(scorer: WalkScorer, batch: Batch) -> Array:
    """The logits where no walk is pooled at all: [B]."""
    bare = replace(batch, levels=[level._replace(weight=np.zeros_like(level.weight)) for level in batch.levels])
    return scorer.logits_of(bare)


def repeated(batch: Batch, pairs: Array) -> tuple[Batch, list[Array]]:
    """A batch of these pairs of a batch, in any order and number; and the rows of each level that it is made of."""
    starts = [np.searchsorted(level.owner, 2 * np.arange(batch.num_pairs + 1)) for level in batch.levels]
    levels, rows, moved = [], [], np.zeros(len(pairs), np.int64)
    for level, start in zip(batch.levels, starts, strict=True):
        sizes = (start[1:] - start[:-1])[pairs]
        begins = np.cumsum(sizes) - sizes
        copy = np.repeat(np.arange(len(pairs)), sizes)
        at = np.arange(sizes.sum()) + (start[pairs] - begins)[copy]
        chosen = Level(*(None if field is None else field[at] for field in level))
        levels.append(chosen._replace(owner=2 * copy + (chosen.owner & 1), parent=chosen.parent + moved[copy]))
        rows.append(at)
        moved = begins - start[pairs]
    return replace(batch, levels=levels, rates=batch.rates[pairs]), rows


def _pieces(batch: Batch) -> Iterator[Batch]:
    for first in range(0, batch.num_pairs, _PAIRS_AT_ONCE):
        yield repeated(batch, np.arange(first, min(first + _PAIRS_AT_ONCE, batch.num_pairs)))[0]


def _without(batch: Batch, pair: Array, parts: Array, of_row: list[Array], config: Config) -> Batch:
    """For each of `parts` its pair, less the walks of the part; `of_row` has the part of each row of each level."""
    copies, rows = repeated(batch, pair)
    gone = [
        numbers[at] == parts[level.owner >> 1] for numbers, at, level in zip(of_row, rows, copies.levels, strict=True)
    ]
    scale = np.ones(2 * len(parts))  # of what remains of each walk set
    if not adds_up(config):
        lost = np.zeros(2 * len(parts))
        for level, mask in zip(copies.levels, gone, strict=True):
            lost += np.bincount(level.owner[mask], weights=level.weight[mask], minlength=len(lost))
        if config.sides == "joint":
            lost = np.repeat(lost.reshape(-1, 2).mean(axis=1), 2)
        scale = 1 / np.maximum(1 - lost, 1e-6)
    levels = [
        level._replace(weight=np.where(mask, 0, level.weight * scale[level.owner]).astype(np.float32))
        for level, mask in zip(copies.levels, gone, strict=True)
    ]
    return replace(copies, levels=levels)
