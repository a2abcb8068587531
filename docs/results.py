"""Writes the tables of README.md and docs/reproduction.md, and their plots, from the results in docs/results/.

A place for a table is marked by <!-- paper:NAME --> and <!-- end -->; NAME is an experiment, "summary",
"compact" or "counting".
With --check nothing is written; the exit code is 1 if the tables of a page differ from the results.
"""

import re
import sys
from pathlib import Path

from cawn.files import write_text
from cawn.paper.pages import part_markdown, section_markdown, table_markdown
from cawn.paper.report import FOLDER, Report, collect, experiment_command
from cawn.paper.results import Results
from cawn.paper.summary import beside_counting, compact

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "reproduction.md")
RESULTS = ROOT / "docs" / "results"
MARKED = re.compile(r"<!-- paper:([\w-]+) -->.*?<!-- end -->", re.DOTALL)


def parts_of(folder: Path) -> tuple[Report, dict[str, str]]:
    """The report, and the Markdown of all that has results, by the name in the marker."""
    results = Results.read(folder)
    results.folder = FOLDER  # the commands on the page are for the reader's own folder
    report = collect(results)
    found = {}
    for part in report.parts:
        found[part.experiment.name] = part_markdown(part, part.plot_names(), where="results/")
    if report.summary.text:
        found["summary"] = section_markdown(report.summary)
    if (table := compact(results)) is not None:
        found["compact"] = table_markdown(table)
    if (table := beside_counting(results)) is not None:
        found["counting"] = table_markdown(table)
    return report, found


def filled(page: str, parts: dict[str, str]) -> str:
    """The page with every marked place filled in; those without results say which command makes them."""

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        command = experiment_command("table2" if name in ("summary", "compact", "counting") else name, folder=FOLDER)
        text = parts.get(name, f"Not measured yet: `{command}`.").strip()
        return f"<!-- paper:{name} -->\n\n{text}\n\n<!-- end -->"

    return MARKED.sub(fill, page)


def main(check: bool) -> int:
    report, parts = parts_of(RESULTS)
    differing = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if (new := filled(text, parts)) != text:
            differing.append(page.relative_to(ROOT).as_posix())
            if not check:
                write_text(page, new)
    if check:
        for name in differing:
            print(f"{name}: the tables differ from docs/results/; run 'python docs/results.py'", file=sys.stderr)
        return 1 if differing else 0
    for name, svg in report.plots(standalone=True).items():
        write_text(RESULTS / f"{name}.svg", svg)
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
