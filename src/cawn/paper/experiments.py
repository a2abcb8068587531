"""Base class of the experiments: each is a plan of measurements, and tables, plots and claims of their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from cawn.data.events import Events
from cawn.paper.measurements import Measurement
from cawn.paper.published import PaperValue, display_name
from cawn.paper.records import BySeed, Records
from cawn.paper.results import Result, ResultStore, refuse_damaged

Save = Callable[[Measurement, Any, float], object]  # takes a measurement, its value and its seconds


@dataclass(frozen=True)
class Request:
    """What a user asks of an experiment."""

    networks: Mapping[str, Events]
    seeds: int
    results: ResultStore  # so far; some experiments use those of others
    changes: Mapping[str, Any] = field(default_factory=dict)  # settings of every system that has them
    systems: tuple[str, ...] | None = None  # variants to measure; None for all
    trials: int | None = None  # of the hyperparameter search, for each network and preset
    device: str = "cpu"
    jobs: int = 0
    threads: int | None = None
    quiet: bool = False

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


def listing(title: str, columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]], note: str = "") -> Table:
    """A table with a row for each mapping; a column is a heading and a format, such as "{share:.1%}"."""
    found = [[form.format_map(row).replace("%", " %") for form in columns.values()] for row in rows]
    return Table(list(columns), found, title, note)


@dataclass(frozen=True)
class Plot:
    """A plot. `draw` is called with an empty matplotlib figure."""

    title: str
    draw: Callable[[Any], object] = field(repr=False)
    size: tuple[float, float] = (7.0, 3.2)  # inches


class Finding(NamedTuple):
    """A claim of the paper or about our additions, and what the results say."""

    claim: str
    network: str
    difference: str  # in points, unless it names a unit
    interval: str  # half the width of its 95 % interval
    verdict: str

    @classmethod
    def of(cls, claim: str, network: str, gain: BySeed) -> Finding:
        """That a difference is positive."""
        mean = f"{gain.mean:+.2f}" if gain else ""
        return cls(claim, display_name(network), mean, gain.interval, gain.verdict)

    @classmethod
    def that(cls, claim: str, network: str, holds: bool, found: str = "", interval: str = "") -> Finding:
        """A claim that is decided without a test; `found` is what was measured."""
        return cls(claim, display_name(network), found, interval, "confirmed" if holds else "not confirmed")


@dataclass(frozen=True)
class Content:
    """The part of the report about one experiment."""

    used: list[Result] = field(repr=False)  # for times, commands and digests
    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    claims: list[Finding] = field(default_factory=list)


class Experiment:
    """An experiment of the paper, or one beyond it. What its tables mean is explained in texts.md."""

    name: ClassVar[str]
    title: ClassVar[str]  # what it shows, in one line
    beyond: ClassVar[bool] = False  # not in the paper
    networks: ClassVar[tuple[str, ...] | None] = None  # measured by default; None for all that are available locally
    seeds: ClassVar[int] = 5  # by default
    options: ClassVar[tuple[str, ...]] = ("--seeds", "--set")  # command-line options that not all experiments have
    systems: ClassVar[tuple[str, ...]] = ()  # that it trains, by their names in --systems; () for any
    together: ClassVar[bool] = False  # whether all networks must be given in one command, because it compares them
    alone: ClassVar[bool] = False  # whether measurements run one at a time, because they measure time

    texts: ClassVar[tuple[str, ...]] = ()  # headings of texts.md; by default its name

    def plan(self, request: Request) -> list[Measurement]:
        """The measurements to make."""
        raise NotImplementedError

    def make(self, request: Request, sweep: Callable[[list[Measurement]], list[str]], save: Save) -> list[str]:
        """Make the measurements that have no result yet; returns a line for each that failed."""
        with refuse_damaged(request.results.folder, "of earlier sweeps"):
            planned = self.plan(request)
        return sweep(planned)

    def show(self, records: Records) -> Content | None:
        """Tables, plots and claims of the results that exist; None if there are none."""
        raise NotImplementedError


def counted(number: int, noun: str) -> str:
    """A number and a noun, such as "1 pair" or "30 pairs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def beside(ours: BySeed, paper: PaperValue | None, *, best: bool = False) -> str:
    """Our value, bold if it is the best, and below it the paper's in parentheses."""
    lines = [f"**{ours}**" if best else str(ours)] if ours else []
    return "<br>".join(lines + ([] if paper is None else [f"({paper})"]))


def titled(networks: Iterable[str]) -> str:
    """The names of networks, for a claim about several."""
    return ", ".join(map(display_name, networks))
