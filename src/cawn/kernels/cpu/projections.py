"""Random projections of time-decayed walk matrices, link by link; see `cawn.systems.tpnet`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.kernels.jit import inline, njit

Array = npt.NDArray[Any]

_LARGEST = np.float32(1e15)


@inline
def _limited(x: np.float32) -> np.float32:
    """x between -1e15 and 1e15, so that inner products are finite in float32 however many walks there are."""
    return min(max(x, -_LARGEST), _LARGEST)


@njit
def project(
    u: Array, v: Array, t: Array, decay: float, now: Array, before: Array, updated: Array, after_links: Array
) -> None:
    """Advance the projections H^0..H^k of all nodes by some links, and write those of both ends after each link.

    A link adds H^(l-1) of either end to H^l of the other, both as they were before its time, so simultaneous links do
    not see each other. Vectors are stored relative to the time of their last update: level l decays by
    exp(-decay * l * gap), which is safe for any unit of time.

    Args:
        u, v: Ends of the links [E], in the order of time.
        t: Their times [E].
        decay: Lambda, per unit of time.
        now: Projections [N, k+1, d] at `updated`; changed in place.
        before: Projections [N, k+1, d] before the links at `updated`; changed in place.
        updated: The time of each node's last update [N]; changed in place.
        after_links: Output [E, 2, k+1, d], the projections of u and of v after each link.
    """
    levels, width = now.shape[1], now.shape[2]
    first = 0
    while first < u.size:
        last = first
        while last < u.size and t[last] == t[first]:
            for node in (u[last], v[last]):
                if updated[node] != t[last]:
                    factor, power = np.exp(-decay * float(t[last] - updated[node])), 1.0
                    for level in range(1, levels):
                        power *= factor
                        for i in range(width):
                            now[node, level, i] *= power
                            before[node, level, i] = now[node, level, i]
                    updated[node] = t[last]
            last += 1
        for e in range(first, last):
            a, b = u[e], v[e]
            for level in range(1, levels):
                for i in range(width):
                    now[a, level, i] = _limited(now[a, level, i] + before[b, level - 1, i])
                for i in range(width):
                    now[b, level, i] = _limited(now[b, level, i] + before[a, level - 1, i])
            after_links[e, 0] = now[a]
            after_links[e, 1] = now[b]
        first = last
