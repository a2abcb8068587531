"""False links to hold true ones against: the source stays, another destination is drawn, one for each link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from cawn.errors import DataError, QueryError
from cawn.events import Events
from cawn.kernels.cpu import mix64
from cawn.kernels.jit import njit
from cawn.splits import digest

Kind = Literal["random", "historical", "inductive"]

Nodes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Negatives:
    """A destination for each link, and the share for which no such destination existed and a random one was taken."""

    dst: Nodes
    fallback: float

    @property
    def digest(self) -> str:
        return digest(self.dst)


def check_kinds(kinds: tuple[str, ...]) -> None:
    """Refuse what is no kind of negatives."""
    if wrong := [kind for kind in kinds if kind not in get_args(Kind)]:
        raise QueryError(f"negatives {wrong[0]!r}: give one of {', '.join(get_args(Kind))}")


def negatives(
    events: Events,
    links: npt.NDArray[np.int64],
    kind: Kind,
    *,
    seen: npt.NDArray[np.int64],
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
        visible: Which links may be known, [E]; all by default. Nodes of other links are not drawn.
    """
    check_kinds((kind,))
    if len(links) == 0:
        return Negatives(np.empty(0, np.int32), 0.0)
    pool = destinations(events, links, visible)
    key = np.uint64(seed)
    dst = _random(events.dst[links], links, pool, key)
    if kind == "random":
        return Negatives(dst, 0.0)
    starts, candidates = _candidates(events, seen, kind)
    drawn = _from_candidates(
        events.src[links], events.t[links], events.dst[links], links, starts, candidates, *in_order(events), key
    )
    found = drawn >= 0
    return Negatives(np.where(found, drawn, dst).astype(np.int32), float(1 - found.mean()))


def destinations(events: Events, links: npt.NDArray[np.int64], visible: npt.NDArray[np.bool_] | None = None) -> Nodes:
    """What random destinations are drawn from: those of visible links up to the last of `links`, sorted."""
    last = int(links.max()) + 1
    pool = np.unique(events.dst[:last] if visible is None else events.dst[:last][visible[:last]])
    if len(pool) < 2:
        raise DataError("all links go to one destination: there is no false link to hold them against")
    return pool


def in_order(events: Events) -> tuple[Nodes, npt.NDArray[np.float64], Nodes]:
    """Source, time and destination of all links in that order, to see who a source links to at a moment."""
    order = np.lexsort((events.dst, events.t, events.src))
    return events.src[order], events.t[order], events.dst[order]


def earlier_partners(events: Events, seen: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Nodes]:
    """For each source the different destinations it had among `seen`: where they start, and they themselves."""
    return _candidates(events, seen, "historical")


def _candidates(events: Events, seen: npt.NDArray[np.int64], kind: Kind) -> tuple[npt.NDArray[np.int64], Nodes]:
    """For each source the different destinations it had among `seen` (historical) or only outside of it (inductive)."""
    code = events.src.astype(np.int64) * events.num_nodes + events.dst
    pairs = np.unique(code[seen])
    if kind == "inductive":
        pairs = np.setdiff1d(np.unique(code), pairs, assume_unique=True)
    starts = np.searchsorted(pairs, np.arange(events.num_nodes + 1) * events.num_nodes)
    return starts, (pairs % events.num_nodes).astype(np.int32)


@njit
def _random(true_dst: Nodes, links: npt.NDArray[np.int64], pool: Nodes, key: np.uint64) -> Nodes:
    """Uniform over the pool without the true destination."""
    out = np.empty(links.size, np.int32)
    for i in range(links.size):
        bits = mix64(mix64(key) ^ np.uint64(links[i]))
        at = np.searchsorted(pool, true_dst[i])
        j = np.int64(bits % np.uint64(pool.size - 1))
        out[i] = pool[j + 1] if j >= at else pool[j]
    return out


@njit
def _from_candidates(
    src: Nodes,
    t: npt.NDArray[np.float64],
    dst: Nodes,
    links: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    candidates: Nodes,
    now_src: Nodes,
    now_t: npt.NDArray[np.float64],
    now_dst: Nodes,
    key: np.uint64,
) -> Nodes:
    """From a random place in the source's candidates on, the first it does not link to now; -1 where there is none."""
    out = np.full(links.size, -1, np.int32)
    for i in range(links.size):
        u = src[i]
        first, size = starts[u], starts[u + 1] - starts[u]
        if size == 0:
            continue
        lo, hi = 0, now_src.size  # the links of u at time t[i] start at lo
        while lo < hi:
            mid = (lo + hi) >> 1
            if now_src[mid] < u or (now_src[mid] == u and now_t[mid] < t[i]):
                lo = mid + 1
            else:
                hi = mid
        offset = np.int64(mix64(mix64(key ^ np.uint64(0x5851F42D4C957F2D)) ^ np.uint64(links[i])) % np.uint64(size))
        for k in range(size):
            v = candidates[first + (offset + k) % size]
            linked, j = v == dst[i], lo
            while not linked and j < now_src.size and now_src[j] == u and now_t[j] == t[i]:
                linked = now_dst[j] == v
                j += 1
            if not linked:
                out[i] = v
                break
    return out
