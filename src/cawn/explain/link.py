"""One link explained: the walks that raised and lowered its score, and the actual links behind them."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cawn.data.times import format_time
from cawn.errors import QueryError
from cawn.explain.leave_out import adds_up, effects, without_walks
from cawn.explain.leaves import Leaves, leaves_of, shape_text, shape_words
from cawn.learn.calibration import Calibration
from cawn.systems.cawn.batches import WALK_SEED, Batcher
from cawn.systems.cawn.engines import Network

if TYPE_CHECKING:
    from cawn.data.names import Name, NameIndex
    from cawn.explain.scene import Scene

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Link:
    """A link that a walk took, back in time."""

    src: Name
    dst: Name
    t: int | float
    event: int  # its position among the links of the network


@dataclass(frozen=True, slots=True)
class Walk:
    """Identical walks, all of the same links."""

    start: str  # "src" or "dst"
    count: int  # how many of the M walks from there
    contribution: float  # to the logit
    shape: str  # coordinates (d_uw, d_vw) of its nodes
    nodes: list[Name]  # from the start on
    links: list[Link]  # the one at the start first: the newest
    meaning: str = ""  # the shape in words


@dataclass(frozen=True, slots=True)
class Past:
    """What was counted before the moment that is asked about."""

    src_links: int
    dst_links: int
    pair_links: int  # between the two, either way
    pair_last: int | float | None  # when they last linked


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a link is scored as it is. Walks are those of one draw; the probability is the mean over several."""

    src: Name
    dst: Name
    t: int | float
    probability: float
    error: float  # standard error of the probability, from repeated draws of walks
    draws: int
    logit: float  # of the draw whose walks are shown
    base: float  # what the model says of two strangers: no walks, no counted past
    rates: float | None  # what the counted past of both ends and of the pair adds; None for models without it
    method: str  # "additive": base, rates and walks add up to the logit; or "leave-group-out": there is a `rest`
    walks: list[Walk]  # the largest contributions first, whichever their sign
    num_walks: int  # M, from each end
    past: Past

    @property
    def walked(self) -> float:
        """What all walks add, each kind by itself, summed."""
        return sum(walk.contribution for walk in self.walks)

    @property
    def rest(self) -> float:
        """What parts say only together, or say twice: the logit less base, counted past and walks."""
        return self.logit - self.base - (self.rates or 0.0) - self.walked

    @property
    def raised(self) -> list[Walk]:
        """The walks that speak for the link, strongest first."""
        return [walk for walk in self.walks if walk.contribution > 0]

    @property
    def lowered(self) -> list[Walk]:
        """Those that speak against it."""
        return [walk for walk in self.walks if walk.contribution < 0]

    def to_dict(self) -> dict[str, Any]:
        """The same in types that JSON has."""
        return asdict(self) | {"walked": self.walked, "rest": self.rest}

    def to_html(self) -> str:
        """A page that stands by itself."""
        from cawn.explain.page import link_page

        return link_page(self)

    def to_svg(self) -> str:
        """`to_picture` as an SVG."""
        return self.to_picture().to_svg()

    def to_picture(self) -> Scene:
        """A drawing of the walks in time, with what they add."""
        from cawn.explain.pictures import link_picture

        return link_picture(self)


def explain_link(
    batcher: Batcher,
    network: Network,
    names: NameIndex,
    calibration: Calibration,
    ends: tuple[Array, Array, Array],
    *,
    draws: int,
    prior: float,
) -> Explanation:
    """The explanation of one pair, given as ids and time [1] each."""
    src, dst, t = ends
    config, M = batcher.config, batcher.config.num_walks
    batch, shared = batcher.trace(src, dst, t, seed=WALK_SEED)
    leaves = leaves_of(shared)
    if not (leaves.level > 0).any():
        raise QueryError(f"neither node has a link before {format_time(t[0].item())}: there is nothing to explain")
    contribution, _, logits = effects(network, config, batch, leaves, np.arange(len(leaves.pair)))
    stranger = batch if batcher.rates is None else replace(batch, rates=_of_strangers(batcher, t))
    known = logits - network.logits(stranger)
    others = [network.logits(batcher.pairs(src, dst, t, seed=WALK_SEED + i))[0] for i in range(1, draws)]
    drawn = calibration.probability(np.array([logits[0], *others]), prior)
    order = np.argsort(-np.abs(contribution), kind="stable")
    return Explanation(
        src=names.name(int(src[0])),
        dst=names.name(int(dst[0])),
        t=t[0].item(),
        probability=float(drawn.mean()),
        error=float(drawn.std(ddof=1) / math.sqrt(draws)),
        draws=draws,
        logit=float(logits[0]),
        base=float(without_walks(network, stranger)[0]),
        rates=None if batcher.rates is None else float(known[0]),
        method="additive" if adds_up(config) else "leave-group-out",
        walks=[_walk(leaves, i, float(contribution[i]), batcher, names) for i in order.tolist()],
        num_walks=M,
        past=_past(batcher, ends),
    )


def _walk(leaves: Leaves, i: int, contribution: float, batcher: Batcher, names: NameIndex) -> Walk:
    events, length = batcher.events, batcher.config.length
    last = int(leaves.level[i])
    links = [
        Link(
            names.name(int(events.src[event])),
            names.name(int(events.dst[event])),
            events.t[event].item(),
            int(event),
        )
        for event in leaves.events[i, 1 : last + 1]
    ]
    return Walk(
        start="src" if leaves.side[i] == 0 else "dst",
        count=int(leaves.count[i]),
        contribution=contribution,
        shape=shape_text(leaves.shapes[i], length),
        nodes=[names.name(int(node)) for node in leaves.nodes[i, : last + 1]],
        links=links,
        meaning=shape_words(leaves.shapes[i], length),
    )


def _past(batcher: Batcher, ends: tuple[Array, Array, Array]) -> Past:
    (src,), (dst,), (t,) = ends
    events = batcher.events
    before = slice(0, int(np.searchsorted(events.t, t)))
    a, b = events.src[before], events.dst[before]
    together = np.flatnonzero(((a == src) & (b == dst)) | ((a == dst) & (b == src)))
    at_src, at_dst = (int(((a == end) | (b == end)).sum()) for end in (src, dst))
    return Past(at_src, at_dst, len(together), events.t[together[-1]].item() if len(together) else None)


def _of_strangers(batcher: Batcher, t: Array) -> Array:
    """The rates of two nodes that never linked."""
    assert batcher.rates is not None
    unknown = np.array([batcher.events.num_nodes])
    return batcher.rates.features(unknown, unknown + 1, t, batcher.unit)
