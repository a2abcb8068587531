"""Why one link has its score: the walks that raise and lower it, and the links on them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cawn.data.times import format_time
from cawn.errors import QueryError
from cawn.explain.distinct_walks import DistinctWalks, describe_shape, distinct_walks, format_shape
from cawn.explain.leave_out import group_contributions, is_additive, logits_without_walks
from cawn.explain.report import Report
from cawn.learn.calibration import Calibration
from cawn.systems.base import Scorer
from cawn.systems.cawn.features import WALK_SEED, Batcher
from cawn.systems.cawn.system import WalkScorer

if TYPE_CHECKING:
    from cawn.data.names import Name, NameIndex

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Link:
    """A link on a walk."""

    src: Name
    dst: Name
    t: int | float
    event: int  # its position in `Events`


@dataclass(frozen=True, slots=True)
class Walk:
    """A distinct walk: all sampled walks over the same links."""

    start: str  # "src" or "dst"
    count: int  # how many of the M walks from there are this one
    contribution: float  # to the logit
    shape: str  # coordinates (d_uw, d_vw) of its nodes
    nodes: list[Name]  # in order, from the start
    links: list[Link]  # newest first
    meaning: str = ""  # the shape in words


@dataclass(frozen=True, slots=True)
class Past:
    """The links before the query time."""

    src_links: int
    dst_links: int
    pair_links: int  # between the two, in either direction
    pair_last: int | float | None  # time of the last of them


@dataclass(frozen=True, slots=True)
class Explanation(Report):
    """Why a link has its score. The walks are those of the first sample; the probability is a mean over `draws`."""

    src: Name
    dst: Name
    t: int | float
    probability: float
    error: float  # its standard error over the samples of walks
    draws: int
    logit: float  # with the walks listed here
    base: float  # the logit of two nodes without history
    rates: float | None  # contribution of the exact features of the pair; None for models without them
    method: str  # "additive": base, rates and walks add up to the logit; "leave-group-out": a `rest` remains
    walks: list[Walk]  # by absolute contribution, largest first
    num_walks: int  # M, from each node
    past: Past
    prior: float = 0.5  # assumed share of positives

    @property
    def walked(self) -> float:
        """The sum of the contributions of all walks."""
        return sum(walk.contribution for walk in self.walks)

    @property
    def rest(self) -> float:
        """Interaction between the parts: the logit minus base, rates and walks."""
        return self.logit - self.base - (self.rates or 0.0) - self.walked

    @property
    def raised(self) -> list[Walk]:
        """The walks that raise the score, largest contribution first."""
        return [walk for walk in self.walks if walk.contribution > 0]

    @property
    def lowered(self) -> list[Walk]:
        """The walks that lower the score, largest contribution first."""
        return [walk for walk in self.walks if walk.contribution < 0]

    def to_dict(self) -> dict[str, Any]:
        """The values as types that JSON has."""
        return Report.to_dict(self) | {"walked": self.walked, "rest": self.rest}


def explain_link(
    scorer: Scorer,
    names: NameIndex,
    calibration: Calibration,
    ends: tuple[Array, Array, Array],
    *,
    draws: int,
    prior: float,
) -> Explanation:
    """Explain the score of one pair. `ends` are the two node ids and the time, each of shape [1]."""
    walk_scores, (src, dst, t) = walk_scorer(scorer), ends
    batcher, config = walk_scores.batcher, walk_scores.config
    batch = batcher.trace(src, dst, t, seed=WALK_SEED)
    walks = distinct_walks(batch)
    if not (walks.level > 0).any():
        raise QueryError(f"neither node has a link before {format_time(t[0].item())}: there is nothing to explain")
    contribution, _, logits = group_contributions(walk_scores, batch, walks, np.arange(len(walks.pair)))
    without_history = batch
    if batcher.pair_features is not None:
        without_history = replace(batch, pair_features=_features_without_history(batcher, t))
    of_pair_features = logits - walk_scores.logits_of(without_history)
    others = [walk_scores.logits_of(batcher.pairs(src, dst, t, seed=WALK_SEED + i))[0] for i in range(1, draws)]
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
        base=float(logits_without_walks(walk_scores, without_history)[0]),
        rates=None if batcher.pair_features is None else float(of_pair_features[0]),
        method="additive" if is_additive(config) else "leave-group-out",
        walks=[_walk(walks, i, float(contribution[i]), batcher, names) for i in order.tolist()],
        num_walks=config.num_walks,
        past=_past(batcher, ends),
        prior=prior,
    )


def explains(scorer: Scorer) -> bool:
    """Whether scores of this kind can be explained: by the walks of CAW-N."""
    return isinstance(scorer, WalkScorer)


def walk_scorer(scorer: Scorer) -> WalkScorer:
    """The scorer, if it uses walks; scores of other systems cannot be explained."""
    if not isinstance(scorer, WalkScorer):
        raise QueryError("this system uses no walks, so there is nothing to explain; train CAW-N (system='cawn')")
    return scorer


def _walk(walks: DistinctWalks, i: int, contribution: float, batcher: Batcher, names: NameIndex) -> Walk:
    events, shape, length = batcher.events, walks.shapes[i], batcher.config.length
    last = int(walks.level[i])
    return Walk(
        start="src" if walks.side[i] == 0 else "dst",
        count=int(walks.count[i]),
        contribution=contribution,
        shape=format_shape(shape, length),
        nodes=[names.name(int(node)) for node in walks.nodes[i, : last + 1]],
        links=[
            Link(names.name(int(events.src[link])), names.name(int(events.dst[link])), events.t[link].item(), link)
            for link in walks.events[i, 1 : last + 1].tolist()
        ],
        meaning=describe_shape(shape, length),
    )


def _past(batcher: Batcher, ends: tuple[Array, Array, Array]) -> Past:
    (src,), (dst,), (t,) = ends
    events = batcher.events
    before = slice(0, int(np.searchsorted(events.t, t)))
    a, b = events.src[before], events.dst[before]
    together = np.flatnonzero(((a == src) & (b == dst)) | ((a == dst) & (b == src)))
    at_src, at_dst = (int(((a == end) | (b == end)).sum()) for end in (src, dst))
    return Past(at_src, at_dst, len(together), events.t[together[-1]].item() if len(together) else None)


def _features_without_history(batcher: Batcher, t: Array) -> Array:
    """The exact features of two nodes without history."""
    assert batcher.pair_features is not None
    unknown = np.array([batcher.events.num_nodes])
    return batcher.pair_features.features(unknown, unknown + 1, t)
