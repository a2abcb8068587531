"""The most recent partners of every node, as lists that follow the stream; see `cawn.systems.dyrep_original`.

Message m is what link m // 2 does to its source (m even) or its destination (m odd).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.kernels.jit import njit

Array = npt.NDArray[Any]


@njit
def list_partners(
    src: Array,
    dst: Array,
    moments: Array,
    position: int,
    partners: Array,
    newest: Array,
    before: Array,
    writer: Array,
    sizes: Array,
) -> None:
    """Keep the K most recent partners of every node, and write what each message finds and changes.

    A new partner takes a free slot, or that of the partner whose last link is oldest.

    Args:
        src: Sources of consecutive links [n].
        dst: Destinations [n].
        moments: A number of each link's time [n], ascending.
        position: The position of the first link in the stream.
        partners: [N, K], changed; -1 in free slots.
        newest: The position of the last link with each partner [N, K], changed.
        before: The partners of the other end before the time of the link [2n, K], written.
        writer: For each slot of the owner the last message at this time, up to this one, that wrote to it [2n, K],
            written; -1 for none.
        sizes: The number of partners of the owner before the time of the link, and after the message [2n, 2], written.
    """
    num_slots = partners.shape[1]
    previous = np.full(partners.shape[0], -1)  # the last message to a node at the same time
    first = 0
    while first < src.size:
        last = first
        while last < src.size and moments[last] == moments[first]:
            last += 1
        for m in range(2 * first, 2 * last):
            before[m] = partners[dst[m // 2] if m % 2 == 0 else src[m // 2]]
        for m in range(2 * first, 2 * last):
            source, destination = src[m // 2], dst[m // 2]
            node, other = (source, destination) if m % 2 == 0 else (destination, source)
            slot, size = 0, 0
            for k in range(num_slots):
                size += partners[node, k] >= 0
            for k in range(num_slots):
                if partners[node, k] == other or partners[node, k] < 0:
                    slot = k
                    break
                if newest[node, k] < newest[node, slot]:
                    slot = k
            if previous[node] >= 0:
                writer[m] = writer[previous[node]]
                sizes[m, 0] = sizes[previous[node], 0]
            else:
                writer[m] = -1
                sizes[m, 0] = size
            sizes[m, 1] = size + (partners[node, slot] < 0)
            partners[node, slot], newest[node, slot] = other, position + m // 2
            writer[m, slot] = m
            previous[node] = m
        for m in range(2 * first, 2 * last):
            previous[src[m // 2] if m % 2 == 0 else dst[m // 2]] = -1
        first = last
