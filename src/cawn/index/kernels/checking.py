"""Whether arrays from a file can be read without checks; see `cawn.index.stored`."""

from __future__ import annotations

from cawn.checks import Array
from cawn.index.kernels.building import CUT, LINK, NODE
from cawn.index.kernels.lists import EXACT, LENGTH, START_BITS
from cawn.kernels.jit import njit


@njit
def spans_are_inside(span: Array, size: int) -> bool:
    """Whether spans are those of lists one after the other that fill `size` entries."""
    start = 0
    for row in range(span.size):
        length = span[row] & LENGTH
        if span[row] != (start << START_BITS | EXACT | length):
            return False
        start += length
    return start == size


@njit
def hops_are_sound(span: Array, hop: Array, time: Array, t: Array) -> bool:
    """Whether every hop leads to a node, to no more entries than its list has, and has the time of its link."""
    for i in range(len(hop)):
        node, link, cut = hop[i, NODE], hop[i, LINK], hop[i, CUT]
        if not (0 <= node < span.size and 0 <= link < 2 * t.size and 0 <= cut <= span[node] & LENGTH):
            return False
        if time[i] != t[link >> 1]:
            return False
    return True
