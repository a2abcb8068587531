"""What an experiment is: measurements to make, and tables and plots of their results."""

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
    trials: int | None = None  # of a search, for each network and preset
    device: str = "cpu"

    def seeds_of(self, task: str) -> range:
        """The seeds of a task: twice as many if it is inductive, whose hidden nodes vary."""
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
    """A drawing. `draw` is called with an empty matplotlib figure."""

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


class Experiment:
    """An experiment of the paper, or one beyond it."""

    name: ClassVar[str]
    title: ClassVar[str]  # what it shows, in one line
    beyond: ClassVar[bool] = False  # not in the paper
    networks: ClassVar[tuple[str, ...] | None] = None  # measured by default; None for all at hand
    seeds: ClassVar[int] = 5  # by default
    options: ClassVar[tuple[str, ...]] = ("--seeds", "--set")  # of the command line, beside those of all experiments
    systems: ClassVar[tuple[str, ...]] = ()  # that it trains, by the names of --systems; () for any
    alone: ClassVar[bool] = False  # one measurement at a time, because it measures time

    def plan(self, request: Request) -> Iterable[Measurement]:
        """The measurements to make; may be taken one by one, as earlier ones end."""
        raise NotImplementedError

    def total(self, request: Request) -> int | None:
        """The number of measurements, if `plan` is not a list; called after it."""
        return None

    def heard(self, measurement: Measurement, value: Any, stop: Callable[[], object]) -> None:
        """Called with what a running measurement reports; `stop` ends it early."""

    def stopped(self, measurement: Measurement) -> Any:
        """The value to keep for a measurement that `heard` has stopped."""

    def ended(self, measurement: Measurement, result: Result | None) -> None:
        """Called when a measurement has ended; None if it failed."""

    def show(self, results: Results) -> Section | None:
        """Tables and plots of the results that exist; None if there are none."""
        raise NotImplementedError
