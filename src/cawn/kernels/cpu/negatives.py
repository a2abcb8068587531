"""Drawing a negative destination for each of many links, each from its own set of choices; and finding the choices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.kernels.jit import inline, njit
from cawn.kernels.keys import pair_key
from cawn.kernels.rng import mix64
from cawn.kernels.threads import even_bounds, in_parallel

Array = npt.NDArray[Any]

_AT_ONCE = 1 << 16  # nodes or links of one thread


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
    """See `Choices`; `kernels.cuda.negatives` draws the same on a GPU."""
    out = np.full(links.size, -1, np.int32)
    for i in range(links.size):
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


@njit
def first_links(ends: Array, num_nodes: int) -> npt.NDArray[np.int64]:
    """The position of the first link of each node that occurs, ascending."""
    seen = np.zeros(num_nodes, np.bool_)
    out = np.empty(min(ends.size, num_nodes), np.int64)
    count = 0
    for i in range(ends.size):
        if not seen[ends[i]]:
            seen[ends[i]] = True
            out[count] = i
            count += 1
    return out[:count].copy()


@njit
def by_first_link(src: Array, dst: Array, num_nodes: int) -> npt.NDArray[np.int32]:
    """The nodes with links in the order of their first one, the source before the destination."""
    seen = np.zeros(num_nodes, np.bool_)
    out = np.empty(num_nodes, np.int32)
    count = 0
    for i in range(src.size):
        for node in (src[i], dst[i]):
            if not seen[node]:
                seen[node] = True
                out[count] = node
                count += 1
    return out[:count].copy()


# The partners of every source.


class Partners(NamedTuple):
    """The distinct partners of source u, by their ranks, ascending: partners[starts[u] : starts[u + 1]]."""

    starts: Array  # [N + 1]
    partners: Array  # int32

    @classmethod
    def of(cls, src: Array, dst: Array, links: Array, rank: Array) -> Partners:
        """The partners in these links (positions)."""
        starts = np.zeros(rank.size + 1, np.int64)
        partners = _fill_lists(src, dst, links, rank, starts)
        sizes = np.empty(rank.size, np.int64)
        in_parallel(partial(_sort_lists, starts, partners, sizes), even_bounds(rank.size, _AT_ONCE), None)
        return cls._compacted(starts, partners, sizes)

    def without(self, other: Partners) -> Partners:
        """These partners but for those in `other`."""
        partners, sizes = self.partners.copy(), np.empty(self.starts.size - 1, np.int64)
        bounds = even_bounds(len(sizes), _AT_ONCE)
        in_parallel(partial(_subtract_lists, self.starts, partners, sizes, other.starts, other.partners), bounds, None)
        return self._compacted(self.starts, partners, sizes)

    @classmethod
    def _compacted(cls, starts: Array, partners: Array, sizes: Array) -> Partners:
        """Only the first `sizes` entries of each list; changes `partners`."""
        kept = np.append(0, np.cumsum(sizes))
        _move_lists(starts, kept, partners)
        return cls(kept, partners[: kept[-1]].copy())


@njit
def _fill_lists(src: Array, dst: Array, links: Array, rank: Array, starts: Array) -> npt.NDArray[np.int32]:
    """The ranks of the destinations of each source; `starts`, which is all 0, becomes where their lists start."""
    for i in range(links.size):
        starts[src[links[i]] + 1] += 1
    for node in range(rank.size):
        starts[node + 1] += starts[node]
    out, at = np.empty(links.size, np.int32), starts[:-1].copy()
    for i in range(links.size):
        u = src[links[i]]
        out[at[u]] = rank[dst[links[i]]]
        at[u] += 1
    return out


@njit
def _sort_lists(starts: Array, partners: Array, sizes: Array, first: int, last: int) -> None:
    """Sort the lists of some nodes and move their distinct entries to the front."""
    for node in range(first, last):
        some = partners[starts[node] : starts[node + 1]]
        some.sort()
        size = min(some.size, 1)
        for i in range(1, some.size):
            if some[i] != some[i - 1]:
                some[size] = some[i]
                size += 1
        sizes[node] = size


@njit
def _subtract_lists(
    starts: Array, partners: Array, sizes: Array, other_starts: Array, others: Array, first: int, last: int
) -> None:
    """Move the entries that are not in the other list of the same node to the front."""
    for node in range(first, last):
        at, end, size = other_starts[node], other_starts[node + 1], 0
        begin = starts[node]
        for i in range(begin, starts[node + 1]):
            while at < end and others[at] < partners[i]:
                at += 1
            if at == end or others[at] != partners[i]:
                partners[begin + size] = partners[i]
                size += 1
        sizes[node] = size


@njit
def _move_lists(starts: Array, kept: Array, partners: Array) -> None:
    for node in range(starts.size - 1):
        for i in range(kept[node + 1] - kept[node]):
            partners[kept[node] + i] = partners[starts[node] + i]


# What a link may not draw: the destinations that its source links to at the same time.


def skip_linked(
    src: Array, dst: Array, t: Array, links: Array, rank: Array, found: Partners
) -> tuple[Array, Array, Array]:
    """`skipped`, `skip_from` and `skip_to` of choices among the partners of each link's source; `links` ascend."""
    skipped = np.zeros(src.size, np.int32)
    skip_from, skip_to = np.empty(links.size, np.int32), np.empty(links.size, np.int32)
    arrays = (src, dst, t, links, rank, found.starts, found.partners, skipped, skip_from, skip_to)
    in_parallel(partial(_skip_linked, *arrays), even_bounds(links.size, _AT_ONCE), None)
    return skipped, skip_from, skip_to


@njit
def _skip_linked(
    src: Array,
    dst: Array,
    t: Array,
    links: Array,
    rank: Array,
    starts: Array,
    partners: Array,
    skipped: Array,
    skip_from: Array,
    skip_to: Array,
    first: int,
    last: int,
) -> None:
    """For links `first` to `last`. What links of one time skip is written to `skipped` at their own positions, so two
    threads that share a time write the same."""
    i = first
    while i < last:
        begin = end = links[i]
        while begin > 0 and t[begin - 1] == t[end]:
            begin -= 1
        while end < t.size and t[end] == t[begin]:
            end += 1
        if end - begin == 1:
            u = src[begin]
            place = _place(partners, starts[u], starts[u + 1], rank[dst[begin]])
            skipped[begin] = max(place, 0)
            while i < last and links[i] == begin:
                skip_from[i], skip_to[i] = begin, begin + (place >= 0)
                i += 1
            continue
        keys = np.empty(end - begin, np.int64)
        for j in range(end - begin):
            keys[j] = pair_key(src[begin + j], rank[dst[begin + j]])
        keys.sort()  # by source, then by the rank of the destination
        sources, froms, tos = np.empty_like(keys), np.empty_like(keys), np.empty_like(keys)
        groups, size = 0, begin
        for j in range(keys.size):
            u = keys[j] >> 32
            if groups == 0 or sources[groups - 1] != u:
                sources[groups], froms[groups], tos[groups] = u, size, size
                groups += 1
            if j > 0 and keys[j] == keys[j - 1]:
                continue
            place = _place(partners, starts[u], starts[u + 1], keys[j] & 0x7FFFFFFF)
            if place >= 0:
                skipped[size] = place - (size - froms[groups - 1])
                size += 1
                tos[groups - 1] = size
        while i < last and links[i] < end:
            group = np.searchsorted(sources[:groups], src[links[i]])
            skip_from[i], skip_to[i] = froms[group], tos[group]
            i += 1


@inline
def _place(partners: Array, lo: int, hi: int, rank: int) -> int:
    """The position of an entry in a list, or -1."""
    begin, end = lo, hi
    while lo < hi:
        mid = (lo + hi) >> 1
        if partners[mid] < rank:
            lo = mid + 1
        else:
            hi = mid
    return lo - begin if lo < end and partners[lo] == rank else -1
