"""The report as one self-contained HTML page, and as Markdown with plots in separate files."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from markupsafe import Markup, escape

from cawn.errors import QueryError
from cawn.explain.drawing import stylesheet
from cawn.explain.page import environment
from cawn.files import write_text
from cawn.paper.experiments import Table
from cawn.paper.provenance import code
from cawn.paper.published import paragraphs
from cawn.paper.report import MISSING_PLOTS, Chapter, PaperReport, collect
from cawn.paper.results import ResultStore, refuse_damaged

TITLE = "The CAW-N paper, reproduced"
INTRODUCTION = (
    "The tables and figures of *Inductive Representation Learning in Temporal Networks via Causal Anonymous Walks* "
    "(ICLR 2021), and experiments beyond it. `cawn paper report` writes this page from the results in a folder."
)
NO_SUMMARY = "No cell of Table 2 or Table 6 of the paper has been measured yet."
MISSING_NETWORKS = "Not measured yet; these commands download and measure the network:"
_PIPE = re.compile(r"(?<!\\)\|")  # not escaped yet
_NUMBER = re.compile(r"(<br>)?[*(]*[-+−]?\d[^→]*$")


def write_report(folder: Path) -> tuple[PaperReport, list[Path]]:
    """Write report.html, report.md and its plots from the results in a folder; returns the report and the files."""
    if folder.exists() and not folder.is_dir():
        raise QueryError(f"{folder}: is not a folder; give the folder of results")
    report = collect(ResultStore.read(folder))
    if not report.parts:
        raise QueryError(f"{folder}: has no results; make some with 'cawn paper NAME -o {folder}'")
    with refuse_damaged(folder, "to plot"):
        drawn = report.plots(standalone=True)
        files = {folder / "report.html": to_html(report), folder / "report.md": to_markdown(report, drawn)}
    files |= {folder / f"report-{name}.svg": svg for name, svg in drawn.items()}
    for path, text in files.items():
        write_text(path, text)
    return report, list(files)


# Markdown


def to_markdown(report: PaperReport, plots: Collection[str] = ()) -> str:
    """The report as Markdown; `plots` are the names of those beside it, in files report-NAME.svg."""
    lines = [f"# {TITLE}\n", INTRODUCTION, "\n## Summary\n", summary_markdown(report)]
    for part in report.parts:
        lines += [f"## {part.experiment.title}\n", part_markdown(part, plots)]
    if report.missing:
        lines.append("## Not measured yet\n")
        lines += [f"- {name}: {code(command)}" for name, command in report.missing.items()]
    if _lacks_plots(report, plots):
        lines.append(f"\n{MISSING_PLOTS}")
    return "\n".join(lines).rstrip() + "\n"


def summary_markdown(report: PaperReport) -> str:
    """What the results say about the paper's values and claims."""
    return _blocks(_summary(report), [*report.summary.tables, report.claims()])


def _summary(report: PaperReport) -> list[str]:
    return paragraphs("summary") if report.summary.claims else [NO_SUMMARY]


def part_markdown(part: Chapter, plots: Collection[str], where: str = "report-") -> str:
    """The text, tables and plots of one experiment, and how it was measured; paths of plots begin with `where`."""
    text = _blocks(part.text, part.section.tables)
    for name, plot in zip(part.plot_names(), part.section.plots, strict=True):
        if name in plots:
            text += f"![{plot.title}]({where}{name}.svg)\n\n"
    if part.missing:
        rows = "".join(f"- {network}: {code(command)}\n" for network, command in part.missing.items())
        text += f"{MISSING_NETWORKS}\n\n{rows}\n"
    if part.facts:
        text += "### How it was measured\n\n"
        for name, values in part.facts.items():
            text += f"- {name}: {values[0]}\n" if len(values) == 1 else f"- {name}:\n"
            text += "".join(f"    - {value}\n" for value in values if len(values) > 1)
        text += "\n"
    return text


def _blocks(text: list[str], tables: list[Table]) -> str:
    parts = [f"{paragraph}\n" for paragraph in text]
    for table in (table for table in tables if table.rows):
        parts += [f"### {table.title}\n"] if table.title else []
        parts.append(table_markdown(table))
        parts += [f"{table.note}\n"] if table.note else []
    return "\n".join(parts) + "\n"


def table_markdown(table: Table) -> str:
    """A table as Markdown."""
    ruler = ["---:" if right else "---" for right in right_aligned(table)]
    lines = [[_PIPE.sub(r"\|", cell) for cell in line] for line in (table.headings, ruler, *table.rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def right_aligned(table: Table) -> list[bool]:
    """Whether each column contains numbers, which are aligned right."""
    columns = [[row[number] for row in table.rows] for number in range(len(table.headings))]
    return [any(column) and all(_NUMBER.match(cell) for cell in column if cell) for column in columns]


# HTML


def to_html(report: PaperReport) -> str:
    """The report as one page, including the plots."""
    plots = {name: Markup(svg) for name, svg in report.plots(standalone=False).items()}
    pages = environment("cawn.paper", "cawn.explain")
    pages.filters |= {"inline": inline, "cell": cell, "right_aligned": right_aligned}
    return pages.get_template("report.html").render(
        palette=Markup(stylesheet(":root")),
        data=report.to_dict(),
        title=TITLE,
        introduction=INTRODUCTION,
        summary=_summary(report),
        missing_networks=MISSING_NETWORKS,
        report=report,
        plots=plots,
        missing_plots=MISSING_PLOTS if _lacks_plots(report, plots) else "",
    )


def _lacks_plots(report: PaperReport, plots: Collection[str]) -> bool:
    return any(name not in plots for part in report.parts for name in part.plot_names())


def inline(text: str) -> Markup:
    """Code, bold and italic text and line breaks of Markdown as HTML; anything else is escaped."""
    return Markup("").join(map(_span, re.split(r"(``.+?``|`[^`]+`)", text)))


def _span(part: str) -> Markup:
    if part.startswith("`") and part.endswith("`") and len(part) > 2:
        return Markup("<code>{}</code>").format(part.strip("`").strip())
    safe = str(escape(part.replace(r"\|", "|"))).replace("&lt;br&gt;", "<br>")
    safe = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", safe)
    return Markup(re.sub(r"\*(\S[^*]*?)\*", r"<em>\1</em>", safe))


def cell(text: str) -> Markup:
    """A cell of a table; its second line, usually the paper's value, in a fainter colour."""
    first, line_break, second = text.partition("<br>")
    return inline(first) + (Markup("<br><span class=second>{}</span>").format(inline(second)) if line_break else "")
