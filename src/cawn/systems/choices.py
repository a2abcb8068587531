"""Drawing a negative destination for each of many links, each from its own set of choices; and finding the choices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.kernels.jit import njit
from cawn.kernels.keys import pair_key
from cawn.kernels.rng import mix64

Array = npt.NDArray[Any]

_BLOCK = 1 << 20  # links at a time


@dataclass(frozen=True, slots=True)
class Choices:
    """The destinations that each of n links may draw: a run of `nodes`, with some positions skipped.

    A link that draws the number r takes position r + k of its run, where k is the number of its `skipped` values <= r.
    There are fewer than 2**31 of anything, so all but `links` are stored as int32.
    """

    links: Array  # [n] int64, the key of each link's random number
    nodes: Array  # all runs, one after the other
    first: Array  # [n] where the run of a link starts
    count: Array  # [n] the number of destinations it may draw
    skipped: Array  # each skipped position minus the number of earlier ones, non-decreasing for each link
    skip_from: Array  # [n] start and end of each link's part of `skipped`
    skip_to: Array  # [n]
    salt: int  # separates the draws of one kind of negatives from those of another

    def __post_init__(self) -> None:
        for name in ("nodes", "first", "count", "skipped", "skip_from", "skip_to"):
            object.__setattr__(self, name, getattr(self, name).astype(np.int32, copy=False))

    def of(self, some: Array) -> Choices:
        """The choices of the links at positions `some`, [k]."""
        per_link = ("links", "first", "count", "skip_from", "skip_to")
        return replace(self, **{name: getattr(self, name)[some] for name in per_link})

    def draw(self, seed: int) -> npt.NDArray[np.int32]:
        """A destination for each link, drawn uniformly; -1 if it has no choice: [n]."""
        arrays = (self.nodes, self.first, self.count, self.skipped, self.skip_from, self.skip_to)
        return _draw(self.links, *arrays, np.uint64(seed ^ self.salt))


@njit
def _draw(
    links: Array,
    nodes: Array,
    first: Array,
    count: Array,
    skipped: Array,
    skip_from: Array,
    skip_to: Array,
    key: np.uint64,
) -> npt.NDArray[np.int32]:
    """See `Choices`; `caw.kernels.cuda.negatives` draws the same on a GPU."""
    out = np.empty(links.size, np.int32)
    for i in range(links.size):
        out[i] = -1
        if count[i] > 0:
            r = np.int64(mix64(mix64(key) ^ np.uint64(links[i])) % np.uint64(count[i]))
            lo, hi = skip_from[i], skip_to[i]
            while lo < hi:
                mid = (lo + hi) >> 1
                if skipped[mid] <= r:
                    lo = mid + 1
                else:
                    hi = mid
            out[i] = nodes[first[i] + r + lo - skip_from[i]]
    return out


# Nodes in the order of their first link.


def first_links(ends: Array, num_nodes: int) -> npt.NDArray[np.int64]:
    """The position of the first link of each node that occurs, ascending."""
    first = _first_positions(ends, num_nodes)
    return np.sort(first[first < len(ends)])


def by_first_link(src: Array, dst: Array, num_nodes: int) -> npt.NDArray[np.int32]:
    """The nodes with links in the order of their first one, the source before the destination."""
    first = np.minimum(2 * _first_positions(src, num_nodes), 2 * _first_positions(dst, num_nodes) + 1)
    return np.argsort(first)[: np.count_nonzero(first < 2 * len(src))].astype(np.int32)


def _first_positions(ends: Array, num_nodes: int) -> npt.NDArray[np.int64]:
    """The position where each node first occurs, the number of positions for those that do not: [N]."""
    first = np.full(num_nodes, len(ends))
    for start in reversed(range(0, len(ends), _BLOCK)):
        block = ends[start : start + _BLOCK]
        first[block[::-1]] = np.arange(start, start + len(block))[::-1]  # of equal indices, the last is assigned
    return first


# The partners of every source.


class Partners(NamedTuple):
    """The distinct partners of source u, by their ranks, ascending: partners[starts[u] : starts[u + 1]]."""

    keys: Array  # `pair_key` of each source and the rank of each of its partners, ascending
    starts: Array  # [N + 1]

    @classmethod
    def of(cls, src: Array, dst: Array, links: Array, rank: Array) -> Partners:
        """The partners in these links (positions)."""
        keys = np.sort(pair_key(src[links], rank[dst[links]]))  # np.unique hashes, which takes ten times as long
        return cls._from_keys(keys[_changes(keys)], rank.size)

    @classmethod
    def _from_keys(cls, keys: Array, num_nodes: int) -> Partners:
        return cls(keys, np.searchsorted(keys, pair_key(np.arange(num_nodes + 1), 0)))

    @property
    def partners(self) -> Array:
        return self.keys & 0x7FFFFFFF

    def without(self, other: Partners) -> Partners:
        """These partners but for those in `other`, which are some of them."""
        return self._from_keys(np.delete(self.keys, np.searchsorted(self.keys, other.keys)), self.starts.size - 1)


# What a link may not draw: the destinations that its source links to at the same time.


def skip_linked(
    src: Array, dst: Array, t: Array, links: Array, rank: Array, found: Partners
) -> tuple[Array, Array, Array]:
    """`skipped`, `skip_from` and `skip_to` of choices among the partners of each link's source; `links` ascend."""
    begin = np.searchsorted(t, t[links])  # the first link at the time of each
    moments = begin[_changes(begin)]
    sizes = np.searchsorted(t, t[moments], side="right") - moments
    moment = np.repeat(np.arange(len(moments)), sizes)  # of each row: rows are all links at these times
    shift = moments - (np.cumsum(sizes) - sizes)  # from a row to the position of its link
    rows = np.arange(len(moment))
    positions = rows + shift[moment]
    key = pair_key(src[positions], rank[dst[positions]])
    tied = np.flatnonzero(sizes[moment] > 1)
    order = tied[np.lexsort((key[tied], moment[tied]))]  # by source, then by the rank of the destination
    key[tied], rows[order] = key[order], tied  # `rows` is now where each row has moved to

    place = np.searchsorted(found.keys, key)
    kept = _changes(moment, key) & (np.append(found.keys, -1)[place] == key)
    before = np.cumsum(kept) - kept  # the number of kept rows before each
    starts = _changes(moment, key >> 32)
    group, skip_from = np.cumsum(starts) - 1, before[starts]
    skip_to = np.append(skip_from, np.count_nonzero(kept))[1:]
    skipped = (place - found.starts[key >> 32] - (before - skip_from[group]))[kept]
    own = group[rows[links - shift[np.cumsum(_changes(begin)) - 1]]]
    return skipped, skip_from[own], skip_to[own]


def _changes(*columns: Array) -> npt.NDArray[np.bool_]:
    """Whether each row differs from the one before it: [n]."""
    found = np.zeros(len(columns[0]), np.bool_)
    found[:1] = True
    for column in columns:
        found[1:] |= column[1:] != column[:-1]
    return found
