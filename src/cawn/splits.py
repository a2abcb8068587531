"""Which links train, which validate, which test; and, for the inductive task, which nodes are hidden until then."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from cawn.checks import check_choice
from cawn.errors import DataError, QueryError
from cawn.events import Events

Task = Literal["transductive", "inductive"]

TRAIN_UNTIL, VALIDATE_UNTIL = 0.70, 0.85  # quantiles of the link times
HIDDEN_SHARE = 0.10  # of all nodes

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Split:
    """Positions in the events, in the order of time. `test` holds the test links by kind, which are reported apart.

    Links before a query are its history whichever part they are of, but for those of hidden nodes in training and
    validation.
    """

    task: Task
    train: Positions
    val: Positions
    test: dict[str, Positions]
    hidden: npt.NDArray[np.bool_]  # [num_nodes]
    visible: npt.NDArray[np.bool_]  # [E], links that training and validation may see

    @property
    def digest(self) -> str:
        """A name for exactly this split: results are comparable only where it agrees."""
        return digest(self.train, self.val, *(self.test[kind] for kind in sorted(self.test)), self.hidden)


def split(events: Events, task: Task, *, seed: int) -> Split:
    """Cut at the 70 % and 85 % quantiles of the link times; links of equal time stay together.

    Inductive: a tenth of all nodes, drawn from those that occur after the training period, are hidden. Links that
    touch them leave training and validation and become the test: `new-new` where both ends are hidden,
    `new-old` where one is.
    """
    check_choice(task, "task", get_args(Task))
    if len(events) == 0:
        raise DataError("no links to split")
    ends = np.quantile(events.t, [TRAIN_UNTIL, VALIDATE_UNTIL], method="lower")  # exact for any time
    period = np.searchsorted(ends, events.t, side="left")  # 0: t <= first end, 1, 2
    hidden = np.zeros(events.num_nodes, np.bool_)
    if task == "inductive":
        later = by_appearance(events)
        later = later[np.isin(later, np.concatenate([events.src[period > 0], events.dst[period > 0]]))]
        count = min(int(HIDDEN_SHARE * events.num_nodes), len(later))
        hidden[np.random.default_rng(seed).choice(later, count, replace=False)] = True
    touched = hidden[events.src].astype(np.int8) + hidden[events.dst]
    visible = touched == 0
    tested = period == 2
    test = (
        {"all": np.flatnonzero(tested)}
        if task == "transductive"
        else {"new-new": np.flatnonzero(tested & (touched == 2)), "new-old": np.flatnonzero(tested & (touched == 1))}
    )
    found = Split(
        task=task,
        train=np.flatnonzero((period == 0) & visible),
        val=np.flatnonzero((period == 1) & visible),
        test=test,
        hidden=hidden,
        visible=visible,
    )
    sizes = {"train": len(found.train), "val": len(found.val), "test": sum(map(len, test.values()))}
    if short := [name for name, size in sizes.items() if size == 0]:
        raise DataError(
            f"{len(events):,} links are too few, or at too few times, for the {task} task: none is left to {short[0]}"
        )
    return found


def by_appearance(events: Events) -> npt.NDArray[np.int32]:
    """The nodes that occur, in the order of their first links, sources first: the same whatever they are called."""
    nodes, first = np.unique(np.stack([events.src, events.dst], axis=1), return_index=True)
    return np.asarray(nodes[np.argsort(first)])


def snapshots(events: Events, count: int) -> npt.NDArray[np.int64]:
    """The snapshot, from 0, that each link falls into when the time range is cut into `count` even parts: [E].

    Snapshot systems predict once for each pair in a snapshot; a link that repeats in it counts as often as it appears.
    """
    if count < 1:
        raise QueryError(f"count is {count}: give the number of snapshots")
    if len(events) == 0:
        return np.empty(0, np.int64)
    start, span = events.t[0], events.t[-1] - events.t[0]
    share = (events.t - start) / max(float(span), np.finfo(float).tiny)
    return np.asarray(np.minimum((share * count).astype(np.int64), count - 1))


def snapshot_split(count: int) -> tuple[int, int, int]:
    """How many snapshots train, validate and test: as near to 70:15:15 as they allow (the paper's Table 5)."""
    if count < 3:
        raise QueryError(f"count is {count}: three parts need three snapshots or more")
    test = val = max(round(count * (1 - VALIDATE_UNTIL) + 1e-9), 1)
    return count - val - test, val, test


def digest(*arrays: npt.NDArray[Any]) -> str:
    """Twelve hexadecimal digits that name the contents of arrays."""
    state = hashlib.sha256()
    for array in arrays:
        state.update(f"{array.dtype}{array.shape}".encode())
        state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()[:12]
