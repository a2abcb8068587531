"""The order of links with equal times; see `cawn.data.ties`."""

from __future__ import annotations

import numpy as np

from cawn.checks import Array
from cawn.kernels.jit import njit, prefetch
from cawn.kernels.rng import GOLDEN_64, mix64

_DESTINATION = np.uint64(0x5851F42D4C957F2D)  # separates the hash of a destination from that of a source


@njit
def simultaneous_keys(src: Array, dst: Array, attributes: Array, colours: Array, keys: Array) -> None:
    """The keys of links at one time, given the colours before it."""
    for e in range(src.size):
        u, v = mix64(colours[src[e]]), mix64(colours[dst[e]] ^ _DESTINATION)
        keys[e] = mix64(mix64(u + GOLDEN_64 * v) ^ attributes[e])


@njit
def link_keys(
    src: Array, dst: Array, time_bits: Array, attributes: Array, colours: Array, sums: Array, keys: Array
) -> None:
    """Write a key per link that depends on the pasts of its ends, its time and its attributes, not on ids or rows.

    `colours` [N] start with a hash of each node's attributes. After every time, the colour of a node with links at that
    time becomes a hash of its old colour and of these links, as in the Weisfeiler-Lehman test. `sums` [N] uint64 is
    scratch, all 0 before and after.
    """
    for e in range(src.size):
        prefetch(colours, src[e])
        prefetch(colours, dst[e])
        prefetch(sums, src[e])
        prefetch(sums, dst[e])
    first = 0
    while first < src.size:
        last = first
        while last < src.size and time_bits[last] == time_bits[first]:
            last += 1
        simultaneous_keys(src[first:last], dst[first:last], attributes[first:last], colours, keys[first:last])
        for e in range(first, last):
            sums[src[e]] += mix64(keys[e])
            sums[dst[e]] += mix64(keys[e] ^ _DESTINATION)
        for e in range(first, last):
            for node in (src[e], dst[e]):
                if sums[node] != 0:
                    colours[node] = mix64(mix64(colours[node] ^ time_bits[e]) + sums[node])
                    sums[node] = 0
        first = last
