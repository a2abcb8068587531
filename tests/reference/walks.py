"""The definition of what the kernels compute, in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import cawn
from cawn.kernels.rng import GOLDEN
from cawn.kernels.rng import mix64_int as mix64

Link = tuple[Any, int, int, int]  # (t, the other end, event id, side)


def query_key(seed: int, t: Any, link: int) -> int:
    """The key of the random numbers of a query at time t (int64 or float64) whose node has the newest link `link`."""
    return mix64(mix64(mix64(seed) ^ int(np.asarray(t).view(np.uint64))) ^ link)


def uniform(key: int, index: int, step: int) -> float:
    """Draw `index` of walk step `step`, in (0, 1)."""
    bits = mix64((key + ((index << 8) | step) * GOLDEN) % 2**64)
    return ((bits >> 12) + 0.5) * 2.0**-52


def links_before(events: cawn.Events, node: int, t: Any) -> list[Link]:
    """E_{node, t}: all links of a node strictly before t, oldest first."""
    links = []
    for event, (u, v, when) in enumerate(zip(events.src, events.dst, events.t, strict=True)):
        if when < t and node in (u, v):
            links.append((when, int(v if u == node else u), event, int(u != node)))
    return links


def probabilities(links: Sequence[Link], alpha: float) -> npt.NDArray[np.float64]:
    """The distribution of one step: proportional to exp(alpha t'), normalized over all links."""
    newest = links[-1][0]
    weights = np.exp(np.array([-alpha * float(newest - when) for when, *_ in links]))
    return np.asarray(weights / weights.sum())


def sample_walks(
    events: cawn.Events, alphas: Sequence[float], node: int, t: Any, widths: Sequence[int], seed: int
) -> list[list[tuple[int, Any, int]]]:
    """Algorithm 1 for one query: M walks of (node, time, event)."""
    M = widths[-1]
    walks: list[list[tuple[int, Any, int]]] = [[(node, t, -1)] for _ in range(M)]
    first = links_before(events, node, t)
    key = query_key(seed, t, 2 * first[-1][2] + first[-1][3]) if first else 0
    for step, width in enumerate(widths, start=1):
        for k in range(width):
            group = walks[k * M // width : (k + 1) * M // width]
            here, now, _ = group[0][-1]
            links = links_before(events, here, now) if here >= 0 else []
            reached: tuple[int, Any, int] = (-1, -1, -1)
            if links:
                law = probabilities(links, alphas[k * len(alphas) // width])
                i = min(int(np.searchsorted(np.cumsum(law), uniform(key, k, step))), len(links) - 1)
                reached = (links[i][1], links[i][0], links[i][2])
            for walk in group:
                walk.append(reached)
    return walks


def iterate_bernoulli(probabilities_newest_first: Sequence[float], rng: np.random.Generator) -> int:
    """Algorithm 3 as published, with a Bernoulli draw per link: the number of links until one is taken."""
    for looked, p in enumerate(probabilities_newest_first, start=1):
        if rng.random() < p:
            return looked
    return len(probabilities_newest_first)


def count_positions(walks_u: npt.NDArray[Any], walks_v: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """I_CAW of one pair from its walks' nodes [M, L]: [2, M, L, 2, L]."""
    M, L = walks_u.shape
    sets = (walks_u.tolist(), walks_v.tolist())
    hits = [[Counter(walk[j] for walk in walks) for j in range(L)] for walks in sets]
    counts = np.zeros((2, M, L, 2, L), np.int64)
    for side, walk, i in np.ndindex(2, M, L):
        node = sets[side][walk][i]
        if node >= 0:
            counts[side, walk, i] = [[hits[reference][j][node] for j in range(L)] for reference in range(2)]
    return counts
