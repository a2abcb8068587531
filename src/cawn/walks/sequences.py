"""Exact features of pairs from the sequence of links of each end.

For a pair (u, v) at time t, and again with u and v exchanged:

since        the number of links of u since the last link of the pair: the rank of v among the recent partners of u
two_steps    how often w and v have linked, over the last links (u, w)
transitions  P(v), P(v | u) and, for the last partners w of u, P(v | w): how often any node linked to w and next to v;
             from decayed counts, smoothed as in `cawn.systems.counts`

Simultaneous links are in canonical order, so that features do not depend on the order of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.data.ties import in_canonical_order
from cawn.kernels.cpu.rates import hash_table
from cawn.kernels.cpu.sequences import FlatLists, Lists, decayed_counts, sequence_features
from cawn.kernels.cpu.spans import Spans, constant
from cawn.kernels.threads import even_bounds, in_parallel
from cawn.walks.rates import DecayedCounts

Array = npt.NDArray[Any]

SCALE = 0.15 / 0.70 * 1e6  # time units after which a link counts 1 / e in transitions; see `decays.time_unit`
PARTNERS = 24  # recent links used for two_steps
STRIDE = 2  # two_steps use every second decay
DEPTH = 5  # recent partners used for transitions
_PAIRS_PER_TASK = 4096

STORED = (
    *("starts", "time", "partner", "activity", "pair_sum"),
    *("next_keys", "next_starts", "next_time", "next_sum", "from_starts", "from_time", "from_sum"),
    *("all_sum", "first_time"),
)

_SHARED = (  # arrays of `FlatLists` that kernels on the CPU read too
    *("time", "activity", "partner", "pair_keys", "pair_time", "pair_logsum", "pair_sum"),
    *("next_keys", "next_time", "next_sum", "from_time", "from_sum", "all_time", "all_sum", "first_time", "alphas"),
)


class SequenceParts(NamedTuple):
    """Which features are computed."""

    since: bool = True
    two_steps: bool = True
    transitions: bool = True

    def width(self, num_decays: int) -> int:
        """Number of features of each end."""
        two_steps = 2 * -(-num_decays // STRIDE) + 1
        return 2 * self.since + two_steps * self.two_steps + (2 + DEPTH) * self.transitions


class Sequences:
    """The links of every node in time order, and how often one partner follows another.

    Args:
        arrays: The index by name, see `arrays`.
        events: The network.
        pairs: The decayed counts of its undirected pairs.
        unit: The unit of time of the model.
    """

    _flatten: Callable[[], FlatLists]  # of a version of lists that grow

    def __init__(self, arrays: dict[str, Array], events: Events, pairs: DecayedCounts, unit: float) -> None:
        nodes = np.arange(events.num_nodes + 1) << 32
        self.flat = FlatLists(
            **arrays,
            pair_rows=np.searchsorted(pairs.keys, nodes),
            pair_keys=pairs.keys,
            pair_starts=pairs.starts,
            pair_time=pairs.time,
            pair_logsum=pairs.logsum,
            next_rows=np.searchsorted(arrays["next_keys"], nodes),
            all_time=events.t,
            alphas=pairs.alphas,
            scale=SCALE * unit,
        )

    @classmethod
    def of_version(cls, lists: Lists, flatten: Callable[[], FlatLists]) -> Sequences:
        """One version of lists that grow; `flatten` returns it with lists one after the other."""
        sequences = cls.__new__(cls)
        sequences.lists, sequences._flatten = lists, flatten
        return sequences

    def __reduce__(self) -> tuple[Any, ...]:
        return Sequences.of_flat, (self.flat,)

    @classmethod
    def of_flat(cls, flat: FlatLists) -> Sequences:
        """From lists one after the other."""
        sequences = cls.__new__(cls)
        sequences.flat = flat
        return sequences

    @cached_property
    def flat(self) -> FlatLists:
        """The index with lists one after the other."""
        return self._flatten()

    @cached_property
    def lists(self) -> Lists:
        """The index as the kernel reads it."""
        flat = self.flat
        nodes = Spans.of(flat.starts)
        shared = {name: constant(getattr(flat, name)) for name in _SHARED}
        return Lists(
            nodes=nodes,
            partners=nodes,
            pairs=Spans.of(flat.pair_starts),
            pair_slots=constant(hash_table(flat.pair_keys)),
            next=Spans.of(flat.next_starts),
            next_slots=constant(hash_table(flat.next_keys)),
            origins=Spans.of(flat.from_starts),
            scale=float(flat.scale),
            **shared,
        )

    @classmethod
    def of(cls, events: Events, pairs: DecayedCounts, unit: float) -> Sequences:
        """Index the events."""
        scale = SCALE * unit
        owner, partner, t = _sides(events)
        nodes = np.arange(events.num_nodes + 1)
        order = np.argsort(owner, kind="stable")
        starts, time, partner_of = np.searchsorted(owner[order], nodes), t[order], partner[order]
        follows = np.flatnonzero(owner[order][1:] == owner[order][:-1]) + 1  # entries with an earlier one in their list
        in_time = np.argsort(order[follows], kind="stable")
        before, after, when = partner_of[follows - 1][in_time], partner_of[follows][in_time], time[follows][in_time]
        keys = before << 32 | after
        next_order, from_order = np.argsort(keys, kind="stable"), np.argsort(before, kind="stable")
        next_keys, first = np.unique(keys[next_order], return_index=True)
        next_starts, next_time = np.append(first, len(keys)).astype(np.int64), when[next_order]
        from_starts, from_time = np.searchsorted(before[from_order], nodes), when[from_order]
        arrays = {
            "starts": starts,
            "time": time,
            "partner": partner_of.astype(np.int32),
            "activity": decayed_counts(starts, time, scale),
            "pair_sum": decayed_counts(pairs.starts, pairs.time, scale),
            "next_keys": next_keys,
            "next_starts": next_starts,
            "next_time": next_time,
            "next_sum": decayed_counts(next_starts, next_time, scale),
            "from_starts": from_starts,
            "from_time": from_time,
            "from_sum": decayed_counts(from_starts, from_time, scale),
            "all_sum": decayed_counts(np.array([0, len(events)]), events.t, scale),
            "first_time": np.sort(time[starts[:-1][np.diff(starts) > 0]]),
        }
        return cls(arrays, events, pairs, unit)

    @property
    def arrays(self) -> dict[str, Array]:
        """What run folders store; the rest of the index is derived from it, from the events and from `Rates`."""
        return {name: getattr(self.flat, name) for name in STORED}

    def features(
        self, nodes: Array, others: Array, t: Array, parts: SequenceParts, *, threads: int | None = None
    ) -> npt.NDArray[np.float32]:
        """The features of one end of each pair, given the other: [B, parts.width]."""
        out = np.empty((len(nodes), parts.width(len(self.lists.alphas))), np.float32)
        work = partial(
            sequence_features,
            nodes.astype(np.int64),
            others.astype(np.int64),
            np.ascontiguousarray(t, self.lists.time.dtype),
            self.lists,
            parts.since,
            PARTNERS * parts.two_steps,
            STRIDE,
            DEPTH * parts.transitions,
            out,
        )
        in_parallel(work, even_bounds(len(nodes), _PAIRS_PER_TASK), threads)
        return out


def _sides(events: Events) -> tuple[Array, Array, Array]:
    """Each link as seen by its source, then by its destination: node, partner and time; a self-loop once.

    The order of simultaneous links does not depend on the unit of time.
    """
    times, moment = np.unique(events.t, return_inverse=True)
    links = in_canonical_order(events.with_times(moment), equal_by_rows=True)
    src, dst = links.src.astype(np.int64), links.dst.astype(np.int64)
    once = np.stack([np.ones(len(src), np.bool_), src != dst], axis=1).ravel()
    owner, partner = (np.stack(ends, axis=1).ravel()[once] for ends in ((src, dst), (dst, src)))
    return owner, partner, np.repeat(times[links.t], 2)[once]
