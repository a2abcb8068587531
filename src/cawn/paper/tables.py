"""Tables 2 and 6 of the paper: the accuracy of CAW-N and its rivals on new and on known nodes."""

from __future__ import annotations

from typing import ClassVar

from cawn.paper.experiments import Experiment, Request, Section, Table
from cawn.paper.measurements import Measurement
from cawn.paper.published import NAMES, NETWORKS, TESTS, Metric, figure
from cawn.paper.results import Cell, Result, Results, cell, check_same_splits
from cawn.paper.training import KINDS_OF_NEGATIVES, training
from cawn.paper.variants import BY_NAME, VARIANTS, Variant, chosen_variants, settings_of

_HEADINGS = {"new-new": "new-new", "new-old": "new-old", "transductive": "transductive"}


class Accuracy(Experiment):
    """One of the two tables; both have the same runs."""

    options = ("--seeds", "--systems", "--set")
    systems = tuple(BY_NAME)
    metric: ClassVar[Metric]
    printed: ClassVar[str]  # name of the metric

    def plan(self, request: Request) -> list[Measurement]:
        return [
            training(
                network,
                settings_of(variant, network, request),
                task=task,
                seed=seed,
                label=variant.label,
                negatives=KINDS_OF_NEGATIVES,
                baselines=variant.system == "rates",
            )
            for network in request.networks
            for variant in chosen_variants(request)
            for task in ("transductive", "inductive")
            for seed in request.seeds_of(task)
        ]

    def show(self, results: Results) -> Section | None:
        runs = table_runs(results)
        if not runs:
            return None
        check_same_splits(runs)
        section = Section(
            [
                f"{self.printed} in percent, mean over seeds ± half of the 95 % confidence interval; below it the "
                "paper's figure in parentheses. Strict clock, random negatives, means over batches of 30 links as in "
                "the authors' code. The best of ours in each column is bold."
            ],
            used=runs,
        )
        section.text.append(_seeds(runs))
        if short := sorted({f"{one.name.split(', ')[1]} ({NAMES[one.network]})" for one in runs if _cut_short(one)}):
            section.text.append(f"Stopped by a limit of time before the last epoch: {', '.join(short)}.")
        for test in TESTS:
            section.tables.append(self._table(results, test))
        return section

    def _table(self, results: Results, test: str) -> Table:
        networks = [*NETWORKS, *(name for name in results.networks if name not in NETWORKS)]
        cells = {
            (variant.label, network): accuracy(results, variant.label, network, test, self.metric)
            for variant in VARIANTS
            for network in networks
        }
        best = {
            network: max((found.mean for (_, where), found in cells.items() if found and where == network), default=0.0)
            for network in networks
        }
        rows = []
        for variant in VARIANTS:
            ours = [beside(cells[variant.label, n], self._paper(variant, n, test), best[n]) for n in networks]
            if any(ours):
                rows.append([variant.label, *ours])
        return Table(
            ["system", *(NAMES.get(network, network) for network in networks)], rows, f"{_HEADINGS[test]} test links"
        )

    def _paper(self, variant: Variant, network: str, test: str) -> tuple[float, float] | None:
        return figure(self.metric, network, variant.published, test) if variant.published else None


def accuracy(results: Results, label: str, network: str, test: str, metric: Metric) -> Cell | None:
    """A cell of our tables: the mean over batches of 30 links, against random negatives, by the strict clock."""
    task, links = TESTS[test]
    runs = results.labelled(f"{label}, {task}", network)
    return cell(runs, f"{metric}_batch30", links=links, negatives="random", clock="strict")


def _seeds(runs: list[Result]) -> str:
    """How many seeds the figures are means of."""
    counts: dict[str, list[int]] = {}
    for variant in VARIANTS:
        for network in {one.network for one in runs}:
            for task in ("transductive", "inductive"):
                start = f"{variant.label}, {task}"
                same = [one for one in runs if one.network == network and any(x.startswith(start) for x in one.labels)]
                if same:
                    counts.setdefault("CAW-N" if variant.own else "other systems", []).append(len(same))
    words = [f"{name} {min(found)} to {max(found)}" for name, found in counts.items()]
    return f"Number of seeds: {', '.join(words)}. A figure without an interval is of a single seed."


def _cut_short(run: Result) -> bool:
    return bool(run.value.get("cut_short"))


def table_runs(results: Results) -> list[Result]:
    """The trainings of the tables."""
    return [one for variant in VARIANTS for one in results.labelled(variant.label)]


def beside(ours: Cell | None, paper: tuple[float, float] | None, best: float = -1.0) -> str:
    """Our figure, and below it the paper's in parentheses."""
    lines = [] if ours is None else [f"**{ours}**" if ours.mean == best else str(ours)]
    return "<br>".join(lines + ([] if paper is None else [f"({paper[0]:.2f} ± {paper[1]:.2f})"]))


class Table2(Accuracy):
    name = "table2"
    title = "Table 2: AUC of CAW-N and its rivals on new and on known nodes"
    metric = "auc"
    printed = "AUC"


class Table6(Accuracy):
    name = "table6"
    title = "Table 6: average precision of CAW-N and its rivals, from the same runs as table2"
    metric = "ap"
    printed = "AP"
