"""Writes the tables of README.md and docs/reproduction.md, and their plots, from the results in docs/results/.

A place for a table is marked by <!-- paper:NAME --> and <!-- end -->; NAME is an experiment, "summary",
"compact" or "counting".
With --check nothing is written; the exit code is 1 if the tables of a page differ from the results.
"""

import re
import sys
from itertools import product
from pathlib import Path
from typing import Any

from cawn.files import write_text
from cawn.paper.experiments import Table
from cawn.paper.pages import part_markdown, summary_markdown, table_markdown
from cawn.paper.published import CAWN, NETWORKS, TESTS, PaperValue, display_name, paper_value
from cawn.paper.records import MODEL, BySeed, Records
from cawn.paper.report import FOLDER, PaperReport, collect, experiment_command
from cawn.paper.results import ResultStore
from cawn.paper.tables import OURS, accuracies

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "reproduction.md")
RESULTS = ROOT / "docs" / "results"
MARKED = re.compile(r"<!-- paper:([\w-]+) -->.*?<!-- end -->", re.DOTALL)


def parts_of(folder: Path) -> tuple[PaperReport, dict[str, str]]:
    """The report, and the Markdown of all that has results, by the name in the marker."""
    results = ResultStore.read(folder)
    results.folder = FOLDER  # the commands on the page are for the reader's own folder
    report = collect(results)
    found = {}
    for part in report.parts:
        found[part.experiment.name] = part_markdown(part, part.plot_names(), where="results/")
    if report.summary.claims:
        found["summary"] = summary_markdown(report)
    records = Records(results)
    if (table := compact(records)) is not None:
        found["compact"] = table_markdown(table)
    if (table := beside_counting(records)) is not None:
        found["counting"] = table_markdown(table)
    return report, found


def compact(records: Records) -> Table | None:
    """The paper presets beside the paper's values, and our own presets; None without results. The best is bold."""
    pivot, rows = accuracies(records, "auc"), []
    for network, test in product(NETWORKS, TESTS):
        values: dict[tuple[str, str], BySeed | PaperValue] = {}
        for label in (*CAWN, *OURS):
            values[label, "ours"] = pivot[label, network, *TESTS[test]]
            if label in CAWN and (paper := paper_value("auc", network, label, test)):
                values[label, "paper"] = paper
        if any(values[label, "ours"] for label in (*CAWN, *OURS)):
            best = f"{max(value.mean for value in values.values() if value):.2f}"
            shown = [f"**{text}**" if (text := str(value)).split(" ")[0] == best else text for value in values.values()]
            rows.append([display_name(network), test, *shown])
    headings = [heading for label in CAWN for heading in (label, "paper")] + [label.split()[-1] for label in OURS]
    return Table(["network", "test links", *headings], rows) if rows else None


def beside_counting(records: Records) -> Table | None:
    """Pooled AUC and AP of the preset default, and AP of the system rates, which has no walks, and of recency.

    Only over the seeds that both systems have, if both were measured.
    """
    found = records.labelled(OURS[0], "rates").where(clock="strict", scorer=(MODEL, "recency"), metric=("auc", "ap"))
    pivot, rows = found.by("label", "scorer", "metric", "negatives", "network", "task", "links"), []
    for network in found.networks:
        for test, place in TESTS.items():
            ours, counting = (pivot[label, MODEL, "auc", "random", network, *place] for label in (OURS[0], "rates"))
            seeds = ours.keys() & counting.keys() if counting else ours.keys()
            if not seeds:
                continue
            row = [display_name(network), test, str(len(seeds)), _mean(ours, seeds)]
            for kind in ("random", "historical"):
                for label, scorer in ((OURS[0], MODEL), ("rates", MODEL), ("rates", "recency")):
                    value = pivot[label, scorer, "ap", kind, network, *place]
                    row.append(_mean(value, seeds) if kind == "random" or not _all_random(found, network, test) else "")
            rows.append(row)
    headings = ["network", "test links", "seeds", "AUC", "AP", "rates", "recency"]
    headings += ["AP, historical", "rates, historical", "recency, historical"]
    return Table(headings, rows) if rows else None


def _mean(values: BySeed, seeds: Any) -> str:
    chosen = BySeed({seed: value for seed, value in values.items() if seed in seeds})
    return f"{chosen.mean:.2f}" if chosen else ""


def _all_random(records: Records, network: str, test: str) -> bool:
    """Whether no link has a historical negative, so that all are random, as for links between two new nodes."""
    task, links = TESTS[test]
    for run in records.where(label=OURS[0], network=network, task=task).runs:
        rows = [row for row in run.value["rows"] if row["links"] == links and row["negatives"] != "inductive"]
        if len({row["digest"] for row in rows}) != 1:
            return False
    return True


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
