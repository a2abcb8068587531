"""Base class of the experiments, each of which plans measurements and shows their results in tables and plots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from cawn.data.events import Events
from cawn.paper.measurements import Measurement
from cawn.paper.results import Result, Results


@dataclass(frozen=True)
class Request:
    """What a user asks of an experiment."""

    networks: Mapping[str, Events]
    seeds: int
    results: Results  # so far; some experiments use those of others
    changes: Mapping[str, Any] = field(default_factory=dict)  # settings of every system that has them
    systems: tuple[str, ...] | None = None  # variants to measure; None for all
    trials: int | None = None  # of the hyperparameter search, for each network and preset
    device: str = "cpu"

    def seeds_of(self, task: str) -> range:
        """The seeds of a task: twice as many for the inductive one, because its hidden nodes vary with the seed."""
        return range(self.seeds * (2 if task == "inductive" else 1))


@dataclass(frozen=True)
class Table:
    """A table of text; the first column names the rows. Cells may contain Markdown."""

    headings: list[str]
    rows: list[list[str]]
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Plot:
    """A plot. `draw` is called with an empty matplotlib figure."""

    title: str
    draw: Callable[[Any], object] = field(repr=False)
    size: tuple[float, float] = (7.0, 3.2)  # inches


@dataclass(frozen=True)
class Section:
    """The part of the report about one experiment."""

    text: list[str] = field(default_factory=list)  # paragraphs of Markdown
    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    used: list[Result] = field(default_factory=list, repr=False)  # for times, commands and digests


def counted(number: int, noun: str) -> str:
    """A number and a noun, such as "1 pair" or "30 pairs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class Experiment:
    """An experiment of the paper, or one beyond it."""

    name: ClassVar[str]
    title: ClassVar[str]  # what it shows, in one line
    beyond: ClassVar[bool] = False  # not in the paper
    networks: ClassVar[tuple[str, ...] | None] = None  # measured by default; None for all that are available locally
    seeds: ClassVar[int] = 5  # by default
    options: ClassVar[tuple[str, ...]] = ("--seeds", "--set")  # command-line options that not all experiments have
    systems: ClassVar[tuple[str, ...]] = ()  # that it trains, by their names in --systems; () for any
    together: ClassVar[bool] = False  # whether all networks must be given in one command, because it compares them
    shared: ClassVar[bool] = True  # whether several processes may work on it in one folder
    alone: ClassVar[bool] = False  # whether measurements run one at a time, because they measure time

    def plan(self, request: Request) -> Iterable[Measurement]:
        """The measurements to make: a list, or an iterator that may depend on the results of earlier ones."""
        raise NotImplementedError

    def total(self, request: Request) -> int | None:
        """The number of measurements if `plan` returned an iterator; called after `plan`."""
        return None

    def reported(self, measurement: Measurement, value: Any, stop: Callable[[], object]) -> None:
        """Called with each value that a running measurement reports; `stop` ends it early."""

    def stopped(self, measurement: Measurement) -> Any:
        """The value to keep for a measurement that `reported` has stopped."""

    def ended(self, measurement: Measurement, result: Result | None) -> None:
        """Called when a measurement has ended; None if it failed."""

    def show(self, results: Results) -> Section | None:
        """Tables and plots of the results that exist; None if there are none."""
        raise NotImplementedError
