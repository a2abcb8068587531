"""Which earlier links a prediction may use: the same runs evaluated with three clocks; and CAW-N trained with ties
resolved by row order."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.kernels.keys import pair_key
from cawn.learn.splits import split
from cawn.paper.experiments import Experiment, Plot, Request, Section, Table, counted
from cawn.paper.measurements import Measurement, Task
from cawn.paper.negatives import trained_with
from cawn.paper.published import TESTS, PaperValue, display_name, paper_value
from cawn.paper.results import MEAN_AND_INTERVAL, Cell, Result, Results, by_seed, cell, check_same_splits
from cawn.paper.training import training
from cawn.paper.variants import BY_NAME, VARIANTS, Variant, chosen_variants, settings_of
from cawn.studies.jobs import Send

CLOCKS = ("strict", "event", "batch:200")
BY_ROWS = "ties by rows"
_SYSTEMS = ("paper-mean", "default", "tgn", "graphmixer", "tpnet", "rates")  # by default
_TASKS = ("transductive", "inductive")
_MEANING = {
    "strict": "all links at earlier times; simultaneous links are hidden from each other",
    "event": "all links in earlier rows of the file, including simultaneous ones",
    "batch:200": "the links before its batch of 200 consecutive test links, so up to 199 recent ones are missing",
}


class Clocks(Experiment):
    name = "clocks"
    title = "Beyond the paper: which earlier links a prediction may use (strict, event and batch clocks)"
    beyond = True
    networks = ("uci", "enron", "wikipedia")
    seeds = 3
    options = ("--seeds", "--systems", "--set")
    systems = tuple(BY_NAME)

    def plan(self, request: Request) -> list[Measurement]:
        chosen = [BY_NAME[name] for name in _SYSTEMS] if request.systems is None else chosen_variants(request)
        return [one for network in request.networks for one in _of_network(network, chosen, request)]

    def show(self, results: Results) -> Section | None:
        runs = [one for variant in VARIANTS for one in results.labelled(_label(variant))]
        if not runs:
            return None
        check_same_splits(runs)
        networks = [network for network in results.networks if any(run.network == network for run in runs)]
        section = Section(used=runs)
        section.text.append(
            "Each system is trained once, with the strict clock, and evaluated with three clocks. To predict a test "
            "link, it may use, with "
            + "; ".join(f"**{clock}**: {meaning}" for clock, meaning in _MEANING.items())
            + ". AP is pooled over the test links with random negatives, MRR is among 100 random destinations; both in "
            f"percent, {MEAN_AND_INTERVAL}. In parentheses: the difference from the strict clock in points, paired by "
            "seed; it is clear if its interval excludes 0."
        )
        section.text.append(trained_with({variant.label: results.labelled(_label(variant)) for variant in VARIANTS}))
        for network in networks:
            name, found = display_name(network), [run for run in runs if run.network == network]
            section.text.append(f"**{name}.** " + " ".join([*tie_shares(results, network), *effects(found)]))
            section.tables.append(_table(found, "ap", f"{name}, AP", tuple(TESTS)))
            section.tables.append(_table(found, "mrr", f"{name}, MRR", ("transductive",)))
        compared = [line for network in networks for line in readings(results, network)]
        if compared:
            section.text.extend([_ABOUT_READINGS, *(line.sentence() for line in compared if line.paper is not None)])
            section.tables.append(_readings_table(compared))
        section.plots.append(_plot(runs, networks))
        return section


def _of_network(network: str, chosen: list[Variant], request: Request) -> list[Measurement]:
    """The measurement of the ties of a network, and its runs."""
    seeds = {task: len(request.seeds_of(task)) for task in _TASKS}
    planned = [Measurement(network, "ties", {"seeds": seeds}, _TIES)]
    for variant in chosen:
        config = settings_of(variant, network, request)
        for task in _TASKS:
            for seed in request.seeds_of(task):
                options: dict[str, Any] = {"task": task, "seed": seed}
                planned.append(training(network, config, label=_label(variant), clocks=CLOCKS, **options))
                if variant.preset in ("paper-mean", "paper-attn"):
                    label = f"{_label(variant)}, {BY_ROWS}"
                    planned.append(training(network, config, label=label, ties="rows", **options))
    return planned


_TIES = "clocks, ties"


def _label(variant: Variant) -> str:
    return f"clocks, {variant.label}"


# Ties.


def measure_ties(task: Task, send: Send) -> list[dict[str, Any]]:
    """The ties among the test links of every task and seed: see `shares_of_ties`."""
    events, rows = task.events(), []
    shares = shares_of_ties(events)
    for name, seeds in task.settings["seeds"].items():
        for seed in range(seeds if name == "inductive" else 1):  # transductive test links do not depend on the seed
            for links, chosen in split(events, name, seed=seed).test.items():
                if len(chosen):
                    found = {share: round(float(marked[chosen].mean()), 6) for share, marked in shares.items()}
                    rows.append({"task": name, "seed": seed, "links": links, "count": len(chosen), **found})
        send({"done": (1 + list(task.settings["seeds"]).index(name)) / len(task.settings["seeds"])})
    return rows


def shares_of_ties(events: Events) -> dict[str, npt.NDArray[np.bool_]]:
    """Which links have ties, [E] each.

    simultaneous: Another link has the same time.
    repeated: An earlier row is the same link at the same time.
    last: An earlier row has the same time and shares a node, which has no link after that time.
    """
    rows, ends = np.arange(len(events)), np.stack([events.src, events.dst])  # [E], [2, E]
    _, moment, size = np.unique(events.t, return_inverse=True, return_counts=True)
    _, pair = np.unique(pair_key(events.src, events.dst), return_inverse=True)
    _, first, number = np.unique(moment * len(events) + pair, return_index=True, return_inverse=True)
    last = np.full(events.num_nodes, -1)  # moment of each node's last links
    first_of_last = np.full(events.num_nodes, len(events))  # and the first row among them
    for end in ends:
        np.maximum.at(last, end, moment)
    for end in ends:
        np.minimum.at(first_of_last, end, np.where(moment == last[end], rows, len(events)))
    return {
        "simultaneous": size[moment] > 1,
        "repeated": first[number] < rows,
        "last": ((moment == last[ends]) & (first_of_last[ends] < rows)).any(axis=0),
    }


def tie_shares(results: Results, network: str) -> list[str]:
    """How many test links have ties, in words."""
    found = [row for one in results.labelled(_TIES, network) for row in one.value]
    rows = [row for row in found if row["task"] == "transductive"]
    if not rows:
        return []
    row = rows[0]
    return [
        f"Of the {row['count']:,} transductive test links, {_percent(row['simultaneous'])} have the same time as "
        f"another link, and {_percent(row['repeated'])} repeat an earlier row exactly (same nodes, same time), which "
        "the event clock does not hide."
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


# Differences between clocks.


def gain(
    runs: Iterable[Result], others: Iterable[Result], metric: str, clocks: tuple[str, str], **wanted: str
) -> Cell | None:
    """How much higher a metric of `runs` with the first clock is than of `others` with the second, paired by seed."""
    ours, theirs = by_seed(runs, metric, clock=clocks[0], **wanted), by_seed(others, metric, clock=clocks[1], **wanted)
    return Cell.of(ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys()))


def _runs_of(runs: Iterable[Result], start: str) -> list[Result]:
    return [run for run in runs if any(label.startswith(f"{start}, ") for label in run.labels)]


def _systems(runs: list[Result]) -> list[Variant]:
    return [variant for variant in VARIANTS if any(_runs_of(runs, f"{_label(variant)}, {task}") for task in _TASKS)]


def _table(runs: list[Result], metric: str, title: str, tests: tuple[str, ...]) -> Table:
    """A row per system and kind of test links: the metric with each clock, and its difference from the strict one."""
    rows = []
    for test in tests:
        task, links = TESTS[test]
        wanted = {"links": links, "negatives": "random"}
        for variant in _systems(runs):
            same = _runs_of(runs, f"{_label(variant)}, {task}")
            cells = [cell(same, metric, **wanted, clock=clock) for clock in CLOCKS]
            if cells[0] is None:
                continue
            shown = [str(cells[0])]
            for clock, found in zip(CLOCKS[1:], cells[1:], strict=True):
                gained = gain(same, same, metric, (clock, CLOCKS[0]), **wanted)
                shown.append("" if found is None or gained is None else f"{found.mean:.2f} ({gained.signed})")
            rows.append([f"{variant.label}, {test}", *shown])
    return Table(["system, test links", *CLOCKS], rows, title)


def effects(runs: list[Result]) -> list[str]:
    """How much each clock changes AP and MRR on transductive test links, in words."""
    sentences = []
    for clock in CLOCKS[1:]:
        parts = [text for metric in ("ap", "mrr") if (text := _effect(runs, clock, metric))]
        if parts:
            sentences.append(f"Compared with strict, {clock} changes {' and '.join(parts)}.")
    return sentences


def _effect(runs: list[Result], clock: str, metric: str) -> str:
    """The smallest and the largest change of a metric over the systems, in words."""
    found: dict[str, Cell] = {}
    for variant in _systems(runs):
        same = _runs_of(runs, f"{_label(variant)}, transductive")
        gained = gain(same, same, metric, (clock, CLOCKS[0]), links="all", negatives="random")
        if gained is not None:
            found[variant.label] = gained
    if not found:
        return ""
    ordered = sorted(found, key=lambda label: found[label].mean)
    between = " to ".join(f"{found[label].mean:+.2f} ({label})" for label in dict.fromkeys((ordered[0], ordered[-1])))
    clear = sum(one.clear for one in found.values())
    return f"{metric.upper()} by {between} points (clear for {clear} of {counted(len(found), 'system')})"


# The paper's cells.

_ABOUT_READINGS = (
    "Do the paper's results depend on how ties are resolved? CAW-N is also trained and evaluated with ties resolved by "
    "rows: simultaneous links follow each other in the order of the file. The authors' published code hides "
    "simultaneous links from each other, except at the last time of a node, where it uses row order; the last column "
    "is the share of test links affected by this. AUC in percent, averaged over batches of 30 links as in their code."
)


class Reading(NamedTuple):
    """A cell of the paper, and ours for three ways to resolve ties."""

    network: str
    variant: Variant
    test: str
    paper: PaperValue | None
    strict: Cell
    event: Cell | None  # trained with the strict clock, evaluated by rows
    rows: Cell | None  # trained and evaluated by rows
    gained: Cell | None  # rows minus strict, paired by seed
    same_split: bool
    last: float | None  # share of test links whose ties the authors' code resolves by rows

    def sentence(self) -> str:
        """Whether resolving ties by rows explains the paper's value, in words."""
        assert self.paper is not None
        gap = self.paper.mean - self.strict.mean
        name = f"{display_name(self.network)}, {self.test}, {self.variant.label}"
        text = f"{name}: paper {self.paper.mean:.2f}, strict {self.strict.mean:.2f}"
        if self.rows is None or self.gained is None:
            return f"{text}."
        text += f", ties by rows {self.rows.mean:.2f} ({self.gained.signed}). "
        if gap <= 0:
            return f"{text}With the strict clock, AUC is not below the paper's."
        if not self.gained.clear:
            return f"{text}The effect of resolving ties by rows is not clear from {counted(self.gained.seeds, 'seed')}."
        share = min(max(self.gained.mean / gap, 0), 1)
        closes = f"{100 * share:.0f} %" if share else "none"
        return f"{text}Resolving ties by rows closes {closes} of the gap of {gap:.2f} points."


def readings(results: Results, network: str) -> list[Reading]:
    """The cells of Table 2 for the variants that were also trained with ties resolved by rows."""
    found = []
    for variant in VARIANTS:
        for test, (task, links) in TESTS.items():
            wanted = {"links": links, "negatives": "random"}
            strict = results.labelled(f"{_label(variant)}, {task}", network)
            by_rows = results.labelled(f"{_label(variant)}, {BY_ROWS}, {task}", network)
            ours = cell(strict, "auc_batch30", **wanted, clock="strict")
            if ours is None or not by_rows:
                continue
            found.append(
                Reading(
                    network=network,
                    variant=variant,
                    test=test,
                    paper=paper_value("auc", network, variant.published, test) if variant.published else None,
                    strict=ours,
                    event=cell(strict, "auc_batch30", **wanted, clock="event"),
                    rows=cell(by_rows, "auc_batch30", **wanted, clock="strict"),
                    gained=gain(by_rows, strict, "auc_batch30", ("strict", "strict"), **wanted),
                    same_split=_splits(by_rows) == _splits(strict),
                    last=_last_share(results, network, task, links),
                )
            )
    return found


def _splits(runs: list[Result]) -> set[tuple[int, str]]:
    return {(run.settings["seed"], row["split"]) for run in runs for row in run.value["rows"]}


def _last_share(results: Results, network: str, task: str, links: str) -> float | None:
    rows = [row for one in results.labelled(_TIES, network) for row in one.value]
    rows = [row for row in rows if (row["task"], row["links"]) == (task, links)]
    return float(np.average([row["last"] for row in rows], weights=[row["count"] for row in rows])) if rows else None


def _readings_table(compared: list[Reading]) -> Table:
    rows = []
    for line in compared:
        paper = "" if line.paper is None else str(line.paper)
        ours = ["" if found is None else str(found) for found in (line.strict, line.event, line.rows)]
        name = f"{display_name(line.network)}, {line.test}, {line.variant.label}"
        gained = "" if line.gained is None else line.gained.signed + ("" if line.same_split else " *")
        rows.append([name, paper, *ours, gained, "" if line.last is None else _percent(line.last)])
    differ = any(not line.same_split for line in compared)
    return Table(
        [
            "network, test links, system",
            "paper",
            "strict",
            "trained strictly, evaluated by rows",
            "trained and evaluated by rows",
            "rows minus strict",
            "by rows in the authors' code",
        ],
        rows,
        "AUC by how ties are resolved",
        "\\* The splits differ by a few links: by rows, a boundary can lie between simultaneous links."
        if differ
        else "",
    )


def _plot(runs: list[Result], networks: list[str]) -> Plot:
    return Plot(
        "AP by clock, transductive test links",
        partial(_draw, runs, networks),
        (3.0 * len(networks) + 1.5, 3.4),
    )


def _draw(runs: list[Result], networks: list[str], figure: Any) -> None:
    """A panel per network, a line per system over the clocks."""
    axes = figure.subplots(1, len(networks), squeeze=False)[0]
    for axis, network in zip(axes, networks, strict=True):
        for variant in _systems(runs):
            same = _runs_of((run for run in runs if run.network == network), f"{_label(variant)}, transductive")
            cells = [cell(same, "ap", links="all", negatives="random", clock=clock) for clock in CLOCKS]
            known = [(clock, found.mean) for clock, found in zip(CLOCKS, cells, strict=True) if found is not None]
            if known:
                axis.plot(*zip(*known, strict=True), marker="o", markersize=4, label=variant.label)
        axis.set_title(display_name(network))
        axis.grid(axis="y")
    axes[0].set_ylabel("AP, %")
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
