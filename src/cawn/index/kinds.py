"""The one table of the kinds of lists that an index has.

Whatever builds, extends, stores, checks or copies lists goes through it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cawn.checks import Array
from cawn.index.kernels.lists import block_rows, num_slots

Shapes = dict[str, tuple[tuple[int, ...], Any]]

ALPHAS, TRANSITIONS = "alphas", "transitions"  # the decays of walks and rates, and that of transitions
RATES, DIRECTED, SEQUENCES = "rates", "directed", "sequences"  # the features of pairs that need a kind


class Kind(NamedTuple):
    """Lists with an entry for each link of a row."""

    name: str
    needed_for: str  # "" for walks
    sums: tuple[str, ...]  # the decays of its sums
    bits: int  # sums are stored after every 2 ** bits entries
    columns: tuple[str, ...] = ("link",)
    keyed: bool = False  # rows are found by a pair of nodes; else they are numbered like nodes

    def decays(self, alphas: Array, decay: float) -> Array:
        """The decays of its sums; a `decay` of 0 stands for no transitions."""
        own = np.array([decay] if decay else [])
        return np.concatenate([np.empty(0), *(alphas if name == ALPHAS else own for name in self.sums)])

    def arrays(self, entries: int, rows: int, num_decays: int, num_sums: int, times: Any = np.int64) -> Shapes:
        """The shape and type of each of its arrays, whose lists come one after the other, by name."""
        columns: Shapes = {
            "time": ((entries,), times),
            "hop": ((entries, 3), np.int32),
            "logsum": ((num_decays, entries), np.float64),
            "link": ((entries,), np.int32),
            "partner": ((entries,), np.int32),
            "sums": ((block_rows(entries, self.bits), num_sums), np.float64),
        }
        found: Shapes = {"span": ((rows,), np.int64)} | {name: columns[name] for name in (*self.columns, "sums")}
        return found | ({"keys": ((rows,), np.int64), "slots": ((num_slots(rows),), np.int32)} if self.keyed else {})


NODES = Kind("nodes", "", (TRANSITIONS,), 1, ("time", "hop", "logsum"))  # each link twice, as its two ends see it
PAIRS = Kind("pairs", RATES, (ALPHAS, TRANSITIONS), 2, keyed=True)  # of two nodes, in either direction
WAYS = Kind("ways", DIRECTED, (ALPHAS,), 4)  # rows 2 * row of the pair, and the next for links to the smaller id
SOURCES = Kind("sources", DIRECTED, (ALPHAS,), 4)
DESTINATIONS = Kind("destinations", DIRECTED, (ALPHAS,), 4)
PARTNERS = Kind("partners", SEQUENCES, (), 4, ("link", "partner"))  # those of nodes, in canonical order (`data.ties`)
NEXT = Kind("next", SEQUENCES, (TRANSITIONS,), 1, keyed=True)  # two consecutive partners of any node
ORIGINS = Kind("origins", SEQUENCES, (TRANSITIONS,), 1)  # the first of two consecutive partners

KINDS = (NODES, PAIRS, WAYS, SOURCES, DESTINATIONS, PARTNERS, NEXT, ORIGINS)
RATE_KINDS = NODES, PAIRS, WAYS, SOURCES, DESTINATIONS  # what kernels of features read, in this order
SEQUENCE_KINDS = NODES, PAIRS, PARTNERS, NEXT, ORIGINS
ALL = "all"  # links: besides the kinds, arrays about them where transitions are counted
TOTAL_BITS = 4  # the decayed count of all links is stored after every 2 ** TOTAL_BITS links


def kinds_for(*needs: str) -> tuple[Kind, ...]:
    """The kinds that walks and these features need."""
    return tuple(kind for kind in KINDS if kind.needed_for in ("", *needs))
