"""What is asked of a system: which links are tested, by which rules and against which negatives.

Protocols:

strict       our own: pooled metrics, negatives of the same source
tgb[:N]      Temporal Graph Benchmark: ranks among N destinations, or among all
dyglib       the library DyGLib: hidden nodes, means over batches of 200, negatives that may replace the source
paper        the CAW-N paper's code: random negatives, means over batches of 30
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from cawn.checks import check_choice, check_flags, check_number, check_type, check_words
from cawn.data.events import Events
from cawn.data.reading import Reading
from cawn.data.times import TimeForm, parse_query_times
from cawn.errors import QueryError, StorageError, brief
from cawn.learn.clocks import Clock

Nodes = Literal["transductive", "inductive"]

KINDS = ("random", "historical", "inductive")  # of negatives with the source of their link, see `cawn.learn.negatives`
PAIR_KINDS = ("historical pairs", "inductive pairs")  # of negatives that replace the source, too
PROTOCOLS = ("strict", "tgb", "dyglib", "paper")


class Rules(NamedTuple):
    """What a protocol fixes, besides its split."""

    kinds: tuple[str, ...]  # of negatives
    batches: tuple[int, ...]  # numbers of links that metrics are averaged over
    inductive: str = ""  # why there is no inductive task; empty if there is one


RULES = {
    "strict": Rules(KINDS, (30,)),
    "tgb": Rules((), (), "has no inductive task"),
    "dyglib": Rules(("random", *PAIR_KINDS), (30, 200), "has both transductive and inductive test links"),
    "paper": Rules(("random",), (30,)),
}


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

    def periods(self, events: Events) -> npt.NDArray[np.int64]:
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
class Task:
    """What is asked of a system, beside the seed: which links it is trained and tested on, and how it is tested.

    Args:
        nodes: "transductive", or "inductive": a tenth of the nodes are hidden, and the test links are those that touch
            them.
        split: Where training ends and the test begins; by default after 70 % and 85 % of the links.
        protocol: Split, negatives and metrics: "strict", or as published by others: "tgb" (TGB; "tgb:N" for N
            candidates per link), "dyglib" (DyGLib: a tenth of the nodes are hidden from training, and one run is tested
            on all last links and on those with a new node) or "paper" (the CAW-N paper's code).
        clock: Which earlier links a test link may use: "strict", "event" or "batch:N", see `cawn.learn.clocks`.
            Training is always strict.
        negatives: The kinds of negatives to evaluate against; by default those of the protocol. User-given negatives of
            test links are always included.
        baselines: Whether to evaluate the baselines on the same links as well.
        refit: After the evaluation, train once more on all links, for the number of epochs that was best. A predictor
            then uses these weights; the results remain those of the evaluated ones.
    """

    nodes: Nodes = "transductive"
    split: TimeSplit = TimeSplit()
    protocol: str = "strict"
    clock: str = "strict"
    negatives: tuple[str, ...] | None = None
    baselines: bool = True
    refit: bool = False

    def __post_init__(self) -> None:
        check_choice(self.nodes, "task", get_args(Nodes))
        check_type(self.split, "split", TimeSplit, "give a cawn.TimeSplit")
        check_protocol(self.protocol)
        Clock(self.clock)
        check_flags(baselines=self.baselines, refit=self.refit)
        if self.negatives is not None:
            object.__setattr__(self, "negatives", check_words(self.negatives, "negatives", (*KINDS, *PAIR_KINDS)))
            if not self.rules.kinds:
                raise QueryError(f"protocol {self.protocol} has its own candidates; leave out the kinds of negatives")
        if self.nodes == "inductive" and self.rules.inductive:
            raise QueryError(f"protocol {self.protocol} {self.rules.inductive}; leave out the task")
        if self.protocol != "strict" and self.split != TimeSplit():
            raise QueryError(
                f"protocol {self.protocol} splits at the 70 % and 85 % quantiles of time; leave out the split"
            )

    @classmethod
    def of(cls, given: Task | str) -> Task:
        """A task, or the default one for these nodes."""
        return given if isinstance(given, Task) else cls(nodes=given)  # type: ignore[arg-type]

    @property
    def rules(self) -> Rules:
        """The rules of the protocol."""
        return RULES[self.protocol.partition(":")[0]]

    @property
    def ranked(self) -> bool:
        """Whether links are ranked by TGB's rule."""
        return not self.rules.kinds

    @property
    def candidates(self) -> int | None:
        """The number of candidates per link in the name of TGB's protocol; None if it has none."""
        _, _, number = self.protocol.partition(":")
        return int(number) if number else None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of negatives to evaluate against."""
        return self.rules.kinds if self.negatives is None else self.negatives

    def on(self, events: Events) -> Task:
        """A copy with the times of the split as numbers in the unit of these events."""
        return replace(self, split=self.split.on(events))

    def to_dict(self) -> dict[str, Any]:
        """Its part of run.json: what cannot change when a run is resumed. Times must be numbers, see `on`."""
        return {
            "task": self.nodes,
            "cuts": None if self.split == TimeSplit() else self.split.to_dict(),
            "protocol": None if self.protocol == "strict" else self.protocol,
            "clock": None if self.clock == "strict" else self.clock,
            "refit": self.refit or None,
        }

    @classmethod
    def recorded(cls, description: dict[str, Any]) -> Task:
        """The task of a run, from its run.json. How its test was made is not recorded: negatives and baselines."""
        found = {name: description.get(name) for name in ("protocol", "clock", "refit")}
        try:
            split = TimeSplit.from_dict(description.get("cuts") or {})
            return cls(description["task"], split, **{name: value for name, value in found.items() if value})
        except QueryError as error:
            raise StorageError(f"run.json: damaged ({error}); the run must be trained again") from error

    def resumed(self, description: dict[str, Any]) -> Task:
        """This task with the split and the choice of a refit of the run that is resumed, unless they are given."""
        before = Task.recorded(description)
        split = before.split if self.split == TimeSplit() else self.split
        return replace(self, split=split, refit=self.refit or before.refit)


def check_protocol(name: Any) -> None:
    """Refuse the name of a protocol that does not exist."""
    if not isinstance(name, str) or not (name in PROTOCOLS or re.fullmatch(r"tgb:[1-9][0-9]{0,8}", name)):
        raise QueryError(f"protocol is {brief(name)}: give strict, tgb, tgb:N (candidates per link), dyglib or paper")
