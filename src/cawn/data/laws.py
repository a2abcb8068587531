"""Synthetic networks that follow a known law, to check that a method finds it.

Time is in steps; an *episode* is one occurrence of the pattern that a law describes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cawn.checks import check_integer, check_number, check_seed
from cawn.data.events import Events
from cawn.errors import enough_memory

EPISODE_GAP = 100  # mean time between the starts of two episodes
REACTION_TIME = 50  # the next link of an episode comes within this time

Nodes = npt.NDArray[np.int64]
Episodes = list[tuple[list[tuple[Nodes, Nodes]], bool]]  # of each kind, as `_network` describes them


@dataclass(frozen=True, slots=True)
class LawNetwork:
    """A network, and which of its links the law causes."""

    events: Events
    caused: npt.NDArray[np.bool_]  # [E]


def triadic_closure(num_nodes: int = 100, num_links: int = 3000, *, seed: int, noise: float = 0.2) -> LawNetwork:
    """Nodes that have just linked to the same node link to each other: u-w, then w-v, then (caused) u-v.

    Each link points either way at random. A share `noise` of the links are random pairs at random times.
    """
    rng = _generator(num_nodes, num_links, 3, seed, noise)
    actors = _distinct_nodes(rng, num_nodes, round(num_links * (1 - noise)) // 3, 3)  # u, w, v
    u, w, v = actors.T
    steps = [_either_way(rng, u, w), _either_way(rng, w, v), _either_way(rng, u, v)]
    return _network(rng, num_nodes, num_links, [(steps, True)])


def feed_forward(num_nodes: int = 100, num_links: int = 3000, *, seed: int, noise: float = 0.2) -> LawNetwork:
    """Directed: a -> b, then b -> c, then (caused) a -> c.

    Equally many episodes are a -> b, c -> b and cause nothing, so that only direction distinguishes the two.
    """
    rng = _generator(num_nodes, num_links, 3, seed, noise)
    actors = _distinct_nodes(rng, num_nodes, 2 * (round(num_links * (1 - noise)) // 5), 3)  # a, b, c
    (a, b, c), (x, y, z) = actors[::2].T, actors[1::2].T
    loops, decoys = [(a, b), (b, c), (a, c)], [(x, y), (z, y)]
    return _network(rng, num_nodes, num_links, [(loops, True), (decoys, False)])


def two_pairs(num_pairs: int = 2, num_times: int = 2) -> LawNetwork:
    """The paper's Figure 3: pairs {0, 1}, {2, 3}, ... all link at the times 1, 2, ..., num_times.

    All nodes have the same history, except for their partner. All links after the first time are caused.
    """
    check_integer(num_pairs, "num_pairs", 2, 2**30)
    check_integer(num_times, "num_times", 1, 2**30)
    with enough_memory("making the network", "ask for fewer links"):
        left = np.tile(np.arange(0, 2 * num_pairs, 2), num_times)
        t = np.repeat(np.arange(1, num_times + 1), num_pairs)
        return LawNetwork(Events(left, left + 1, t), t > 1)


def null(num_nodes: int = 100, num_links: int = 3000, *, seed: int) -> LawNetwork:
    """No law: random pairs at random times."""
    rng = _generator(num_nodes, num_links, 2, seed, 0.0)
    return _network(rng, num_nodes, num_links, [])


def _network(rng: np.random.Generator, num_nodes: int, num_links: int, episodes: Episodes) -> LawNetwork:
    """Episodes at random times, and random links up to `num_links`.

    Each kind of episode is a list of its links in order, as (sources, destinations), and whether the last is caused.
    """
    span = EPISODE_GAP * (num_links // 3 + 1)
    columns: list[tuple[Nodes, Nodes, Nodes, npt.NDArray[np.bool_]]] = []
    for steps, last_is_caused in episodes:
        t = rng.integers(0, span, len(steps[0][0]))
        for i, (src, dst) in enumerate(steps):
            columns.append((src, dst, t, np.full(len(src), last_is_caused and i == len(steps) - 1)))
            t = t + rng.integers(1, REACTION_TIME, len(t))
    missing = num_links - sum(len(src) for src, *_ in columns)
    chance = _distinct_nodes(rng, num_nodes, missing, 2)
    columns.append((chance[:, 0], chance[:, 1], rng.integers(0, span, missing), np.zeros(missing, np.bool_)))
    src, dst, t, caused = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    events = Events(src, dst, t, num_nodes=num_nodes)
    return LawNetwork(events, caused[events.rows])


def _generator(num_nodes: int, num_links: int, actors: int, seed: int, noise: float) -> np.random.Generator:
    check_integer(num_nodes, "num_nodes", actors, 2**31 - 1)
    check_integer(num_links, "num_links", 1, 2**31 - 1)
    check_number(noise, "noise", "a share of random links between 0 and 1", lambda share: 0 <= share <= 1)
    return np.random.default_rng(int(check_seed(seed)))


def _distinct_nodes(rng: np.random.Generator, num_nodes: int, rows: int, width: int) -> Nodes:
    """Rows of distinct nodes: [rows, width]."""
    nodes = rng.integers(0, num_nodes, (rows, width))
    for i in range(1, width):
        # Uniform among the other nodes: shift past those already chosen, smallest first.
        nodes[:, i] = rng.integers(0, num_nodes - i, rows)
        for taken in np.sort(nodes[:, :i], axis=1).T:
            nodes[:, i] += nodes[:, i] >= taken
    return nodes


def _either_way(rng: np.random.Generator, a: Nodes, b: Nodes) -> tuple[Nodes, Nodes]:
    """Each link from a to b or from b to a, at random."""
    flip = rng.random(len(a)) < 0.5
    return np.where(flip, b, a), np.where(flip, a, b)
