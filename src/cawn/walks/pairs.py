"""All exact features of a pair: decayed counts (`Rates`), and features of the sequences of links of its ends."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.walks.history import History
from cawn.walks.rates import Rates, rates_width
from cawn.walks.sequences import SequenceParts, Sequences

Array = npt.NDArray[Any]

NO_SEQUENCES = {"since": False, "two_steps": False, "transitions": False}  # settings without `Sequences`


class PairParts(NamedTuple):
    """Which features of pairs are used; `directed` applies to the rates only."""

    rates: bool = True
    directed: bool = True
    since: bool = True
    two_steps: bool = True
    transitions: bool = True

    @property
    def sequences(self) -> SequenceParts:
        return SequenceParts(self.since, self.two_steps, self.transitions)

    @property
    def any(self) -> bool:
        """Whether there are features at all."""
        return self.rates or any(self.sequences)

    def widths(self, num_decays: int) -> tuple[int, int]:
        """Number of rates, and of features from the sequence of each end."""
        rates = rates_width(num_decays, directed=self.directed) if self.rates else 0
        return rates, self.sequences.width(num_decays)

    def width(self, num_decays: int) -> int:
        """Number of features per pair: the rates, then the features of the source, then of the destination."""
        rates, end = self.widths(num_decays)
        return rates + 2 * end


class PairFeatures:
    """Computes the features of pairs from an index of the network.

    Args:
        sequences: None if `parts` needs none.
        unit: The unit of time of the model.
    """

    def __init__(self, parts: PairParts, rates: Rates, sequences: Sequences | None, unit: float) -> None:
        self.parts, self.rates, self.sequences, self.unit = parts, rates, sequences, unit

    @classmethod
    def of(
        cls, parts: PairParts, events: Events, history: History, unit: float, *, attributes: bool = True
    ) -> PairFeatures | None:
        """Index the events; None if no features are used. `attributes` may order simultaneous links."""
        if not parts.any:
            return None
        if not attributes:
            events = Events(events.src, events.dst, events.t, num_nodes=events.num_nodes)
        rates = Rates(events, history, directed=parts.rates and parts.directed)
        return cls(parts, rates, Sequences.of(events, rates.pairs, unit) if any(parts.sequences) else None, unit)

    @classmethod
    def adopt(
        cls, parts: PairParts, arrays: dict[str, Array], events: Events, history: History, unit: float
    ) -> PairFeatures | None:
        """Rebuild from `arrays`; those read from a file must pass `check_pairs` first."""
        if not parts.any:
            return None
        rates = Rates.adopt(named(arrays, "rates."), history)
        lists = named(arrays, "sequences.")
        return cls(parts, rates, Sequences(lists, events, rates.pairs, unit) if any(parts.sequences) else None, unit)

    @property
    def arrays(self) -> dict[str, Array]:
        """The index by name as stored in run folders."""
        found = {f"rates.{name}": array for name, array in self.rates.arrays.items()}
        if self.sequences is not None:
            found |= {f"sequences.{name}": array for name, array in self.sequences.arrays.items()}
        return found

    def features(self, src: Array, dst: Array, t: Array, *, threads: int | None = None) -> npt.NDArray[np.float32]:
        """[B, `PairParts.width`]."""
        found = []
        if self.parts.rates:
            found.append(self.rates.features(src, dst, t, self.unit, threads=threads))
        if self.sequences is not None:
            for ends in ((src, dst), (dst, src)):
                found.append(self.sequences.features(*ends, t, self.parts.sequences, threads=threads))
        return np.concatenate(found, axis=1) if len(found) > 1 else found[0]


def named(arrays: dict[str, Array], prefix: str) -> dict[str, Array]:
    """The arrays whose names start with a prefix, by their names without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
