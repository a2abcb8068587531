"""Tables 2 and 6 of the paper, AUC and AP of CAW-N and other systems; their summary; and AP against three kinds of
negatives, from the same runs."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any, ClassVar, NamedTuple

from cawn.learn.plots import COLOURS
from cawn.paper.experiments import Content, Experiment, Finding, Plot, Request, Table, beside, counted, listing, titled
from cawn.paper.measurements import KINDS_OF_NEGATIVES, TASKS, Measurement, training
from cawn.paper.published import CAWN, NETWORKS, TESTS, Metric, PaperValue, display_name, paper_value
from cawn.paper.records import MODEL, BySeed, Groups, Records
from cawn.paper.variants import BY_NAME, VARIANTS, chosen_variants, settings_of
from cawn.systems.baselines import STANDING

LABELS = tuple(variant.label for variant in VARIANTS)
OURS = tuple(BY_NAME[preset].label for preset in ("default", "large"))
PRINTED: dict[Metric, str] = {"auc": "AUC (Table 2)", "ap": "AP (Table 6)"}
TOLERANCE = 1.0  # points below the paper's value that still count as reproduced


class Accuracy(Experiment):
    """One of the two tables; both are computed from the same runs."""

    options = ("--seeds", "--systems", "--set")
    systems = tuple(BY_NAME)
    metric: ClassVar[Metric]

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
            for task in TASKS
            for seed in request.seeds_of(task)
        ]

    def show(self, records: Records) -> Content | None:
        found = records.labelled(*LABELS)
        cells = accuracies(found, self.metric)
        return Content(found.runs, [self._table(cells, found, test) for test in TESTS]) if found else None

    def _table(self, cells: Groups, found: Records, test: str) -> Table:
        """Systems by networks; those of the paper are listed whether they were measured or not."""
        networks = [*NETWORKS, *(name for name in found.networks if name not in NETWORKS)]
        rows = []
        for variant in VARIANTS:
            ours = {network: cells[variant.label, network, *TESTS[test]] for network in networks}
            if any(ours.values()) or variant.published == variant.label:
                rows.append([variant.label])
                for network, value in ours.items():
                    paper = paper_value(self.metric, network, variant.published, test)
                    best = bool(value) and value.mean == cells.best(network, *TESTS[test])
                    rows[-1].append(beside(value, paper, best=best))
        return Table(["system", *map(display_name, networks)], rows, f"{test} test links")


class Table2(Accuracy):
    name = "table2"
    title = "Table 2: AUC of CAW-N and other systems, inductive and transductive"
    metric = "auc"


class Table6(Accuracy):
    name = "table6"
    title = "Table 6: average precision of CAW-N and other systems, from the same runs as Table 2"
    metric = "ap"


def accuracies(records: Records, metric: Metric) -> Groups:
    """The cells of Table 2 or 6, by label, network, task and links."""
    wanted = {"metric": f"{metric}_batch30", "scorer": MODEL, "negatives": "random", "clock": "strict"}
    return records.labelled(*LABELS).where(**wanted).by("label", "network", "task", "links")


# The summary of both


class Compared(NamedTuple):
    """One of our values and the paper's value that it is compared with."""

    network: str
    test: str
    label: str
    ours: BySeed
    paper: PaperValue

    @property
    def ahead(self) -> float:
        """Points above the paper's mean, from the printed digits."""
        return round(round(self.ours.mean, 2) - self.paper.mean, 2)


def reproduced(cells: Groups, metric: Metric) -> list[Compared]:
    """Every value of the paper presets, with the same cell of the paper."""
    return [
        Compared(network, test, label, ours, paper)
        for network, test, label in product(NETWORKS, TESTS, CAWN)
        if (ours := cells[label, network, *TESTS[test]]) and (paper := paper_value(metric, network, label, test))
    ]


def surpassed(cells: Groups, metric: Metric) -> list[Compared]:
    """The better of the presets default and large in every cell, with the better variant of the paper."""
    found = []
    for network, test in product(NETWORKS, TESTS):
        ours = {label: value for label in OURS if (value := cells[label, network, *TESTS[test]])}
        paper = paper_value(metric, network, "best", test)
        if ours and paper is not None:
            label = max(ours, key=lambda name: ours[name].mean)
            found.append(Compared(network, test, label, ours[label], paper))
    return found


_COLUMNS = {
    "network": "{name}",
    "test links": "{test}",
    "preset": "{label}",
    "ours": "{ours}",
    "paper": "{paper}",
    "difference": "{ahead:+.2f}",
}
_COMPARISONS = (  # the values, the least that each must be ahead, the claim, and the title of the others
    (
        reproduced,
        -TOLERANCE,
        f"the paper presets are at most {TOLERANCE:g} point below the paper",
        f"more than {TOLERANCE:g} point below the paper's value",
    ),
    (
        surpassed,
        0.01,
        "the better of our own presets is above the paper's better variant",
        "our own presets, not above the paper's better variant",
    ),
)


def summary(records: Records) -> Content:
    """How many of the paper's values are reproduced, and how many surpassed; and those that are not."""
    section = Content([])
    for metric, printed in PRINTED.items():
        cells = accuracies(records, metric)
        for compare, least, claim, title in _COMPARISONS:
            compared = compare(cells, metric)
            short = [one for one in compared if one.ahead < least]
            if compared:
                networks = titled(dict.fromkeys(one.network for one in compared))
                number = f"{len(compared) - len(short)} of {counted(len(compared), 'cell')}"
                section.claims.append(Finding(f"{printed}: {claim}", networks, "", "", number))
            if short:
                rows = [one._asdict() | {"name": display_name(one.network), "ahead": one.ahead} for one in short]
                section.tables.append(listing(f"{printed}: {title}", _COLUMNS, rows))
    return section


# Kinds of negatives

_PLACES = list(product(TASKS, KINDS_OF_NEGATIVES))
_PANELS = 3  # in a row of the plot
_WITH_BASELINES = "rates"  # the variant whose results contain the untrained baselines


class Line(NamedTuple):
    """The accuracy of one system on one network."""

    label: str
    trained_with: str  # "random", "mixed", or "untrained"
    ap: dict[tuple[str, str], BySeed]  # by task and kind of negatives


class KindsOfNegatives(Experiment):
    name = "negatives"
    title = "Beyond the paper: average precision against random, historical and inductive negatives"
    beyond = True
    options, systems = Accuracy.options, Accuracy.systems

    def plan(self, request: Request) -> list[Measurement]:
        return Table2().plan(request)

    def show(self, records: Records) -> Content | None:
        found = records.labelled(*LABELS)
        if not found:
            return None
        lines = {network: _lines(found.where(network=network)) for network in found.networks}
        columns, rows = min(len(lines), _PANELS), -(-len(lines) // _PANELS)
        labels = list(dict.fromkeys(line.label for some in lines.values() for line in some))
        plot = Plot(
            "AP against random (filled) and historical (hollow) negatives, transductive test links; blue: trained with "
            "random negatives, orange: with mixed ones, grey: untrained",
            partial(_draw, lines, labels),
            (2.6 * columns + 1.6, (0.2 * len(labels) + 0.9) * rows),
        )
        claims = [
            Finding.of(
                f"{task}: {line.label}: AP is lower against historical than against random negatives",
                network,
                line.ap.get((task, "random"), BySeed()) - line.ap.get((task, "historical"), BySeed()),
            )
            for network, task in product(lines, TASKS)
            for line in lines[network]
            if line.label in (*CAWN, *OURS)
        ]
        return Content(found.runs, [_table(network, some) for network, some in lines.items()], [plot], claims)


def _lines(records: Records) -> list[Line]:
    """The systems with results on a network, then the untrained baselines."""
    pivot = records.where(metric="ap", links="all", clock="strict").by("label", "scorer", "task", "negatives")
    lines = []
    for label, scorer in [(label, MODEL) for label in LABELS] + [(_WITH_BASELINES, name) for name in STANDING]:
        if ap := {place: value for place in _PLACES if (value := pivot[label, scorer, *place])}:
            runs = records.where(label=label).runs
            kinds = {run.settings["config"].get("negatives", "random") for run in runs} if scorer == MODEL else set()
            lines.append(Line(scorer or label, " or ".join(sorted(kinds)) or "untrained", ap))
    return lines


def _table(network: str, lines: list[Line]) -> Table:
    best = {place: max((line.ap[place].mean for line in lines if place in line.ap), default=None) for place in _PLACES}
    rows = []
    for line in lines:
        values = [(line.ap.get(place, BySeed()), best[place]) for place in _PLACES]
        shown = [beside(value, None, best=bool(value) and value.mean == most) for value, most in values]
        rows.append([line.label, line.trained_with, *shown])
    headings = ["system", "negatives in training", *(f"{task}, {kind}" for task, kind in _PLACES)]
    return Table(headings, rows, display_name(network))


def _draw(lines: dict[str, list[Line]], labels: list[str], figure: Any) -> None:
    """A panel per network, a line per system from AP against random to AP against historical negatives."""
    colours = {"random": COLOURS[0], "mixed": COLOURS[1]}
    axes = figure.subplots(-(-len(lines) // _PANELS), min(len(lines), _PANELS), squeeze=False, sharey=True)
    for axis in axes.flat[len(lines) :]:
        axis.set_visible(False)
    for axis, (network, found) in zip(axes.flat, lines.items(), strict=False):
        for line in found:
            ends = [line.ap.get(("transductive", kind)) for kind in ("random", "historical")]
            if all(ends):
                y, x = labels.index(line.label), [end.mean for end in ends if end]
                colour = colours.get(line.trained_with, COLOURS[-1])
                axis.plot(x, [y, y], color=colour, linewidth=1.5)
                axis.plot(x[:1], [y], "o", color=colour, markersize=5)
                axis.plot(x[1:], [y], "o", color=colour, markerfacecolor="none", markersize=5)
        axis.set_title(display_name(network))
        axis.set_xlabel("AP, %")
        axis.grid(axis="x")
    axes[0, 0].set_yticks(range(len(labels)), labels)
    axes[0, 0].invert_yaxis()
