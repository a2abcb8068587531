"""Training, validation and test links; for the inductive task, also the nodes that are hidden until the test."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from cawn.checks import check_choice, check_number
from cawn.data.events import Events
from cawn.data.hashing import digest
from cawn.data.reading import Reading
from cawn.data.times import TimeForm, format_time, parse_query_times
from cawn.errors import DataError, QueryError, StorageError, brief
from cawn.learn import dyglib
from cawn.learn.protocols import check_protocol, is_tgb, recorded_protocol, rules_of
from cawn.systems.choices import by_first_link

Task = Literal["transductive", "inductive"]

TRAINING_LINKS, ALL_LINKS = "training links", "all links"  # what weights were trained on
HIDDEN_SHARE = 0.10  # of all nodes
PUBLISHED_QUANTILES = (0.70, 0.85)  # of all protocols but "strict"

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TimeSplit:
    """Where in time training ends and the test begins. Links of equal time stay together.

    By shares of the links: the first `train_share` for training, the next `val_share` for validation, the rest for
    testing. By times: links before `train_until` for training, from `test_from` on for testing, in between for
    validation; if the two are equal, or only one is given, the last `val_share` of the links before it for validation.

    Args:
        train_share: Between 0 and 1.
        val_share: Between 0 and 1.
        train_until: A number in the data's unit of time, or a date; training excludes links at exactly this time.
        test_from: Likewise; links at exactly this time are test links.
    """

    train_share: float = 0.70
    val_share: float = 0.15
    train_until: Any = None
    test_from: Any = None

    def __post_init__(self) -> None:
        for name in ("train_share", "val_share"):
            check_number(getattr(self, name), name, "a number between 0 and 1", lambda share: 0 < share < 1)
        if self.by_times:
            if self.train_share != TimeSplit.__dataclass_fields__["train_share"].default:
                raise QueryError("give train_share, or times to split at, not both")
        elif self.train_share + self.val_share >= 1:
            raise QueryError(
                f"train_share={self.train_share:g} and val_share={self.val_share:g} leave nothing for the test: "
                "their sum must be below 1"
            )

    @property
    def by_times(self) -> bool:
        return self.train_until is not None or self.test_from is not None

    def on(self, events: Events) -> TimeSplit:
        """A copy with both times as numbers in the unit of these events; unchanged if it is by shares."""
        if not self.by_times:
            return self
        given = [value for value in (self.train_until, self.test_from) if value is not None]
        until = _as_number(given[0], "train_until" if self.train_until is not None else "test_from", events)
        start = until if len(given) == 1 else _as_number(given[1], "test_from", events)
        if until > start:
            raise QueryError(f"train_until={brief(self.train_until)} lies after test_from={brief(self.test_from)}")
        return replace(self, train_until=until, test_from=start)

    def periods(self, events: Events) -> Positions:
        """0 for links of the training period, 1 for validation, 2 for test: [E]."""
        until, start = self.bounds(events)
        return np.repeat(np.arange(3), [until, start - until, len(events) - start])

    def bounds(self, events: Events) -> tuple[int, int]:
        """The positions of the first links of the validation and of the test period."""
        t = events.t
        if not self.by_times:
            quantiles = [self.train_share, self.train_share + self.val_share]
            until, start = (np.searchsorted(t, lower_quantile(t, share), side="right") for share in quantiles)
            return int(until), int(start)
        cuts = self.on(events)
        until, start = np.searchsorted(t, np.array([cuts.train_until, cuts.test_from], t.dtype))
        if cuts.train_until == cuts.test_from and start > 0:
            end = lower_quantile(t[:start], 1 - self.val_share)
            until = min(np.searchsorted(t, end, side="right"), start)
        return int(until), int(start)

    def to_dict(self) -> dict[str, Any]:
        """For a JSON file; times must be numbers, see `on`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Any) -> TimeSplit:
        """The inverse of `to_dict`; raises QueryError for anything else."""
        if not isinstance(found, dict) or not set(found) <= {field.name for field in fields(cls)}:
            raise QueryError("not the description of a split")
        return cls(**found)


def lower_quantile(t: npt.NDArray[Any], share: float) -> Any:
    """What `np.quantile(t, share, method="lower")` returns for sorted times, without a copy of them."""
    return t[int(np.floor((len(t) - 1) * share))]


def _as_number(value: Any, name: str, events: Events) -> int | float:
    """A time to split at, in the unit of the events."""
    try:
        times = parse_query_times(value, events.t, TimeForm.of(events.t, events.reading or Reading()))
    except QueryError as error:
        raise QueryError(f"{name}: {error}") from error
    if times.size != 1:
        raise QueryError(f"{name} has {times.size} values: give one time")
    number: int | float = times.reshape(-1)[0].item()
    return number


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
    protocol: str = "strict"

    @property
    def digest(self) -> str:
        """Identifies this split: results are comparable only if their digests are equal."""
        return digest(self.train, self.val, *(self.test[kind] for kind in sorted(self.test)), self.hidden)


def split(events: Events, task: Task, *, seed: int, by: TimeSplit | None = None, protocol: str = "strict") -> Split:
    """Cut the links by time, by default at the 70 % and 85 % quantiles of their times; see `TimeSplit`.

    Inductive: a tenth of all nodes, drawn from those that occur after the training period, are hidden. Their
    links are excluded from training and validation, and those in the test period are the test links: `new-new` if both
    ends are hidden, `new-old` if one is.

    Protocol "dyglib": nodes are hidden as for the inductive task, and there are two overlapping parts of test links:
    `transductive`, all of the test period, and `inductive`, those with an end that has no training link. All protocols
    but "strict" split at quantiles that NumPy interpolates between two times, as published code does.
    """
    check_choice(task, "task", get_args(Task))
    protocol, by = check_protocol(protocol), by or TimeSplit()
    if task == "inductive" and (reason := rules_of(protocol).inductive):
        raise QueryError(f"protocol {protocol} {reason}; leave out the task")
    if protocol != "strict" and by != TimeSplit():
        raise QueryError(f"protocol {protocol} splits at the 70 % and 85 % quantiles of time; leave out the split")
    if len(events) == 0:
        raise DataError("no links to split")
    hidden = np.zeros(events.num_nodes, np.bool_)
    if protocol == "strict" and task == "transductive":
        found = _by_time(events, by.bounds(events), hidden)
        _refuse_empty(found, events, by)
        return found
    period = by.periods(events) if protocol == "strict" else _published_periods(events)
    if protocol == "dyglib":
        hidden = dyglib.hidden_nodes(events, period > 0, HIDDEN_SHARE)
    elif task == "inductive":
        later = by_appearance(events)
        later = later[np.isin(later, np.concatenate([events.src[period > 0], events.dst[period > 0]]))]
        count = min(int(HIDDEN_SHARE * events.num_nodes), len(later))
        hidden[np.random.default_rng(seed).choice(later, count, replace=False)] = True
    touched = hidden[events.src].astype(np.int8) + hidden[events.dst]
    visible = touched == 0
    tested = period == 2
    train = np.flatnonzero((period == 0) & visible)
    if protocol == "dyglib":
        new = np.ones(events.num_nodes, np.bool_)
        new[events.src[train]] = new[events.dst[train]] = False
        chosen = {"transductive": tested, "inductive": tested & (new[events.src] | new[events.dst])}
    elif task == "transductive":
        chosen = {"test" if is_tgb(protocol) else "all": tested}
    else:
        chosen = {"new-new": tested & (touched == 2), "new-old": tested & (touched == 1)}
        if protocol == "paper":
            chosen = {"all": tested & (touched > 0)} | chosen
    found = Split(
        task=task,
        train=train,
        val=np.flatnonzero((period == 1) & visible),
        test={name: np.flatnonzero(mask) for name, mask in chosen.items()},
        hidden=hidden,
        visible=visible,
        first_test=int(np.searchsorted(period, 2)),
        protocol=protocol,
    )
    _refuse_empty(found, events, by)
    return found


def _by_time(events: Events, bounds: tuple[int, int], hidden: npt.NDArray[np.bool_]) -> Split:
    """All links by their period. The mask of visible links takes no memory, however many there are."""
    until, start = bounds
    visible = np.broadcast_to(np.True_, (len(events),))
    test = {"all": np.arange(start, len(events))}
    return Split("transductive", np.arange(until), np.arange(until, start), test, hidden, visible, start)


def _published_periods(events: Events) -> Positions:
    """0 for links of the training period, 1 for validation, 2 for test: [E]."""
    t = events.t.astype(np.float64)
    return np.searchsorted(np.quantile(t, PUBLISHED_QUANTILES), t, side="left")  # 0: t <= first quantile


def whole(events: Events, parts: Split) -> Split:
    """All links for training, those of hidden nodes too, and none for validation and test."""
    none, every = np.empty(0, np.int64), np.arange(len(events))
    hidden, visible = np.zeros(events.num_nodes, np.bool_), np.broadcast_to(np.True_, (len(events),))
    return Split(parts.task, every, none, {}, hidden, visible, len(events), parts.protocol)


def _refuse_empty(parts: Split, events: Events, by: TimeSplit) -> None:
    sizes = {"training": len(parts.train), "validation": len(parts.val), "test": sum(map(len, parts.test.values()))}
    empty = [name for name, size in sizes.items() if size == 0]
    if not empty:
        return
    if by.by_times:
        cuts = by.on(events)
        times = (cuts.train_until, cuts.test_from, events.t[0].item(), events.t[-1].item())
        why = "training until {}, test from {}, links from {} to {}".format(*map(format_time, times))
    else:
        why = f"{len(events):,} links are too few, or have too few distinct times"
    raise DataError(f"the {empty[0]} part would be empty: {why} ({parts.task} task)")


def recorded_cuts(description: dict[str, Any]) -> TimeSplit:
    """The `TimeSplit` of a run, from its run.json."""
    try:
        return TimeSplit.from_dict(description.get("cuts") or {})
    except QueryError as error:
        raise StorageError(f"run.json: damaged (cuts: {error}); the run must be trained again") from error


def split_of_run(events: Events, description: dict[str, Any]) -> Split:
    """The split that a run was trained with, from its run.json."""
    try:
        by, protocol = recorded_cuts(description), recorded_protocol(description)
        parts = split(events, description["task"], seed=description["seed"], by=by, protocol=protocol)
    except (DataError, QueryError) as error:
        raise StorageError(
            f"run.json: the split cannot be repeated ({error}); the run must be trained again"
        ) from error
    if description.get("split", parts.digest) != parts.digest:
        raise StorageError("the run was split by another version of cawn; train it again to test it")
    return parts


def split_under(protocol: str, events: Events, description: dict[str, Any]) -> Split:
    """The split of a protocol for a run that was trained on the same links; QueryError if it was trained on others."""
    own, name = split_of_run(events, description), check_protocol(protocol)
    if name == own.protocol:
        return own
    why = f"the run was trained with the split of protocol {own.protocol}, {own.task} task"
    refusal = QueryError(f"{why}, so it may have seen test links of protocol {name}; train with --protocol {name}")
    if own.task == "inductive" and rules_of(name).inductive:
        raise refusal
    by = recorded_cuts(description) if name == "strict" else None
    other = split(events, own.task, seed=description["seed"], by=by, protocol=name)
    if not all(np.array_equal(getattr(own, part), getattr(other, part)) for part in ("train", "val", "hidden")):
        raise refusal
    return other


def by_appearance(events: Events) -> npt.NDArray[np.int32]:
    """The nodes with links, in order of first appearance, source before destination: independent of their ids."""
    return by_first_link(events.src, events.dst, events.num_nodes)
