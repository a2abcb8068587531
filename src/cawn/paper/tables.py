"""Tables 2 and 6 of the paper: AUC and AP of CAW-N and other systems, inductive and transductive."""

from __future__ import annotations

from typing import ClassVar

from cawn.paper.experiments import Experiment, Request, Section, Table
from cawn.paper.measurements import Measurement
from cawn.paper.published import NETWORKS, TESTS, Metric, PaperValue, display_name, paper_value
from cawn.paper.results import MEAN_AND_INTERVAL, Cell, Result, Results, cell, check_same_splits
from cawn.paper.training import KINDS_OF_NEGATIVES, training
from cawn.paper.variants import BY_NAME, VARIANTS, Variant, chosen_variants, settings_of


class Accuracy(Experiment):
    """One of the two tables; both are computed from the same runs."""

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
                f"{self.printed} in percent, {MEAN_AND_INTERVAL}; below it, in parentheses, the paper's value. For our "
                "own presets, CAW-N default and CAW-N large, that is the better of the paper's two variants. Strict "
                "clock (a prediction uses links at earlier times only), random negatives, averaged over batches of 30 "
                "links as in the authors' code. Our highest value in each column is bold.",
                _seeds(runs),
            ],
            used=runs,
        )
        if short := _cut_short(runs):
            section.text.append(f"Stopped by a time limit before the last epoch: {', '.join(short)}.")
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
            measured = any(cells[variant.label, network] for network in networks)
            if measured or variant.published == variant.label:
                shown = [beside(cells[variant.label, n], self._paper(variant, n, test), best[n]) for n in networks]
                rows.append([variant.label, *shown])
        return Table(["system", *map(display_name, networks)], rows, f"{test} test links")

    def _paper(self, variant: Variant, network: str, test: str) -> PaperValue | None:
        return paper_value(self.metric, network, variant.published, test) if variant.published else None


def accuracy(results: Results, label: str, network: str, test: str, metric: Metric) -> Cell | None:
    """A cell of our tables: the mean over batches of 30 links, against random negatives, by the strict clock."""
    task, links = TESTS[test]
    runs = results.labelled(f"{label}, {task}", network)
    return cell(runs, f"{metric}_batch30", links=links, negatives="random", clock="strict")


def _seeds(runs: list[Result]) -> str:
    """The number of seeds, in words: the smallest and the largest over networks and tasks."""
    counts: dict[str, list[int]] = {}
    for variant in VARIANTS:
        for network in {one.network for one in runs}:
            for task in ("transductive", "inductive"):
                if same := _labelled(runs, f"{variant.label}, {task}", network):
                    counts.setdefault("CAW-N" if variant.own else "other systems", []).append(len(same))
    words = [f"{name} {' to '.join(map(str, sorted({min(found), max(found)})))}" for name, found in counts.items()]
    return f"Number of seeds: {', '.join(words)}. A value without an interval comes from a single seed."


def _cut_short(runs: list[Result]) -> list[str]:
    """The systems that a time limit stopped before the last epoch, with the network."""
    return [
        f"{variant.label} ({display_name(network)})"
        for variant in VARIANTS
        for network in dict.fromkeys(one.network for one in runs)
        if any(one.value.get("cut_short") for one in _labelled(runs, variant.label, network))
    ]


def _labelled(runs: list[Result], start: str, network: str) -> list[Result]:
    return [one for one in runs if one.network == network and any(x.startswith(f"{start}, ") for x in one.labels)]


def table_runs(results: Results) -> list[Result]:
    """The runs of the tables."""
    found = (one for variant in VARIANTS for one in results.labelled(variant.label))
    return list({(one.network, one.key): one for one in found}.values())  # --set can make two variants equal


def beside(ours: Cell | None, paper: PaperValue | None, best: float = -1.0) -> str:
    """Our value, bold if it is the best, and below it the paper's in parentheses."""
    lines = [] if ours is None else [f"**{ours}**" if ours.mean == best else str(ours)]
    return "<br>".join(lines + ([] if paper is None else [f"({paper})"]))


class Table2(Accuracy):
    name = "table2"
    title = "Table 2: AUC of CAW-N and other systems, inductive and transductive"
    metric = "auc"
    printed = "AUC"


class Table6(Accuracy):
    name = "table6"
    title = "Table 6: average precision of CAW-N and other systems, from the same runs as Table 2"
    metric = "ap"
    printed = "AP"
