"""Index: everything that is asked of the past of a network, as lists of links, as of one version.

A version is the number of links it may see. An index that grows has many versions, which share their arrays; queries
of each find what an index of its links alone would find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.errors import QueryError
from cawn.index.building import Columns, build_lists, build_sums, build_totals, hash_table
from cawn.index.kernels import building, flattening
from cawn.index.kernels.lists import Lists, constant
from cawn.index.kernels.nodes import Nodes
from cawn.index.kernels.rates import Common
from cawn.index.kinds import KINDS, NEXT, NODES, WAYS, Kind

Array = npt.NDArray[Any]

MAX_EVENTS = 2**30
_NO_CHAIN = np.empty((0, 2), np.int64)


@dataclass(frozen=True, eq=False)
class Index:
    """The lists of some kinds, as of one version. Immutable.

    Args:
        t: The times of all links [E].
        alphas: The decays of walks and rates.
        decay: That of transitions.
        kinds: The arrays of each kind by name: its columns, "span" and "sums", "keys" and "slots" if it is keyed, and
            "chain" if lists were replaced.
        totals: The decayed count of all links at the end of every block; empty if transitions are not counted.
        firsts: The first entry of each node, ascending; likewise.
        version: Counts the changes of an index that grows.
    """

    t: Array
    num_nodes: int
    alphas: Array
    decay: float
    kinds: dict[str, Columns]
    totals: Array
    firsts: Array
    version: int = 0

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
    ) -> Index:
        """Index the events; `attributes` may order simultaneous links."""
        check_size(events)
        built = build_lists(events, alphas, decay, kinds, attributes=attributes, threads=threads)
        counts = NEXT in kinds
        totals = build_totals(events.t, decay) if counts else np.empty(0)
        seen = np.zeros(events.num_nodes, np.bool_)
        firsts = building.first_links(events.src, events.dst, 0, seen) if counts else np.empty(0, np.int32)
        return cls(events.t, events.num_nodes, alphas, decay, built, totals, firsts)

    def lists(self, kind: Kind) -> Lists:
        """The lists of a kind as kernels read them; empty if the index lacks it."""
        columns = self.kinds.get(kind.name) or _EMPTY
        link = columns["hop"][:, building.LINK] if kind is NODES else columns["link"]
        keys, slots = (columns.get(name, _EMPTY[name]) for name in ("keys", "slots"))
        arrays = columns["span"], link, columns["sums"], kind.decays(self.alphas, self.decay), keys, slots
        held = [constant(array) for array in (*arrays, columns.get("chain", _NO_CHAIN))]
        return Lists._make([*held, kind.bits, self.version])

    @cached_property
    def nodes(self) -> Nodes:
        """The lists of nodes, which walks are sampled from."""
        columns = self.kinds[NODES.name]
        arrays = *(columns[name] for name in ("span", "time", "hop", "logsum")), self.alphas
        held = [constant(array) for array in (*arrays, columns.get("chain", _NO_CHAIN))]
        return Nodes._make([*held, len(self.t), self.version])

    @cached_property
    def common(self) -> Common:
        """What features of pairs need beside lists."""
        partner = self.kinds.get("partners", _EMPTY)["partner"]
        arrays = self.t, self.alphas, self.nodes.time, self.nodes.logsum, partner, self.totals, self.firsts
        return Common(*map(constant, arrays))

    @cached_property
    def every(self) -> dict[Kind, Lists]:
        """The lists of all kinds."""
        return {kind: self.lists(kind) for kind in KINDS}

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays; those of an index that grows have room for more."""
        columns = [array for kind in self.kinds.values() for array in kind.values()]
        return sum(int(array.nbytes) for array in (*columns, self.totals, self.firsts))

    def flat(self) -> Index:
        """The same index with lists one after the other and without room, as if it had been built at once."""
        if not any("chain" in columns for columns in self.kinds.values()):
            return self
        flat, order = {}, None
        for kind in KINDS:
            if kind.name not in self.kinds:
                continue
            if kind is not WAYS:  # whose rows follow those of pairs
                order = None
            flat[kind.name], order = _flattened(self, kind, order)
        firsts = self.firsts[self.firsts < 2 * len(self.t)]
        totals = build_totals(self.t, self.decay) if NEXT.name in self.kinds else np.empty(0)
        return Index(self.t, self.num_nodes, self.alphas, self.decay, flat, totals, firsts)


def check_size(events: Events) -> None:
    """Raise QueryError if one index cannot hold so many links."""
    if len(events) >= MAX_EVENTS:
        raise QueryError(f"{len(events):,} events: one index holds fewer than 2**30; split the events by time")


def _flattened(index: Index, kind: Kind, order: Array | None) -> tuple[Columns, Array]:
    """The columns of a kind of a flat index, and the rows in the order in which it has them.

    Args:
        order: That of the pairs, for ways.
    """
    lists, held = index.lists(kind), index.kinds[kind.name]
    if kind.keyed:
        order = np.arange(len(lists.keys))
    elif kind is WAYS:
        assert order is not None
        order = np.stack([2 * order, 2 * order + 1], axis=1).ravel()
    else:
        order = np.arange(index.num_nodes)
    first, size = flattening.visible_lists(lists, order, len(index.t))
    if kind.keyed:
        order = order[size > 0]
        order = order[np.argsort(lists.keys[order])]
        first, size = flattening.visible_lists(lists, order, len(index.t))
    span, at = flattening.flat_spans(first, size)
    columns = {"span": span} | {
        name: np.ascontiguousarray(held[name][..., at] if name == "logsum" else held[name][at]) for name in kind.columns
    }
    link = columns["hop"][:, building.LINK] if kind is NODES else columns["link"]
    columns["sums"] = build_sums(kind, span, link, index.t, lists.decays, None)
    if kind.keyed:
        columns["keys"] = lists.keys[order]
        columns["slots"] = hash_table(columns["keys"])
    return columns, order


_EMPTY: Columns = {
    "span": np.empty(0, np.int64),
    "link": np.empty(0, np.int32),
    "partner": np.empty(0, np.int32),
    "sums": np.empty((0, 0)),
    "keys": np.empty(0, np.int64),
    "slots": np.full(4, -1, np.int32),
}
