"""The content of the report: tables and plots of every experiment with results, and how they were measured."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cawn.data.datasets import CATALOG
from cawn.learn.plots import INSTALL, can_draw, to_svg
from cawn.paper import EXPERIMENTS
from cawn.paper.experiments import Content, Experiment, Finding, Table
from cawn.paper.provenance import provenance
from cawn.paper.published import NAMES, paragraphs
from cawn.paper.records import Records
from cawn.paper.results import ResultStore, refuse_damaged
from cawn.paper.tables import summary

FOLDER = Path("paper")  # of results, if none is given
MISSING_PLOTS = f"Plots are not drawn: they need matplotlib, {INSTALL}"


@dataclass(frozen=True)
class Chapter:
    """The part of the report about one experiment."""

    experiment: type[Experiment]
    section: Content
    facts: dict[str, list[str]]  # how it was measured
    missing: dict[str, str]  # networks without results, and the command that measures each

    @property
    def text(self) -> list[str]:
        """Paragraphs of Markdown: what the tables mean."""
        names = self.experiment.texts or (self.experiment.name,)
        return [text for name in names for text in paragraphs(name)]

    def plot_names(self) -> list[str]:
        """Names of the plots, unique in the report."""
        name, count = self.experiment.name, len(self.section.plots)
        return [name if count == 1 else f"{name}-{number}" for number in range(1, count + 1)]

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values; without the plots."""
        return {
            "title": self.experiment.title,
            "in the paper": not self.experiment.beyond,
            "text": self.text,
            "tables": [asdict(table) for table in self.section.tables],
            "claims": [claim._asdict() for claim in measured(self.section)],
            "measured": self.facts,
            "missing": self.missing,
        }


@dataclass(frozen=True)
class PaperReport:
    """A summary, and a part for every experiment with results."""

    summary: Content
    parts: list[Chapter]
    missing: dict[str, str] = field(default_factory=dict)  # experiments without results, and their commands

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values; without the plots."""
        tables = [asdict(table) for table in self.summary.tables]
        claims = [claim._asdict() for claim in measured(self.summary)]
        return {
            "summary": {"text": paragraphs("summary"), "tables": tables, "claims": claims},
            "experiments": {part.experiment.name: part.to_dict() for part in self.parts},
            "missing": self.missing,
        }

    def claims(self) -> Table:
        """The claims of all experiments."""
        sections = {"": self.summary} | {part.experiment.name: part.section for part in self.parts}
        rows = [[name, *claim] for name, section in sections.items() for claim in measured(section)]
        return Table(["experiment", "claim", "network", "difference", "95 % interval", "verdict"], rows, "Claims")

    def plots(self, *, standalone: bool) -> dict[str, str]:
        """All plots as SVG, by name; none without matplotlib."""
        if not can_draw():
            return {}
        return {
            name: to_svg(plot.draw, plot.size, standalone=standalone)
            for part in self.parts
            for name, plot in zip(part.plot_names(), part.section.plots, strict=True)
        }


def collect(results: ResultStore) -> PaperReport:
    """Compute the tables and plots of all results. Refuses results that cannot be compared."""
    parts, missing = [], {}
    with refuse_damaged(results.folder, "of trainings"):
        records = Records(results)
    for name, experiment in EXPERIMENTS.items():
        with refuse_damaged(results.folder, f"of {name}"):
            if (section := experiment().show(records)) is None:
                missing[name] = experiment_command(name, folder=results.folder)
            else:
                facts = provenance(results, section.used)
                parts.append(Chapter(experiment, section, facts, missing_networks(name, section, results.folder)))
    with refuse_damaged(results.folder, "of table2"):
        return PaperReport(summary(records), parts, missing)


def measured(section: Content) -> list[Finding]:
    """The claims about which there are results."""
    return [claim for claim in section.claims if claim.verdict != "not measured"]


def missing_networks(name: str, section: Content, folder: Path) -> dict[str, str]:
    """The networks that an experiment measures by default but has no results for, with the commands to measure them."""
    used, experiment = {result.network for result in section.used}, EXPERIMENTS[name]
    networks = experiment.networks or tuple(NAMES)
    commands = {}
    for network in networks:
        if network not in used:
            datasets = ",".join(networks) if experiment.together else network
            measure = experiment_command(name, ["--datasets", datasets], folder=folder)
            commands[NAMES[network]] = f"{CATALOG[network].command} && {measure}"
    return commands


def experiment_command(name: str, options: list[str] | None = None, *, folder: Path) -> str:
    """The command that runs an experiment and writes its results to a folder."""
    where = [] if folder == FOLDER else ["-o", folder.as_posix()]
    return shlex.join(["cawn", "paper", name, *(options or []), *where])
