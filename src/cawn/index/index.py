"""Index: everything that is asked of the past of a network, as lists of links, as of one version.

A version is the number of links it may see. An index that grows has many versions, which share their arrays; queries
of each find what an index of its links alone would find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cawn.checks import Array
from cawn.data.events import Events
from cawn.errors import QueryError
from cawn.index.building import Columns, as_lists, build_lists, hash_table, moved_lists
from cawn.index.kernels import building
from cawn.index.kernels.lists import EXACT, START_BITS, Lists, constant, visible_lists
from cawn.index.kernels.nodes import Nodes
from cawn.index.kernels.rates import Common
from cawn.index.kinds import ALL, KINDS, NEXT, NODES, PARTNERS, TOTAL_BITS, WAYS, Kind

MAX_EVENTS = 2**30


@dataclass(frozen=True, eq=False)
class Index:
    """The lists of some kinds, as of one version. Immutable.

    The arrays of each kind are its columns, "span" and "sums", "keys" and "slots" if it is keyed, and "chain" if lists
    have room to grow. Where transitions are counted, `ALL` has "totals", the decayed count of all links at the end of
    every block, and "firsts", the first entry of each node, ascending.
    """

    t: Array  # the times of all links [E]
    num_nodes: int
    alphas: Array  # the decays of walks and rates
    decay: float  # that of transitions
    kinds: dict[str, Columns]
    version: int = 0  # counts the changes of an index that grows

    @classmethod
    def of(
        cls,
        events: Events,
        alphas: Array,
        kinds: Sequence[Kind] = (NODES,),
        decay: float = 0.0,
        *,
        attributes: bool = True,
        threads: int | None = None,
        room: bool = False,
    ) -> Index:
        """Index the events; `attributes` may order simultaneous links. With `room`, for one `GrowingIndex` alone."""
        check_size(events)
        built = build_lists(events, alphas, decay, kinds, attributes=attributes, threads=threads, room=room)
        if NEXT in kinds:
            firsts = building.first_links(events.src, events.dst, 0, np.zeros(events.num_nodes, np.bool_))
            built[ALL] = {"totals": building.totals_from(events.t, decay, TOTAL_BITS, 0, 0.0), "firsts": firsts}
        return cls(events.t, events.num_nodes, alphas, decay, built)

    def lists(self, kind: Kind) -> Lists:
        """The lists of a kind as kernels read them; empty if the index lacks it."""
        return as_lists(kind, self.kinds.get(kind.name, {}), kind.decays(self.alphas, self.decay), self.version)

    @cached_property
    def nodes(self) -> Nodes:
        """The lists of nodes, which walks are sampled from."""
        columns, chain = self.kinds[NODES.name], self.lists(NODES).chain
        arrays = *(columns[name] for name in ("span", "time", "hop", "logsum")), self.alphas, chain
        return Nodes._make([*map(constant, arrays), len(self.t), self.version])

    @cached_property
    def common(self) -> Common:
        """What features of pairs need beside lists."""
        partner = self.kinds[PARTNERS.name]["partner"] if PARTNERS.name in self.kinds else np.empty(0, np.int32)
        rest = self.kinds.get(ALL, {"totals": np.empty(0), "firsts": np.empty(0, np.int32)})
        arrays = self.t, self.alphas, self.nodes.time, self.nodes.logsum, partner, rest["totals"], rest["firsts"]
        return Common(*map(constant, arrays))

    @cached_property
    def every(self) -> dict[Kind, Lists]:
        """The lists of all kinds."""
        return {kind: self.lists(kind) for kind in KINDS}

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays; those of an index that grows have room for more."""
        return sum(int(array.nbytes) for columns in self.kinds.values() for array in columns.values())

    def flat(self) -> Index:
        """The same index with lists one after the other and without room, as if it had been built at once."""
        if not any("chain" in columns for columns in self.kinds.values()):
            return self
        flat, order = dict[str, Columns](), np.empty(0, np.int64)
        for kind in KINDS:
            if kind.name in self.kinds:
                order = self._order(kind, order)
                flat[kind.name] = self._flattened(kind, order)
        if rest := self.kinds.get(ALL):
            totals, firsts = rest["totals"][: len(self.t) >> TOTAL_BITS], rest["firsts"]
            flat[ALL] = {"totals": totals, "firsts": firsts[firsts < 2 * len(self.t)]}
        return Index(self.t, self.num_nodes, self.alphas, self.decay, flat)

    def _order(self, kind: Kind, pairs: Array) -> Array:
        """The rows of a kind in the order in which a flat index has them; `pairs` are those of pairs, for ways."""
        if kind is WAYS:
            return np.stack([2 * pairs, 2 * pairs + 1], axis=1).ravel()
        if not kind.keyed:
            return np.arange(self.num_nodes)
        lists = self.lists(kind)
        _, size = visible_lists(lists, np.arange(len(lists.keys)), len(self.t))
        rows = np.flatnonzero(size)
        return rows[np.argsort(lists.keys[rows])]

    def _flattened(self, kind: Kind, rows: Array) -> Columns:
        """The columns of a kind of a flat index."""
        lists, held = self.lists(kind), self.kinds[kind.name]
        first, size = visible_lists(lists, rows, len(self.t))
        start = np.cumsum(size) - size
        columns: Columns = {"span": start << START_BITS | EXACT | size}
        columns |= moved_lists(kind, held, first, start, size, int(size.sum()))
        if kind.keyed:
            columns["keys"] = lists.keys[rows]
            columns["slots"] = hash_table(columns["keys"])
        return columns


def check_size(events: Events) -> None:
    """Raise QueryError if one index cannot hold so many links."""
    if len(events) >= MAX_EVENTS:
        raise QueryError(f"{len(events):,} events: one index holds fewer than 2**30; split the events by time")
