"""What Tables 2 and 6 come to: whether the paper's figures are reproduced, and whether they are surpassed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cawn.paper.experiments import Section, Table
from cawn.paper.published import CAWN, NAMES, NETWORKS, TESTS, Metric, figure
from cawn.paper.results import Cell, Result, Results, cell
from cawn.paper.tables import accuracy
from cawn.paper.variants import BY_NAME

TOLERANCE = 1.0  # points below the paper's figure that count as reproduced
OURS = tuple(BY_NAME[preset].label for preset in ("default", "large"))
_PRINTED: dict[Metric, str] = {"auc": "AUC (Table 2)", "ap": "AP (Table 6)"}


class Compared(NamedTuple):
    """One of our figures and the one of the paper that it has to reach."""

    network: str
    test: str
    label: str
    ours: Cell
    paper: tuple[float, float]

    @property
    def ahead(self) -> float:
        """Points ahead of the paper, by the printed digits."""
        return round(round(self.ours.mean, 2) - self.paper[0], 2)

    def row(self) -> list[str]:
        paper = f"{self.paper[0]:.2f} ± {self.paper[1]:.2f}"
        return [NAMES[self.network], self.test, self.label, str(self.ours), paper, f"{self.ahead:+.2f}"]


def reproduced(results: Results, metric: Metric) -> list[Compared]:
    """Every figure of the paper presets, beside the same cell of the paper."""
    return [
        Compared(network, test, label, ours, paper)
        for network, test in _cells()
        for label in CAWN
        if (ours := accuracy(results, label, network, test, metric)) is not None
        if (paper := figure(metric, network, label, test)) is not None
    ]


def surpassed(results: Results, metric: Metric) -> list[Compared]:
    """The better of the presets default and large in every cell, beside the best variant of the paper."""
    found = []
    for network, test in _cells():
        ours = {label: accuracy(results, label, network, test, metric) for label in OURS}
        known = {label: cell for label, cell in ours.items() if cell is not None}
        paper = figure(metric, network, "best", test)
        if known and paper is not None:
            label = max(known, key=lambda name: known[name].mean)
            found.append(Compared(network, test, label, known[label], paper))
    return found


def summary(results: Results) -> Section:
    """Both comparisons for AUC and AP, with the cells that fall short."""
    section = Section()
    headings = ["network", "test links", "ours", "mean", "paper", "difference"]
    for metric, printed in _PRINTED.items():
        cells = reproduced(results, metric)
        short = [cell for cell in cells if cell.ahead < -TOLERANCE]
        if cells:
            section.text.append(
                f"**Reproduced, {printed}.** The paper presets ({', '.join(dict.fromkeys(c.label for c in cells))}) "
                f"are within {TOLERANCE} point of the paper's figure, or above it, in {_of(cells, short)}."
            )
        if short:
            title = f"{printed}: more than {TOLERANCE} point below the paper's figure"
            section.tables.append(Table(headings, [cell.row() for cell in short], title))
        cells = surpassed(results, metric)
        short = [cell for cell in cells if cell.ahead <= 0]
        if cells:
            section.text.append(
                f"**Surpassed, {printed}.** The better of our own presets, default and large, is ahead of the better "
                f"variant of the paper in {_of(cells, short)}."
            )
        if short:
            title = f"{printed}: our own presets are not ahead of the paper's better variant"
            section.tables.append(Table(headings, [cell.row() for cell in short], title))
    return section


def compact(results: Results, metric: Metric = "auc") -> Table | None:
    """The paper presets beside the paper's figures, and our own presets; None without results. The best is bold."""
    rows = []
    for network, test in _cells():
        ours = {label: accuracy(results, label, network, test, metric) for label in (*CAWN, *OURS)}
        if not any(ours.values()):
            continue
        paper = {label: figure(metric, network, label, test) for label in CAWN}
        means = [cell.mean for cell in ours.values() if cell] + [cell[0] for cell in paper.values() if cell]
        best = f"{max(means):.2f}"
        cells = []
        for label, mean in ours.items():
            cells.append(_bold("" if mean is None else str(mean), best))
            if label in paper:
                printed = paper[label]
                cells.append(_bold("" if printed is None else f"{printed[0]:.2f} ± {printed[1]:.2f}", best))
        rows.append([NAMES[network], test, *cells])
    headings = ["network", "test links"]
    headings += [heading for label in CAWN for heading in (label, "paper")] + [label.split()[-1] for label in OURS]
    return Table(headings, rows) if rows else None


def beside_counting(results: Results) -> Table | None:
    """Pooled figures of the preset default, beside the system rates, which has no walks, and the recency rule.

    Only of the seeds that both systems were measured with, if both were.
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
            row = [NAMES.get(network, network), test, str(auc.seeds), f"{auc.mean:.2f}"]
            for kind in ("random", "historical"):
                figures = [cell(runs, "ap", links=links, negatives=kind, clock="strict") for runs in (ours, counting)]
                figures.append(_rule(counting, links, kind))
                known = kind == "random" or not _all_random(ours, links)
                row += ["" if found is None or not known else f"{found.mean:.2f}" for found in figures]
            rows.append(row)
    headings = ["network", "test links", "seeds", "AUC", "AP", "rates", "recency"]
    headings += ["AP, historical", "rates, historical", "recency, historical"]
    return Table(headings, rows) if rows else None


def _rule(runs: list[Result], links: str, kind: str) -> Cell | None:
    """AP of the recency rule, which is evaluated together with the system rates."""
    rows = [row for run in runs for row in run.rows(links=links, negatives=kind, clock="strict")]
    return Cell.of(row["baselines"]["recency"]["ap"] for row in rows if "recency" in row.get("baselines", {}))


def _all_random(runs: list[Result], links: str) -> bool:
    """Whether these links have no historical negatives, as those between two new nodes, so that all are random."""
    drawn = [{row["digest"] for row in run.rows(links=links) if row["negatives"] != "inductive"} for run in runs]
    return all(len(digests) == 1 for digests in drawn)


def _cells() -> Iterator[tuple[str, str]]:
    return ((network, test) for network in NETWORKS for test in TESTS)


def _of(cells: list[Compared], short: list[Compared]) -> str:
    networks = ", ".join(dict.fromkeys(NAMES[cell.network] for cell in cells))
    return f"{len(cells) - len(short)} of {len(cells)} cells at hand ({networks})"


def _bold(text: str, best: str) -> str:
    return f"**{text}**" if text.split(" ")[0] == best else text
