"""A summary of Tables 2 and 6: how many of the paper's values are reproduced, and how many are surpassed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cawn.paper.experiments import Section, Table, counted
from cawn.paper.published import CAWN, NAMES, NETWORKS, TESTS, Metric, PaperValue, display_name, paper_value
from cawn.paper.results import Cell, Result, Results, cell
from cawn.paper.tables import accuracy
from cawn.paper.variants import BY_NAME

TOLERANCE = 1.0  # points below the paper's value that still count as reproduced
OURS = tuple(BY_NAME[preset].label for preset in ("default", "large"))
_PRINTED: dict[Metric, str] = {"auc": "AUC (Table 2)", "ap": "AP (Table 6)"}


class Compared(NamedTuple):
    """One of our values and the paper's value that it is compared with."""

    network: str
    test: str
    label: str
    ours: Cell
    paper: PaperValue

    @property
    def ahead(self) -> float:
        """Points above the paper's mean, from the printed digits."""
        return round(round(self.ours.mean, 2) - self.paper.mean, 2)

    def row(self) -> list[str]:
        return [NAMES[self.network], self.test, self.label, str(self.ours), str(self.paper), f"{self.ahead:+.2f}"]


def reproduced(results: Results, metric: Metric) -> list[Compared]:
    """Every value of the paper presets, with the same cell of the paper."""
    return [
        Compared(network, test, label, ours, paper)
        for network, test in _cells()
        for label in CAWN
        if (ours := accuracy(results, label, network, test, metric)) is not None
        if (paper := paper_value(metric, network, label, test)) is not None
    ]


def surpassed(results: Results, metric: Metric) -> list[Compared]:
    """The better of the presets default and large in every cell, with the better variant of the paper."""
    found = []
    for network, test in _cells():
        ours = {label: accuracy(results, label, network, test, metric) for label in OURS}
        known = {label: cell for label, cell in ours.items() if cell is not None}
        paper = paper_value(metric, network, "best", test)
        if known and paper is not None:
            label = max(known, key=lambda name: known[name].mean)
            found.append(Compared(network, test, label, known[label], paper))
    return found


def summary(results: Results) -> Section:
    """Both comparisons for AUC and AP, with the cells that fall short."""
    section = Section()
    for metric, printed in _PRINTED.items():
        if cells := reproduced(results, metric):
            short = [cell for cell in cells if cell.ahead < -TOLERANCE]
            section.text.append(
                f"**Reproduced, {printed}.** The paper presets ({_labels(cells)}) are above the paper's mean, or at "
                f"most {TOLERANCE:g} point below it, in {_of(cells, short)}."
            )
            section.tables.extend(
                _short_table(short, f"{printed}: more than {TOLERANCE:g} point below the paper's value")
            )
        if cells := surpassed(results, metric):
            short = [cell for cell in cells if cell.ahead <= 0]
            section.text.append(
                f"**Surpassed, {printed}.** The best of our own presets in each cell ({_labels(cells)}) is above the "
                f"paper's better variant in {_of(cells, short)}."
            )
            section.tables.extend(
                _short_table(short, f"{printed}: our own presets, not above the paper's better variant")
            )
    return section


def _short_table(cells: list[Compared], title: str) -> list[Table]:
    """The cells that fall short, if any."""
    headings = ["network", "test links", "preset", "ours", "paper", "difference"]
    return [Table(headings, [cell.row() for cell in cells], title)] if cells else []


def _labels(cells: list[Compared]) -> str:
    return ", ".join(dict.fromkeys(cell.label for cell in cells))


def compact(results: Results, metric: Metric = "auc") -> Table | None:
    """The paper presets beside the paper's values, and our own presets; None without results. The best is bold."""
    rows = []
    for network, test in _cells():
        ours = {label: accuracy(results, label, network, test, metric) for label in (*CAWN, *OURS)}
        if not any(ours.values()):
            continue
        paper = {label: paper_value(metric, network, label, test) for label in CAWN}
        means = [cell.mean for cell in (*ours.values(), *paper.values()) if cell]
        best = f"{max(means):.2f}"
        cells = []
        for label, mean in ours.items():
            cells.append(_bold(str(mean or ""), best))
            if label in paper:
                cells.append(_bold(str(paper[label] or ""), best))
        rows.append([NAMES[network], test, *cells])
    headings = ["network", "test links"]
    headings += [heading for label in CAWN for heading in (label, "paper")] + [label.split()[-1] for label in OURS]
    return Table(headings, rows) if rows else None


def beside_counting(results: Results) -> Table | None:
    """Pooled AUC and AP of the preset default, and AP of the system rates, which has no walks, and of recency.

    Only over the seeds that both systems have, if both were measured.
    """
    rows = []
    for network in results.networks:
        for test, (task, links) in TESTS.items():
            ours, counting = (results.labelled(f"{label}, {task}", network) for label in (OURS[0], "rates"))
            if counting:
                seeds = {one.settings["seed"] for one in ours} & {one.settings["seed"] for one in counting}
                ours, counting = ([one for one in some if one.settings["seed"] in seeds] for some in (ours, counting))
            auc = cell(ours, "auc", links=links, negatives="random", clock="strict")
            if auc is None:
                continue
            row = [display_name(network), test, str(auc.seeds), f"{auc.mean:.2f}"]
            for kind in ("random", "historical"):
                cells = [cell(runs, "ap", links=links, negatives=kind, clock="strict") for runs in (ours, counting)]
                cells.append(_recency(counting, links, kind))
                known = kind == "random" or not _all_random(ours, links)
                row += ["" if found is None or not known else f"{found.mean:.2f}" for found in cells]
            rows.append(row)
    headings = ["network", "test links", "seeds", "AUC", "AP", "rates", "recency"]
    headings += ["AP, historical", "rates, historical", "recency, historical"]
    return Table(headings, rows) if rows else None


def _recency(runs: list[Result], links: str, kind: str) -> Cell | None:
    """AP of the untrained recency baseline, which is evaluated in the runs of the system rates."""
    rows = [row for run in runs for row in run.rows(links=links, negatives=kind, clock="strict")]
    return Cell.of(row["baselines"]["recency"]["ap"] for row in rows if "recency" in row.get("baselines", {}))


def _all_random(runs: list[Result], links: str) -> bool:
    """Whether no link has a historical negative, so that all are random, as for links between two new nodes."""
    drawn = [{row["digest"] for row in run.rows(links=links) if row["negatives"] != "inductive"} for run in runs]
    return all(len(digests) == 1 for digests in drawn)


def _cells() -> Iterator[tuple[str, str]]:
    return ((network, test) for network in NETWORKS for test in TESTS)


def _of(cells: list[Compared], short: list[Compared]) -> str:
    networks = ", ".join(dict.fromkeys(NAMES[cell.network] for cell in cells))
    return f"{len(cells) - len(short)} of {counted(len(cells), 'measured cell')} ({networks})"


def _bold(text: str, best: str) -> str:
    return f"**{text}**" if text.split(" ")[0] == best else text
