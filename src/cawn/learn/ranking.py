"""Ranks of links among many destinations.

Pairs are scored in blocks in the order of time, and pairs of one source and time are consecutive, so that a scorer can
share the work on the source. Nothing is sorted, and memory is bounded by the size of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.errors import QueryError
from cawn.learn import metrics
from cawn.learn.negatives import destinations
from cawn.progress import Report
from cawn.systems.base import Scorer

Array = npt.NDArray[Any]
Measure = Callable[[Array, Array], Array]

BLOCK = 1 << 17  # pairs scored at once
NO_CANDIDATE = -1


def rank_among(
    scorer: Scorer,
    events: Events,
    links: Array,
    candidates: Array,
    *,
    times: Array | None = None,
    measure: Measure = metrics.ranks,
    block: int = BLOCK,
    report: Report = lambda _: None,
) -> Array:
    """The rank, from 1, of each link's destination among its candidates; ties count half: [n].

    Args:
        links: Positions [n] in the events, ascending.
        candidates: Negatives of each link [n, K]; NO_CANDIDATE where there are fewer.
        times: When each link is scored [n], ascending; by default at its own time.
        measure: What to return instead of the rank: a function of the scores of b links [b] and of their candidates
            [b, K], where NaN is no candidate, that returns [b] or [b, m].
        report: Called with the fraction that is done.
    """
    if candidates.shape[:1] != links.shape or candidates.ndim != 2:
        raise QueryError(f"candidates of {len(links):,} links have shape {candidates.shape}: give a row for each link")
    width = candidates.shape[1] + 1
    src, dst, t = events.src[links], events.dst[links], events.t[links] if times is None else times
    found = []
    for part in _blocks(len(links), block // width, report):
        asked = np.concatenate([dst[part, None], candidates[part]], axis=1)  # [b, K + 1], the link itself first
        given = np.maximum(asked, 0).astype(np.int32)
        scores = scorer(np.repeat(src[part], width), given.ravel(), np.repeat(t[part], width)).reshape(given.shape)
        _refuse_nan(scores)
        found.append(measure(scores[:, 0], np.where(asked == NO_CANDIDATE, np.nan, scores)[:, 1:]))
    return np.concatenate(found) if found else np.empty(0)


def rank_among_all(
    scorer: Scorer,
    events: Events,
    links: Array,
    pool: Array,
    *,
    times: Array | None = None,
    measure: Measure = metrics.ranks,
    block: int = BLOCK,
    report: Report = lambda _: None,
) -> Array:
    """The rank, from 1, of each link's destination among all nodes of a pool; ties count half: [n].

    Other destinations that the link's source has at the same time, among `links`, are not counted. The pairs of one
    source and time are scored once.

    Args:
        links: Positions [n] in the events, ascending.
        pool: Distinct nodes [K] in ascending order, with the destinations of all links.
        times: When each link is scored [n], ascending; by default at its own time.
        measure: See `rank_among`.
        report: Called with the fraction that is done.
    """
    src, own, t = events.src[links], events.t[links], events.t[links] if times is None else times
    place = np.searchsorted(pool, events.dst[links]).clip(max=len(pool) - 1)
    if not np.array_equal(pool[place], events.dst[links]):
        raise QueryError("the pool lacks destinations of the links to rank")
    together, _ = groups(src, own)  # of links with one source and time
    excluded = np.unique(together * len(pool) + place)
    query, first = groups(src, own, t)  # of links that are scored at one time, too
    asked, inverse = np.unique(query * len(pool) + place, return_inverse=True)  # a query, and a destination to rank
    found = []
    for part in _blocks(len(first), block // len(pool), report):
        some = first[part]
        pairs = np.repeat(src[some], len(pool)), np.tile(pool, len(some)), np.repeat(t[some], len(pool))
        scores = scorer(*pairs).reshape(len(some), len(pool))
        _refuse_nan(scores)
        ours = slice(*np.searchsorted(asked, np.array([part.start, part.stop]) * len(pool)))
        row, column = np.divmod(asked[ours] - part.start * len(pool), len(pool))
        true = scores[row, column]
        scores[_entries(excluded, together[some], len(pool))] = np.nan
        for rows in _blocks(len(row), block // len(pool)):
            found.append(measure(true[rows], scores[row[rows]]))
    return np.concatenate(found)[inverse] if found else np.empty(0)


def random_candidates(events: Events, links: Array, count: int, seed: int) -> npt.NDArray[np.int32]:
    """Random destinations for each link, among those seen until the last of `links`, except its own: [n, count]."""
    pool, place = destinations(events, int(links[-1]) + 1)
    drawn = np.random.default_rng(seed).integers(0, len(pool) - 1, (len(links), count))
    return np.asarray(pool[drawn + (drawn >= place[events.dst[links]][:, None])], np.int32)


def _blocks(total: int, size: int, report: Report = lambda _: None) -> Iterator[slice]:
    """Slices of range(total), of at least one; reports the fraction that is done after each."""
    size = max(size, 1)
    for start in range(0, total, size):
        end = min(start + size, total)
        yield slice(start, end)
        report(end / total)


def groups(*columns: Array) -> tuple[Array, Array]:
    """Groups of rows that are equal in all columns, numbered in the order of their first rows.

    Returns the group of each row [n] and the first row of each group [g].
    """
    order = np.lexsort(columns)
    is_new = np.ones(len(order), bool)
    is_new[1:] = np.any([column[order][1:] != column[order][:-1] for column in columns], axis=0)
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(is_new) - 1
    first = order[is_new]  # lexsort is stable
    number = np.empty(len(first), np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[group], np.sort(first)


def _entries(codes: Array, of: Array, width: int) -> tuple[Array, Array]:
    """Rows and columns of sorted codes `group * width + column`, where row i is of the group of[i]."""
    start, end = (np.searchsorted(codes, bound * width) for bound in (of, of + 1))
    row = np.repeat(np.arange(len(of)), end - start)
    offset = np.arange(len(row)) - np.repeat(np.cumsum(end - start) - (end - start), end - start)
    return row, codes[start[row] + offset] % width


def _refuse_nan(scores: Array) -> None:
    if np.isnan(scores).any():
        raise QueryError("scores contain NaN")
