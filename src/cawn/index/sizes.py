"""How much memory, disk and time an index takes, from the table of kinds."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cawn.index.features import PairParts
from cawn.index.kinds import DESTINATIONS, NEXT, NODES, ORIGINS, PAIRS, PARTNERS, SOURCES, TOTAL_BITS, WAYS, Kind

LINK_BYTES = 16  # of a link itself: source, destination, time


class LinkCounts(NamedTuple):
    """What the size of an index depends on, besides its settings."""

    links: int
    nodes: int
    pairs: int  # distinct ones, in either direction
    transitions: int  # distinct pairs of consecutive partners

    @classmethod
    def at_most(cls, links: int, nodes: int, pairs: int | None = None, transitions: int | None = None) -> LinkCounts:
        """Those that are not given are of links of which none repeats another."""
        return cls(links, nodes, links if pairs is None else pairs, 2 * links if transitions is None else transitions)

    def of(self, kind: Kind) -> tuple[int, int]:
        """The numbers of entries and rows of a kind, at most."""
        entries = {NODES: 2, PARTNERS: 2, PAIRS: 1, WAYS: 1, SOURCES: 1, DESTINATIONS: 1, NEXT: 2, ORIGINS: 2}[kind]
        rows = {PAIRS: self.pairs, WAYS: 2 * self.pairs, NEXT: self.transitions}.get(kind, self.nodes)
        return entries * self.links, rows


def index_bytes(counts: LinkCounts, num_decays: int, parts: PairParts) -> int:
    """Bytes of an index, in memory and in files."""
    found = (8 * counts.links >> TOTAL_BITS) + 4 * counts.nodes if parts.sequences else 0
    for kind in parts.kinds:
        num_sums = len(kind.decays(np.empty(num_decays), float(parts.sequences)))
        arrays = kind.arrays(*counts.of(kind), num_decays, num_sums).values()
        found += sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in arrays)
    return found


def memory_to_build(counts: LinkCounts, num_decays: int, parts: PairParts) -> int:
    """Bytes of memory while an index is built at once, with its links."""
    building = 52 + 4 * parts.any + 36 * parts.sequences  # rows, positions and what is sorted, measured
    return index_bytes(counts, num_decays, parts) + counts.links * (LINK_BYTES + building) + 16 * counts.nodes


def temporary_bytes(counts: LinkCounts, parts: PairParts) -> int:
    """Bytes of temporary files while an index is built in files, at most."""
    return counts.links * (48 + 4 * parts.sequences)
