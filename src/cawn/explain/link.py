"""Explains the score of one link: what each part of the input and each walk contributes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from cawn.caw.config import Config
from cawn.caw.features import WALK_SEED, Batcher
from cawn.caw.host import single_thread
from cawn.caw.system import WalkScorer
from cawn.checks import Array
from cawn.data.times import format_as_read, format_time
from cawn.errors import QueryError, printable
from cawn.explain.distinct_walks import describe_shape, format_shape
from cawn.explain.explanation import BACKGROUND_PAIRS, Explanation, LinkPart, PairHistory
from cawn.explain.game import Contributions, Game, Players, StandIns
from cawn.explain.parts import TITLES
from cawn.explain.shapley import EXACT, all_coalitions, sampled_shapley_values, shapley_values
from cawn.explain.views import EarlierLink, Walk
from cawn.kernels.rng import seed_for
from cawn.learn.calibration import Calibration
from cawn.systems.base import Scorer
from cawn.systems.settings import Settings

if TYPE_CHECKING:
    from cawn.data.events import Events
    from cawn.data.names import Name, NameIndex
    from cawn.data.reading import Reading

Background = Literal["strangers", "pairs"]

ORDERS = 16  # in which the parts of a sampled game join, each also in reverse
COUNTED = {  # what the exact features of a part of walks are
    "common": "exact counts of links between each node and the other's recent partners",
    "longer": "exact counts of how often nodes link to one right after a recent partner of the other",
}


@single_thread()
def explain_link(
    scorer: Scorer,
    names: NameIndex,
    calibration: Calibration,
    ends: tuple[Array, Array, Array],
    *,
    draws: int,
    prior: float,
    background: Background = "strangers",
    shapes: bool = False,
    reading: Reading | None = None,
) -> Explanation:
    """Explain the score of one pair. `ends` are the two node ids and the time, each of shape [1].

    Args:
        background: Left-out parts take the values of two strangers, or those of random pairs, on average.
        shapes: Whether to compute the contributions of single walk shapes too.
    """
    walk_scores, (src, dst, t) = walk_scorer(scorer), ends
    batcher, texts = walk_scores.batcher, time_format(reading)
    game = Game(walk_scores, *ends)
    walks = game.walks
    if not (walks.level > 0).any():
        raise QueryError(f"neither node has a link before {texts(t[0].item())}: there is nothing to explain")
    played = game if background == "strangers" else _against_pairs(walk_scores, ends)
    found = _mean(played.contributions(), played)
    logit = float(found.table[0, -1])
    others = [walk_scores.logits_of(batcher.pairs(src, dst, t, seed=WALK_SEED + i))[0] for i in range(1, draws)]
    drawn = calibration.probability(np.array([logit, *others]), prior)
    past = _past(batcher, ends)
    listed = [
        _walk(game, i, float(found.walks[i]), names, texts)
        for i in np.argsort(-np.abs(found.walks), kind="stable").tolist()
    ]
    pair = game.parts.pair_and_walks(found.table)
    counted = {game.parts.names[part] for part in game.parts.feature.tolist()}
    num_walks = np.bincount(game.part_of_walk, weights=walks.count, minlength=len(game.parts.names)).astype(int)
    columns = game.parts.names, found.parts[0].tolist(), found.counted[0].tolist(), num_walks.tolist()
    details = _Details(names.name(int(src[0])), names.name(int(dst[0])), past, listed, counted, texts)
    return Explanation(
        src=details.src,
        dst=details.dst,
        t=t[0].item(),
        probability=float(drawn.mean()),
        error=float(drawn.std(ddof=1) / math.sqrt(draws)),
        draws=draws,
        logit=logit,
        base=float(found.table[0, 0]),
        parts=[
            LinkPart(name, TITLES[name], details.of(name), *figures) for name, *figures in zip(*columns, strict=True)
        ],
        walks=listed,
        num_walks=batcher.config.num_walks,
        past=past,
        prior=prior,
        background=background,
        interaction=None if pair is None else float(pair[0]),
        shapes=_shape_parts(game, played) if shapes else [],
        time=texts(t[0].item()),
    )


def explains(config: Settings) -> bool:
    """Whether scores of a system with these settings can be explained: by the walks of CAW-N."""
    return isinstance(config, Config)


def walk_scorer(scorer: Scorer) -> WalkScorer:
    """The scorer, if it uses walks; scores of other systems cannot be explained."""
    if not isinstance(scorer, WalkScorer):
        raise QueryError("this system uses no walks, so there is nothing to explain; train CAW-N (cawn.Config)")
    return scorer


def time_format(reading: Reading | None) -> Callable[[float], str]:
    """Writes times as dates where the data had dates, or where they look like Unix seconds."""
    if reading is None or not reading.dates:
        return format_time
    return lambda t: format_as_read(t, reading)


def _against_pairs(scorer: WalkScorer, ends: tuple[Array, Array, Array]) -> Game:
    """The games of copies of one pair, each against a random pair: the source of an earlier link and the destination
    of another."""
    events, rng = scorer.batcher.events, np.random.default_rng(seed_for(0, "background"))
    src, dst, t = (np.repeat(values, BACKGROUND_PAIRS) for values in ends)
    first, second = rng.integers(0, int(np.searchsorted(events.t, t[0])), (2, BACKGROUND_PAIRS))
    others = events.src[first].astype(np.int64), events.dst[second].astype(np.int64)
    return Game(scorer, src, dst, t, StandIns.pairs(scorer.batcher, *others, t))


def _mean(found: Contributions, played: Game) -> Contributions:
    """The means over copies of one pair."""
    walks = found.walks[_by_copy(played)].reshape(played.num_pairs, -1).mean(axis=0)
    table, parts, counted = (values.mean(axis=0, keepdims=True) for values in (found.table, found.parts, found.counted))
    return Contributions(table, parts, walks, counted)


def _by_copy(played: Game) -> Array:
    """The order of walks in which those of each copy are together, and ordered alike."""
    return np.argsort(played.walks.pair, kind="stable")


def _shape_parts(game: Game, played: Game) -> list[LinkPart]:
    """Contributions with each walk shape as a player of its own; sampled if there are many.

    Args:
        played: The game against the background, of one or more copies of the pair.
    """
    parts, walks, length = game.parts, game.walks, game.batcher.config.length
    counted = sorted({*parts.feature.tolist()})
    keys, shape = np.unique(walks.shapes.reshape(len(walks.shapes), -1), axis=0, return_inverse=True)
    steps = [part for part in (parts.time, parts.attributes) if part >= 0]
    titles = [TITLES[parts.names[i]] + (", counted" if i in parts.walks else "") for i in counted]
    titles += [describe_shape(key.reshape(-1, 2), length) for key in keys] + [TITLES[parts.names[i]] for i in steps]
    names = [parts.names[i] for i in counted] + [format_shape(key.reshape(-1, 2), length) for key in keys]
    names += [parts.names[i] for i in steps]
    n, first_step = len(names), len(counted) + len(keys)
    players = Players(
        n,
        np.array([counted.index(part) for part in parts.feature.tolist()], np.int64),
        len(counted) + shape.reshape(-1),
        (first_step if parts.time >= 0 else -1, n - 1 if parts.attributes >= 0 else -1),
    )
    of_copies = np.empty(len(played.walks.pair), np.int64)
    of_copies[_by_copy(played)] = np.tile(players.walk, played.num_pairs)

    def value(coalitions: Array) -> Array:
        return np.asarray(played.values(coalitions, players._replace(walk=of_copies)).mean(axis=0))

    if n <= EXACT:
        contribution, error = shapley_values(value(all_coalitions(n))), np.zeros(n)
    else:
        contribution, error = sampled_shapley_values(value, n, orders=ORDERS, seed=seed_for(0, "orders"))
    count = np.bincount(players.walk, weights=walks.count, minlength=n).astype(int)
    columns = names, titles, contribution.tolist(), count.tolist(), error.tolist()
    return [LinkPart(name, title, "", value, 0.0, *rest) for name, title, value, *rest in zip(*columns, strict=True)]


def _walk(game: Game, i: int, contribution: float, names: NameIndex, texts: Callable[[float], str]) -> Walk:
    events, walks, length = game.batcher.events, game.walks, game.batcher.config.length
    shape, last = walks.shapes[i], int(walks.level[i])
    return Walk(
        start="src" if walks.side[i] == 0 else "dst",
        count=int(walks.count[i]),
        contribution=contribution,
        shape=format_shape(shape, length),
        nodes=[names.name(int(node)) for node in walks.nodes[i, : last + 1]],
        links=[link_at(events, names, link, texts) for link in walks.events[i, 1 : last + 1].tolist()],
        meaning=describe_shape(shape, length),
        part=game.parts.names[game.part_of_walk[i]],
    )


def link_at(events: Events, names: NameIndex, position: int, texts: Callable[[float], str]) -> EarlierLink:
    """The link at a position of the events."""
    t = events.t[position].item()
    ends = names.name(int(events.src[position])), names.name(int(events.dst[position]))
    return EarlierLink(*ends, t, position, texts(t))


def pair_links(batcher: Batcher, ends: tuple[Array, Array, Array]) -> npt.NDArray[np.int64]:
    """Positions of the links between the two nodes before the query, in order of time."""
    src, dst, t = ends
    degrees = batcher.history.degree(np.concatenate([src, dst]), np.concatenate([t, t]))
    node, other = (src, dst) if degrees[0] <= degrees[1] else (dst, src)
    found = batcher.history.recent(node, t, max(int(degrees.min()), 1))
    return np.sort(found.events[0][found.nodes[0] == other[0]])


def _past(batcher: Batcher, ends: tuple[Array, Array, Array]) -> PairHistory:
    src, dst, t = ends
    nodes, times = np.concatenate([src, dst]), np.concatenate([t, t])
    degrees, newest = batcher.history.degree(nodes, times), batcher.history.recent(nodes, times, 1)
    together = pair_links(batcher, ends)
    last = [newest.t[side, 0].item() if degrees[side] else None for side in (0, 1)]
    pair_last = batcher.events.t[together[-1]].item() if len(together) else None
    return PairHistory(int(degrees[0]), int(degrees[1]), len(together), pair_last, *last)


# Words.


@dataclass(frozen=True, slots=True)
class _Details:
    """Describes what the parts of a pair are."""

    src: Name
    dst: Name
    past: PairHistory
    walks: list[Walk]
    counted: set[str]  # parts with exact features
    texts: Callable[[float], str]

    def of(self, name: str) -> str:
        past = self.past
        if name == "pair":
            return f"they {_times_linked(past.pair_links)}{self._last(past.pair_last)}"
        if name == "source":
            return f"{printable(self.src)} has {_number(past.src_links, 'earlier link')}{self._last(past.src_last)}"
        if name == "destination":
            return f"{printable(self.dst)} has {_number(past.dst_links, 'earlier link')}{self._last(past.dst_last)}"
        if name in ("time", "attributes"):
            return "when the links on the walks occurred" if name == "time" else "those on the walks"
        walks = [walk for walk in self.walks if walk.part == name]
        count = sum(walk.count for walk in walks)
        found = _number(count, "sampled walk") if count else "no sampled walks"
        counted = COUNTED[name] if name in self.counted else ""
        return found + (self._middles(walks) if name == "common" else "") + (f"; {counted}" if counted else "")

    def _last(self, t: float | None) -> str:
        return "" if t is None else f", the last at {self.texts(t)}"

    def _middles(self, walks: list[Walk]) -> str:
        """The nodes through which walks meet."""
        middles: Counter[Name] = Counter()
        for walk in walks:
            if walk.nodes[1] not in (self.src, self.dst):
                middles[walk.nodes[1]] += walk.count
        most = [printable(node) for node, _ in middles.most_common(3)]
        return f", through {', '.join(most)}{' and others' if len(middles) > 3 else ''}" if most else ""


def _times_linked(times: int) -> str:
    few = {0: "have never linked before", 1: "have linked once before"}
    return few.get(times, f"have linked {times:,} times before")


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
