"""The report: all results as Markdown tables and one HTML page."""

from __future__ import annotations

from pathlib import Path

from cawn.errors import QueryError
from cawn.files import write_text
from cawn.paper import EXPERIMENTS
from cawn.paper.experiments import Section, Table
from cawn.paper.results import Results


def sections(results: Results) -> dict[str, Section]:
    """The sections of all experiments with results."""
    found = {name: experiment().show(results) for name, experiment in EXPERIMENTS.items()}
    return {name: section for name, section in found.items() if section is not None}


def markdown_table(table: Table) -> str:
    """A table as Markdown."""
    lines = [table.headings, ["---"] + ["---:"] * (len(table.headings) - 1), *table.rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def write_report(folder: Path) -> list[Path]:
    """Write report.md from the results in a folder; returns the files."""
    results = Results.read(folder)
    found = sections(results)
    if not found:
        raise QueryError(f"{folder}: has no results; make some with 'cawn paper NAME'")
    parts = ["# The paper, measured again\n"]
    for name, section in found.items():
        parts.append(f"\n## {EXPERIMENTS[name].title}\n\n" + "\n\n".join(section.text) + "\n")
        for table in section.tables:
            parts.append(f"\n### {table.title}\n\n" if table.title else "\n")
            parts.append(markdown_table(table) + (f"\n{table.note}\n" if table.note else ""))
    path = folder / "report.md"
    write_text(path, "".join(parts))
    return [path]
