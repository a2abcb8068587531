"""Negatives: for each link, a pair at the same time that does not link, with the same source or, in `PAIR_KINDS`, any.

Each kind of negatives is a function that returns the destinations each link may draw; see `CHOICES`. Destinations are
listed in order of first appearance in the stream, so renaming nodes does not change any draw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from cawn.checks import check_choice
from cawn.data.events import NO_NEGATIVE, Events
from cawn.data.hashing import digest
from cawn.errors import DataError
from cawn.kernels.keys import pair_key
from cawn.kernels.rng import seed_for
from cawn.learn import dyglib
from cawn.learn.splits import Split, by_appearance
from cawn.learn.task import KINDS, PAIR_KINDS, lower_quantile
from cawn.systems.choices import Choices, Partners, first_links, skip_linked
from cawn.systems.settings import Settings
from cawn.systems.training import TrainingLinks

Nodes = npt.NDArray[np.int32]
Positions = npt.NDArray[np.int64]

PERIODS = 5  # of the training links, each about as long as the test period
RECENT_LINKS = 2_000  # before a link, from whose destinations its recent negatives are drawn
RECENT_SALT = 0x2545F4914F6CDD1D  # separates draws among recent destinations or earlier links from the others
PARTNERS_SALT = 0x5851F42D4C957F2D  # separates the draws among a source's partners from the random ones


@dataclass(frozen=True, slots=True)
class Negatives:
    """A destination for each link, and the share of links that fell back to a random one."""

    dst: Nodes
    fallback: float
    src: Nodes | None = None  # if they are not the sources of the links

    @property
    def digest(self) -> str:
        return digest(self.dst) if self.src is None else digest(self.src, self.dst)

    def first(self, count: int) -> Negatives:
        """Those of the first `count` links."""
        return replace(self, dst=self.dst[:count], src=None if self.src is None else self.src[:count])


def random_choices(events: Events, links: Positions, seen: Positions) -> Choices:
    """All destinations up to the last of `links`, except the link's own."""
    pool, place = destinations(events, int(links.max()) + 1)
    n, each = len(links), np.arange(len(links) + 1, dtype=np.int32)
    return Choices(
        links=links,
        nodes=pool,
        first=np.zeros(n, np.int32),
        count=np.full(n, len(pool) - 1, np.int32),
        skipped=place[events.dst[links]],
        skip_from=each[:-1],
        skip_to=each[1:],
        salt=0,
    )


def period_choices(events: Events, links: Positions, seen: Positions) -> Choices:
    """Destinations up to the end of the link's period, except the link's own; `links` ascend and are divided into
    `PERIODS`.

    The negatives of a test link are destinations of its past and of its period, rarely of a distant future. If those of
    training links are drawn in the same way, a destination without history is equally informative in both.
    """
    every, t = random_choices(events, links, seen), events.t[links]
    ends = [lower_quantile(t, period / PERIODS) for period in range(1, PERIODS + 1)]
    after = np.searchsorted(events.t, ends, side="right")  # position after each period
    first = first_links(events.dst, events.num_nodes)[: len(every.nodes)]
    known = np.maximum(np.searchsorted(first, after) - 1, 1).astype(np.int32)
    sizes = np.diff(np.searchsorted(t, ends, side="right"), prepend=0)
    return replace(every, count=np.repeat(known, sizes))


def partner_choices(events: Events, links: Positions, seen: Positions, *, new: bool) -> Choices:
    """Destinations of the link's source in `seen` or, with `new`, only outside `seen`; except those it links to at the
    same time."""
    if (links[1:] < links[:-1]).any():
        distinct, back = np.unique(links, return_inverse=True)
        return partner_choices(events, distinct, seen, new=new).of(back)
    order = by_appearance(events)
    rank = np.full(events.num_nodes, len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    src, dst = events.src, events.dst
    found = Partners.of(src, dst, seen, rank)
    if new:
        found = Partners.of(src, dst, np.arange(len(events)), rank).without(found)
    skipped, skip_from, skip_to = skip_linked(src, dst, events.t, links, rank, found)
    source = src[links]
    return Choices(
        links=links,
        nodes=order[found.partners],
        first=found.starts[source],
        count=np.diff(found.starts).astype(np.int32)[source] - (skip_to - skip_from),
        skipped=skipped,
        skip_from=skip_from,
        skip_to=skip_to,
        salt=PARTNERS_SALT,
    )


def recent_choices(events: Events, links: Positions, seen: Positions) -> Choices:
    """The destinations of the last links before each link, in proportion to their links; may be the link's own."""
    end = np.searchsorted(events.t, events.t[links])
    first, none = np.maximum(end - RECENT_LINKS, 0), np.zeros(len(links), np.int32)
    return Choices(
        links=links,
        nodes=events.dst,
        first=first,
        count=end - first,
        skipped=none[:0],
        skip_from=none,
        skip_to=none,
        salt=RECENT_SALT,
    )


def earlier_links(events: Events, links: Positions, visible: npt.NDArray[np.bool_]) -> Choices:
    """The distinct pairs that linked before each link, as the position of the first link of each pair."""
    code = pair_key(events.src, events.dst)
    shown = np.flatnonzero(visible)
    first = np.sort(shown[np.unique(code[shown], return_index=True)[1]])
    none = np.zeros(len(links), np.int32)
    return Choices(
        links=links,
        nodes=first,
        first=none,
        count=np.searchsorted(events.t[first], events.t[links]),
        skipped=none[:0],
        skip_from=none,
        skip_to=none,
        salt=RECENT_SALT,
    )


# Functions of (events, links, seen), which return what each link may draw; `seen` are the training links (positions).
CHOICES: dict[str, Callable[[Events, Positions, Positions], Choices]] = {
    "random": random_choices,  # any destination so far
    "historical": partial(partner_choices, new=False),  # a destination of the source in training
    "inductive": partial(partner_choices, new=True),  # a destination of the source, but not in training
    "period": period_choices,  # for training only
    "recent": recent_choices,  # for training only
}
PAIR_BATCH = dyglib.BATCH


def choices(
    events: Events,
    links: Positions,
    kind: str,
    *,
    seen: Positions,
    visible: npt.NDArray[np.bool_] | None = None,
) -> Choices:
    """The destinations from which negatives of `links` are drawn; see `negatives`."""
    if visible is None or visible.all():
        return CHOICES[kind](events, links, seen)
    position = np.cumsum(visible) - 1
    return CHOICES[kind](events[visible], position[links], position[seen])


def negatives(
    events: Events,
    links: Positions,
    kind: str,
    *,
    seen: Positions,
    seed: int,
    visible: npt.NDArray[np.bool_] | None = None,
) -> Negatives:
    """A negative destination for each of `links` (positions in the events).

    Args:
        kind: One of `KINDS`. Links without such a destination get a random one.
        seen: The training links (positions).
        seed: The same seed gives the same negatives.
        visible: Mask [E] of the links that may be used, including `links` and `seen`; all by default.
    """
    check_choice(kind, "negatives", KINDS)
    if len(links) == 0:
        return Negatives(np.empty(0, np.int32), 0.0)
    drawn = choices(events, links, kind, seen=seen, visible=visible).draw(seed)
    found = drawn >= 0
    if not found.all():
        fallback = choices(events, links, "random", seen=seen, visible=visible).draw(seed)
        drawn = np.where(found, drawn, fallback).astype(np.int32)
    return Negatives(drawn, float(1 - found.mean()))


def part_negatives(events: Events, split: Split, part: str, kind: str, seed: int) -> Negatives:
    """Negatives of one kind for a part of the test links, by the rules of the split's protocol."""
    links = split.test[part]
    if split.task.protocol == "dyglib" and kind == "random":
        return Negatives(dyglib.random_destinations(events, links, part), 0.0)
    if split.task.protocol == "dyglib" and kind in PAIR_KINDS:
        new = kind == "inductive pairs"
        src, dst, random = dyglib.pairs(events, links, part, new=new, first_test=split.first_test)
        return Negatives(dst, random / max(len(links), 1), src)
    if split.task.protocol == "paper" and kind == "random":
        return _unchecked_negatives(events, split, part, seed)
    if kind in PAIR_KINDS:
        return pair_negatives(events, links, kind, first_test=split.first_test, seed=seed)
    return negatives(events, links, kind, seen=split.train, seed=seed)


def _unchecked_negatives(events: Events, split: Split, part: str, seed: int) -> Negatives:
    """Random destinations of training, validation and test links. As in the paper's code, they may be the true ones."""
    used = np.sort(np.concatenate([split.train, split.val, *split.test.values()]))
    generator = np.random.default_rng([seed, list(split.test).index(part)])
    return Negatives(generator.choice(_in_order(events.dst[used], events.num_nodes), len(split.test[part])), 0.0)


def pair_negatives(events: Events, links: Positions, kind: str, *, first_test: int, seed: int) -> Negatives:
    """For each batch of `PAIR_BATCH` links, distinct pairs that linked up to its first time but not from there to its
    last: "historical pairs" at any time, "inductive pairs" only in the test period.

    Where these are too few, the rest are random sources and destinations that are not in the batch.
    """
    check_choice(kind, "negatives", PAIR_KINDS)
    code = pair_key(events.src, events.dst)
    distinct, first, number = np.unique(code, return_index=True, return_inverse=True)
    order = np.argsort(first)  # of pairs by their first link
    place, since = np.empty(len(order), np.int64), events.t[first[order]]
    place[order] = np.arange(len(order))
    number, distinct = place[number], distinct[order]
    from_test = np.searchsorted(since, events.t[first_test]) if kind == "inductive pairs" else 0
    drawn, fallbacks = [], 0
    for batch, start in enumerate(range(0, len(links), PAIR_BATCH)):
        some = links[start : start + PAIR_BATCH]
        begin, end = events.t[some[0]], events.t[some[-1]]
        span = slice(int(np.searchsorted(events.t, begin)), int(np.searchsorted(events.t, end, "right")))
        known = np.arange(from_test, np.searchsorted(since, begin, "right"))
        candidates = distinct[np.setdiff1d(known, number[span])]
        generator = np.random.default_rng([seed, batch])
        found = generator.permutation(candidates)[: len(some)]
        missing = len(some) - len(found)
        fallbacks += missing
        own = pair_key(events.src[some], events.dst[some])
        drawn.append(np.concatenate([found, _random_pairs(events, own, missing, generator)]))
    pairs = np.concatenate([np.empty(0, np.int64), *drawn])
    src, dst = (pairs >> 32).astype(np.int32), (pairs & 0x7FFFFFFF).astype(np.int32)
    return Negatives(dst, fallbacks / max(len(links), 1), src)


def _random_pairs(events: Events, own: Positions, count: int, generator: np.random.Generator) -> Positions:
    """Pairs of a source and a destination that are not in `own`, as codes: [count]."""
    src, dst = (_in_order(ends, events.num_nodes).astype(np.int64) for ends in (events.src, events.dst))
    if count and len(src) * len(dst) <= len(np.unique(own)):
        raise DataError(dyglib.NO_NEGATIVES)
    found = np.empty(0, np.int64)
    while len(found) < count:
        more = pair_key(generator.choice(src, 2 * count), generator.choice(dst, 2 * count))
        found = np.concatenate([found, more[~np.isin(more, own)]])
    return found[:count]


def known_negatives(events: Events, links: Positions, seed: int) -> Nodes:
    """A random negative for each link among the destinations before its time; -1 if there is no other: [n]."""
    first = first_links(events.dst, events.num_nodes)
    known = np.searchsorted(first, np.searchsorted(events.t, events.t[links]))
    drawn = random_choices(events, links, links)
    own = drawn.skipped < known  # whether the link's own destination is among them
    return replace(drawn, count=known - own, skip_to=drawn.skip_from + own).draw(seed)


def seen_before(events: Events, nodes: Nodes, t: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Whether each node was the destination of a link before time t: [n]."""
    first = first_links(events.dst, events.num_nodes)
    position = np.full(events.num_nodes, len(events))
    position[events.dst[first]] = first
    return np.asarray(position[nodes] < np.searchsorted(events.t, t))


def linked_share(events: Events, links: Positions, drawn: Negatives) -> float:
    """The share of negatives that are links of the network at the same time, which limits what any model can reach.

    Random negatives exclude only the link's own destination.
    """
    period = events[int(np.searchsorted(events.t, events.t[links].min())) :]
    src = events.src[links] if drawn.src is None else drawn.src
    ends = pair_key(np.concatenate([period.src, src]), np.concatenate([period.dst, drawn.dst]))
    times = np.concatenate([period.t, events.t[links]])
    key = np.unique(ends, return_inverse=True)[1] * (len(period) + 1) + np.searchsorted(period.t, times)
    return float(np.isin(key[len(period) :], key[: len(period)]).mean())


def training_links(events: Events, split: Split, config: Settings, seed: int) -> TrainingLinks:
    """The links to train on and the choices of their negatives; only visible links are used."""
    train = split.train
    links = train if events.weight is None else train[events.weight[train] > 0]
    found = some_training_links(events, links, config, seed, seen=train, visible=split.visible)
    return replace(found, own_negatives=own_negatives(events, split, links))


def some_training_links(
    events: Events, links: Positions, config: Settings, seed: int, *, seen: Positions, visible: npt.NDArray[np.bool_]
) -> TrainingLinks:
    """Some links to train on, and the choices of their negatives; those given by the user are ignored.

    Args:
        seen: All links of the training period (positions).
        visible: Mask [E] of the links that may be used.
    """
    draw = partial(choices, events, links, seen=seen, visible=visible)
    return TrainingLinks(
        events=events,
        part=seen,
        positions=links,
        own_negatives=np.full(len(links), NO_NEGATIVE, np.int32),
        random=draw("period" if config.pool == "period" else "random"),
        historical=None if config.negatives == "random" else draw("historical"),
        recent=draw("recent") if config.negatives == "hard" else None,
        pairs=earlier_links(events, links, visible) if config.negatives == "pairs" else None,
        batch_size=config.batch_size,
        num_negatives=getattr(config, "num_negatives", 1),
        seed=seed,
    )


def validation_negatives(events: Events, split: Split, seed: int) -> Nodes:
    """A negative destination for each validation link, user-given or random."""
    own = own_negatives(events, split, split.val)
    drawn = negatives(
        events, split.val, "random", seen=split.train, visible=split.visible, seed=seed_for(seed, "val")
    ).dst
    return np.where(own == NO_NEGATIVE, drawn, own)


def own_negatives(events: Events, split: Split, links: Positions) -> Nodes:
    """The user-given negatives of `links`; NO_NEGATIVE if missing or a hidden node: [n]."""
    if events.negative is None:
        return np.full(len(links), NO_NEGATIVE, np.int32)
    own = events.negative[links]
    return np.where((own >= 0) & split.hidden[own], np.int32(NO_NEGATIVE), own)


def destinations(events: Events, end: int) -> tuple[Nodes, Nodes]:
    """The destinations of the first `end` links in order of first appearance, and the index of each node there."""
    pool = _in_order(events.dst[:end], events.num_nodes)
    if len(pool) < 2:
        raise DataError("all links go to one destination: there are no negatives to compare them with")
    place = np.full(events.num_nodes, len(pool), np.int32)
    place[pool] = np.arange(len(pool), dtype=np.int32)
    return pool, place


def _in_order(ends: Nodes, num_nodes: int) -> Nodes:
    """The distinct nodes in order of first appearance."""
    return np.asarray(ends[first_links(ends, num_nodes)])
