"""Negatives: for each true link a false one, with the same source and time but another destination.

Destinations are listed in the order in which nodes first appear in the stream, so renaming nodes changes no draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from cawn.checks import check_words
from cawn.data.events import Events
from cawn.data.hashing import digest
from cawn.errors import DataError
from cawn.kernels.jit import njit
from cawn.kernels.rng import mix64
from cawn.learn.splits import by_appearance

Kind = Literal["random", "historical", "inductive"]

Nodes = npt.NDArray[np.int32]
Positions = npt.NDArray[np.int64]

PARTNERS_SALT = 0x5851F42D4C957F2D  # separates the draws among a source's partners from the random ones


@dataclass(frozen=True, slots=True)
class Negatives:
    """A destination for each link, and the share for which no such destination existed and a random one was taken."""

    dst: Nodes
    fallback: float

    @property
    def digest(self) -> str:
        return digest(self.dst)


@dataclass(frozen=True, slots=True)
class Choices:
    """The destinations that each of n links may draw: a run of `nodes`, some of whose places are skipped.

    A link that draws the number r takes place r + k of its run, where k is the number of its `skipped` values <= r.
    """

    links: Positions  # [n] the key of each link's random number
    nodes: Nodes  # all runs, one after the other
    first: Positions  # [n] where the run of a link starts
    count: Positions  # [n] how many destinations it may draw; 0 where there is none
    skipped: Positions  # each skipped place less the number of skipped places before it, so ascending for each link
    skip_from: Positions  # [n] the part of `skipped` that concerns a link
    skip_to: Positions  # [n]
    salt: int

    def draw(self, seed: int) -> Nodes:
        """A destination for each link, uniformly; -1 where there is none: [n]."""
        arrays = (self.nodes, self.first, self.count, self.skipped, self.skip_from, self.skip_to)
        return _draw(self.links, *arrays, np.uint64(seed ^ self.salt))


def check_kinds(kinds: tuple[str, ...]) -> None:
    """Refuse what is no kind of negatives."""
    check_words(kinds, "negatives", get_args(Kind))


def negatives(
    events: Events,
    links: Positions,
    kind: Kind,
    *,
    seen: Positions,
    seed: int,
    visible: npt.NDArray[np.bool_] | None = None,
) -> Negatives:
    """A false destination for each of `links` (positions in the events).

    Args:
        kind: "random": any destination that occurs up to the last of `links`. "historical": one the source had among
            `seen`. "inductive": one the source has outside `seen` and never among it. Neither is one the source
            links to at that very time. Where there is none, a random one is taken.
        seen: The training links (positions).
        seed: The same seed, the same negatives, whatever else is asked.
        visible: Which links may be known, [E], `links` and `seen` among them; all by default. The others have no
            influence.
    """
    check_kinds((kind,))
    if len(links) == 0:
        return Negatives(np.empty(0, np.int32), 0.0)
    dst = random_choices(events, links, visible).draw(seed)
    if kind == "random":
        return Negatives(dst, 0.0)
    drawn = partner_choices(events, links, kind, seen=seen, visible=visible).draw(seed)
    found = drawn >= 0
    return Negatives(np.where(found, drawn, dst).astype(np.int32), float(1 - found.mean()))


def random_choices(events: Events, links: Positions, visible: npt.NDArray[np.bool_] | None = None) -> Choices:
    """All destinations of visible links up to the last of `links`, but for a link's own."""
    known, links = _restrict(events, visible, links)
    pool, place = destinations(known, int(links.max()) + 1)
    n, each = len(links), np.arange(len(links) + 1)
    return Choices(
        links=links,
        nodes=pool,
        first=np.zeros(n, np.int64),
        count=np.full(n, len(pool) - 1),
        skipped=place[known.dst[links]],
        skip_from=each[:-1],
        skip_to=each[1:],
        salt=0,
    )


def destinations(events: Events, end: int) -> tuple[Nodes, Positions]:
    """The destinations of the first `end` links in the order of first appearance, and the place of each node there."""
    pool, first = np.unique(events.dst[:end], return_index=True)
    if len(pool) < 2:
        raise DataError("all links go to one destination: there is no false link to compare them with")
    pool = pool[np.argsort(first)]
    place = np.full(events.num_nodes, len(pool))
    place[pool] = np.arange(len(pool))
    return pool, place


def partner_choices(
    events: Events, links: Positions, kind: Kind, *, seen: Positions, visible: npt.NDArray[np.bool_] | None = None
) -> Choices:
    """The partners of a link's source, see `negatives`, but for those it links to at the same time."""
    known, links, seen = _restrict(events, visible, links, seen)
    order = by_appearance(known)
    rank = np.full(known.num_nodes, len(order))
    rank[order] = np.arange(len(order))
    src, pair = rank[known.src], rank[known.src] * len(order) + rank[known.dst]
    partners = np.unique(pair[seen])
    if kind == "inductive":
        partners = np.setdiff1d(np.unique(pair), partners, assume_unique=True)
    starts = np.searchsorted(partners, np.arange(len(order) + 1) * len(order))  # of the run of each source
    moment = np.cumsum(np.append(False, known.t[1:] != known.t[:-1])) if len(known) else np.empty(0, np.int64)
    group = src * (len(known) + 1) + moment  # links of one source at one time

    at = np.searchsorted(partners, pair)
    listed = at < len(partners)
    listed[listed] = partners[at[listed]] == pair[listed]
    skipped_group, place = _distinct(group[listed], (at - starts[src])[listed])
    before = np.arange(len(place)) - np.searchsorted(skipped_group, skipped_group)
    skip_from, skip_to = (np.searchsorted(skipped_group, group[links], side) for side in ("left", "right"))
    return Choices(
        links=links,
        nodes=order[partners % len(order)],
        first=starts[src[links]],
        count=np.diff(starts)[src[links]] - (skip_to - skip_from),
        skipped=place - before,
        skip_from=skip_from,
        skip_to=skip_to,
        salt=PARTNERS_SALT,
    )


def _restrict(events: Events, visible: npt.NDArray[np.bool_] | None, *links: Positions) -> tuple[Any, ...]:
    """The visible events, and the positions of `links` among them."""
    if visible is None:
        return events, *links
    position = np.cumsum(visible) - 1
    return events[visible], *(position[some] for some in links)


def _distinct(group: Positions, place: Positions) -> tuple[Positions, Positions]:
    """The different rows of two columns, sorted."""
    order = np.lexsort((place, group))
    group, place = group[order], place[order]
    new = np.append(True, (np.diff(group) != 0) | (np.diff(place) != 0))[: len(order)]
    return group[new], place[new]


@njit
def _draw(
    links: Positions,
    nodes: Nodes,
    first: Positions,
    count: Positions,
    skipped: Positions,
    skip_from: Positions,
    skip_to: Positions,
    key: np.uint64,
) -> Nodes:
    """See `Choices`; the twin of `kernels.cuda.negatives.draw`."""
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
