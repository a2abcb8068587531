"""Training, validation and test links; for the inductive task, also the nodes that are hidden until the test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.data.hashing import digest
from cawn.data.times import format_time
from cawn.errors import DataError, QueryError, StorageError
from cawn.learn import dyglib
from cawn.learn.task import Nodes, Task, TimeSplit
from cawn.systems.choices import by_first_link

TRAINING_LINKS, ALL_LINKS = "training links", "all links"  # what weights were trained on
HIDDEN_SHARE = 0.10  # of all nodes
PUBLISHED_QUANTILES = (0.70, 0.85)  # of all protocols but "strict"

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Split:
    """Positions in the events, in time order. `test` holds the test links by kind; kinds are reported separately.

    The history of a query is all links before it, from any part; in training and validation, links of hidden nodes are
    excluded.
    """

    task: Task
    train: Positions
    val: Positions
    test: dict[str, Positions]
    hidden: npt.NDArray[np.bool_]  # [num_nodes]
    visible: npt.NDArray[np.bool_]  # [E], links that training and validation may see
    first_test: int  # position of the first link of the test period

    @property
    def digest(self) -> str:
        """Identifies this split: results are comparable only if their digests are equal."""
        return digest(self.train, self.val, *(self.test[kind] for kind in sorted(self.test)), self.hidden)


def split(events: Events, task: Task | Nodes, *, seed: int) -> Split:
    """Cut the links by time, by default at the 70 % and 85 % quantiles of their times; see `TimeSplit`.

    Inductive: a tenth of all nodes, drawn from those that occur after the training period, are hidden. Their
    links are excluded from training and validation, and those in the test period are the test links: `new-new` if both
    ends are hidden, `new-old` if one is.

    Protocol "dyglib": nodes are hidden as for the inductive task, and there are two overlapping parts of test links:
    `transductive`, all of the test period, and `inductive`, those with an end that has no training link. All protocols
    but "strict" split at quantiles that NumPy interpolates between two times, as published code does.
    """
    if len(events) == 0:
        raise DataError("no links to split")
    task = Task.of(task).on(events)
    strict = task.protocol == "strict"
    if strict and task.nodes == "transductive":
        found = _by_time(events, task)
    else:
        period = task.split.periods(events) if strict else _published_periods(events)
        found = _by_nodes(events, task, period, _hidden_nodes(events, task, period, seed))
    _refuse_empty(found, events)
    return found


def _by_time(events: Events, task: Task) -> Split:
    """All links by their period. The mask of visible links takes no memory, however many there are."""
    until, start = task.split.bounds(events)
    hidden, visible = np.zeros(events.num_nodes, np.bool_), np.broadcast_to(np.True_, (len(events),))
    test = {"all": np.arange(start, len(events))}
    return Split(task, np.arange(until), np.arange(until, start), test, hidden, visible, start)


def _hidden_nodes(events: Events, task: Task, period: Positions, seed: int) -> npt.NDArray[np.bool_]:
    """The nodes that are hidden until the test: [num_nodes]."""
    if task.protocol == "dyglib":
        return dyglib.hidden_nodes(events, period > 0, HIDDEN_SHARE)
    hidden = np.zeros(events.num_nodes, np.bool_)
    if task.nodes == "inductive":
        later = by_appearance(events)
        later = later[np.isin(later, np.concatenate([events.src[period > 0], events.dst[period > 0]]))]
        count = min(int(HIDDEN_SHARE * events.num_nodes), len(later))
        hidden[np.random.default_rng(seed).choice(later, count, replace=False)] = True
    return hidden


def _by_nodes(events: Events, task: Task, period: Positions, hidden: npt.NDArray[np.bool_]) -> Split:
    """The links by their period, without those of hidden nodes in training and validation."""
    touched = hidden[events.src].astype(np.int8) + hidden[events.dst]
    visible, tested = touched == 0, period == 2
    train = np.flatnonzero((period == 0) & visible)
    if task.protocol == "dyglib":
        new = np.ones(events.num_nodes, np.bool_)
        new[events.src[train]] = new[events.dst[train]] = False
        chosen = {"transductive": tested, "inductive": tested & (new[events.src] | new[events.dst])}
    elif task.nodes == "transductive":
        chosen = {"test" if task.ranked else "all": tested}
    else:
        chosen = {"new-new": tested & (touched == 2), "new-old": tested & (touched == 1)}
        if task.protocol == "paper":
            chosen = {"all": tested & (touched > 0)} | chosen
    return Split(
        task=task,
        train=train,
        val=np.flatnonzero((period == 1) & visible),
        test={name: np.flatnonzero(mask) for name, mask in chosen.items()},
        hidden=hidden,
        visible=visible,
        first_test=int(np.searchsorted(period, 2)),
    )


def _published_periods(events: Events) -> Positions:
    """0 for links of the training period, 1 for validation, 2 for test: [E]."""
    t = events.t.astype(np.float64)
    return np.searchsorted(np.quantile(t, PUBLISHED_QUANTILES), t, side="left")  # 0: t <= first quantile


def whole(events: Events, parts: Split) -> Split:
    """All links for training, those of hidden nodes too, and none for validation and test."""
    none, every = np.empty(0, np.int64), np.arange(len(events))
    hidden, visible = np.zeros(events.num_nodes, np.bool_), np.broadcast_to(np.True_, (len(events),))
    return Split(parts.task, every, none, {}, hidden, visible, len(events))


def _refuse_empty(parts: Split, events: Events) -> None:
    sizes = {"training": len(parts.train), "validation": len(parts.val), "test": sum(map(len, parts.test.values()))}
    empty = [name for name, size in sizes.items() if size == 0]
    if not empty and events.weight is not None and not (events.weight[parts.train] > 0).any():
        raise DataError("all links of the training part have weight 0: give some of them a weight above 0")
    if not empty:
        return
    cuts = parts.task.split
    if cuts.by_times:
        times = (cuts.train_until, cuts.test_from, events.t[0].item(), events.t[-1].item())
        why = "training until {}, test from {}, links from {} to {}".format(*map(format_time, times))
    else:
        why = f"{len(events):,} links are too few, or have too few distinct times"
    raise DataError(f"the {empty[0]} part would be empty: {why} ({parts.task.nodes} task)")


def split_of_run(events: Events, description: dict[str, Any]) -> Split:
    """The split that a run was trained with, from its run.json."""
    try:
        parts = split(events, Task.recorded(description), seed=description["seed"])
    except (DataError, QueryError) as error:
        raise StorageError(
            f"run.json: the split cannot be repeated ({error}); the run must be trained again"
        ) from error
    if description.get("split", parts.digest) != parts.digest:
        raise StorageError("the run was split by another version of cawn; train it again to test it")
    return parts


def split_to_test(events: Events, description: dict[str, Any], **changes: Any) -> Split:
    """The split to test a run with other fields of its task; QueryError if it was trained on other links than these."""
    own, seed = split_of_run(events, description), description["seed"]
    protocol = changes.get("protocol", own.task.protocol)
    if protocol == own.task.protocol:
        return replace(own, task=replace(own.task, **changes))
    why = f"the run was trained with the split of protocol {own.task.protocol}, {own.task.nodes} task"
    refusal = QueryError(
        f"{why}, so it may have seen test links of protocol {protocol}; train with --protocol {protocol}"
    )
    try:
        task = replace(own.task, split=TimeSplit(), **changes)
    except QueryError as error:
        raise refusal from error
    other = split(events, task, seed=seed)
    if not all(np.array_equal(getattr(own, part), getattr(other, part)) for part in ("train", "val", "hidden")):
        raise refusal
    return other


def by_appearance(events: Events) -> npt.NDArray[np.int32]:
    """The nodes with links, in order of first appearance, source before destination: independent of their ids."""
    return by_first_link(events.src, events.dst, events.num_nodes)
