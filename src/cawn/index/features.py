"""Exact features of a pair (u, v) at time t, from the links before t.

Walks are drawn in proportion to a node's links, so they show where it links but not how often; and M walks see only a
sample of its links, although most links repeat earlier ones. These features are exact:

rates        decayed counts of the past links of u, of v and of the pair, at every decay; with `directed` also by the
             direction of the links (`kernels.rates` lists the parts)

and from the sequence of links of u, and again with u and v exchanged:

since        the number of links of u since the last link of the pair: the rank of v among the recent partners of u
two_steps    how often w and v have linked, over the last links (u, w)
transitions  P(v), P(v | u) and, for the last partners w of u, P(v | w): how often any node linked to w and next to v;
             from decayed counts, smoothed as in `cawn.systems.counts`

Simultaneous links are in canonical order, so that features do not depend on the order of rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.checks import Array
from cawn.index.index import Index
from cawn.index.kernels.lists import constant
from cawn.index.kernels.rates import AGES, LONGEST, fill_rates
from cawn.index.kernels.sequences import STRIDE, sequence_features
from cawn.index.kinds import DIRECTED, RATE_KINDS, RATES, SEQUENCE_KINDS, SEQUENCES, Kind, kinds_for
from cawn.kernels.threads import even_bounds, in_parallel

NO_SEQUENCES = {"since": False, "two_steps": False, "transitions": False}  # settings without features of sequences
SCALE = 0.15 / 0.70 * 1e6  # time units after which a link counts 1 / e in transitions; see `decays.time_unit`
RECENT = 24  # recent links used for two_steps
DEPTH = 5  # recent partners used for transitions
_PER_TASK = 2048  # pairs


class PairParts(NamedTuple):
    """Which features of pairs are used; `directed` applies to the rates only."""

    rates: bool = True
    directed: bool = True
    since: bool = True
    two_steps: bool = True
    transitions: bool = True

    @property
    def sequences(self) -> bool:
        """Whether features of the sequence of links are used."""
        return self.since or self.two_steps or self.transitions

    @property
    def any(self) -> bool:
        """Whether there are features at all."""
        return self.rates or self.sequences

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of lists they need, with those that walks need."""
        needs = {RATES: self.any, DIRECTED: self.rates and self.directed, SEQUENCES: self.sequences}
        return kinds_for(*(name for name, needed in needs.items() if needed))

    @property
    def live_kinds(self) -> tuple[Kind, ...]:
        """Those of an index that links are added to, with what `cawn.serve.recency` asks."""
        return self._replace(rates=True, directed=True).kinds

    def decay(self, unit: float) -> float:
        """The decay of transitions; 0 if there are none."""
        return 1 / (SCALE * unit) if self.sequences else 0.0

    def widths(self, num_decays: int) -> tuple[int, int]:
        """Number of rates, and of features from the sequence of each end."""
        rates = int(rate_columns(num_decays, directed=self.directed)[-1]) if self.rates else 0
        two_steps = 2 * -(-num_decays // STRIDE) + 1
        return rates, 2 * self.since + two_steps * self.two_steps + (2 + DEPTH) * self.transitions

    def width(self, num_decays: int) -> int:
        """Number of features per pair: the rates, then the features of the source, then of the destination."""
        rates, end = self.widths(num_decays)
        return rates + 2 * end


class PairFeatures:
    """Computes the features of pairs from an index of the network; times are measured in `unit`."""

    def __init__(self, parts: PairParts, index: Index, unit: float) -> None:
        self.parts, self.index, self.unit = parts, index, float(unit)

    def features(self, src: Array, dst: Array, t: Array, *, threads: int | None = None) -> npt.NDArray[np.float32]:
        """[B, `PairParts.width`]."""
        parts, common, lists = self.parts, self.index.common, self.index.every
        num_decays = len(common.alphas)
        out = np.empty((len(src), parts.width(num_decays)), np.float32)
        src, dst = (constant(np.ascontiguousarray(nodes, np.int64)) for nodes in (src, dst))
        times, tasks = constant(np.ascontiguousarray(t, common.t.dtype)), even_bounds(len(src), _PER_TASK)
        rates, end = parts.widths(num_decays)
        if parts.rates:
            columns = rate_columns(num_decays, directed=parts.directed)
            held = tuple(lists[kind] for kind in RATE_KINDS)
            wanted: Any = common, held, columns, (src, dst, times), self.unit, out
            in_parallel(partial(fill_rates, *wanted), tasks, threads)
        if parts.sequences:
            used = np.ascontiguousarray(common.alphas[::STRIDE]) if parts.two_steps else np.empty(0)
            settings = parts.since, RECENT * parts.two_steps, DEPTH * parts.transitions
            held = tuple(lists[kind] for kind in SEQUENCE_KINDS)
            for column, ends in ((rates, (src, dst)), (rates + end, (dst, src))):
                asked: Any = common, held, constant(used), settings, (*ends, times), out, column
                in_parallel(partial(sequence_features, *asked), tasks, threads)
        return out


def part_widths(num_decays: int) -> tuple[int, int, int]:
    """Number of features of a pair, of each of its ends, and of each directed count."""
    return num_decays + 1 + AGES, 2 * num_decays + 1, num_decays + 1


def rate_columns(num_decays: int, *, directed: bool) -> npt.NDArray[np.int64]:
    """Where each part of the rates starts, in the order of `kernels.rates`, and where the last ends."""
    pair, end, directed_count = part_widths(num_decays)
    return np.cumsum([0, pair, end, end, *[directed_count] * 3 * directed])


def in_units(span: Array, unit: float) -> Array:
    """Spans of time in units, at most LONGEST."""
    with np.errstate(over="ignore"):
        return np.minimum(span / unit, LONGEST)
