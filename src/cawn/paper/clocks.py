"""Which earlier links a prediction may use: the same runs evaluated with three clocks; and CAW-N trained with ties
resolved by row order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.kernels.keys import pair_key
from cawn.learn.splits import split
from cawn.paper.experiments import Content, Experiment, Finding, Plot, Request, Table, counted, listing
from cawn.paper.measurements import TASKS, Measurement, Work, training
from cawn.paper.published import CAWN, TESTS, display_name, paper_value
from cawn.paper.records import MODEL, Groups, Records
from cawn.paper.tables import LABELS
from cawn.paper.variants import BY_NAME, VARIANTS, chosen_variants, settings_of
from cawn.studies.jobs import Send

CLOCKS = ("strict", "event", "batch:200")
BY_ROWS = "ties by rows"
_SYSTEMS = ("paper-mean", "default", "tgn", "graphmixer", "tpnet", "rates")  # by default
_TIES = "clocks, ties"
_PUBLISHED = {variant.label: variant.published for variant in VARIANTS}


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
        counts = {task: len(request.seeds_of(task)) for task in TASKS}
        planned = []
        for network in request.networks:
            planned.append(Measurement(network, "ties", {"seeds": counts}, _TIES))
            for variant in chosen:
                config, label = settings_of(variant, network, request), f"clocks, {variant.label}"
                for task, seed in [(name, seed) for name in TASKS for seed in request.seeds_of(name)]:
                    options: dict[str, Any] = {"task": task, "seed": seed}
                    planned.append(training(network, config, label=label, clocks=CLOCKS, **options))
                    if variant.label in CAWN:
                        planned.append(training(network, config, label=f"{label}, {BY_ROWS}", ties="rows", **options))
        return planned

    def show(self, records: Records) -> Content | None:
        found = records.labelled("clocks")
        if not found:
            return None
        pivot = found.where(scorer=MODEL, negatives="random").by("label", "metric", "clock", "network", "task", "links")
        networks = found.networks
        ties = {
            network: [row for one in records.results.labelled(_TIES, network) for row in one.value]
            for network in networks
        }
        section = Content(found.runs, [_tie_table(ties)], [_plot(pivot, networks)])
        for network in networks:
            for metric, tests in (("ap", tuple(TESTS)), ("mrr", ("transductive",))):
                section.tables.append(_table(pivot, network, metric, tests))
        if rows := list(_readings(found, pivot, ties)):
            note = "\\* The splits differ by a few links: by rows, a boundary can lie between simultaneous links."
            note = note if any(row["mark"] for row in rows) else ""
            section.tables.append(listing("AUC by how ties are resolved", _READING_COLUMNS, rows, note))
            section.claims.extend(_reading_claim(row) for row in rows if row["paper"])
        return section


# Ties.


def measure_ties(work: Work, send: Send) -> list[dict[str, Any]]:
    """The ties among the test links of every task and seed: see `shares_of_ties`."""
    events, rows = work.events(), []
    shares = shares_of_ties(events)
    for name, seeds in work.settings["seeds"].items():
        for seed in range(seeds if name == "inductive" else 1):  # transductive test links do not depend on the seed
            for links, chosen in split(events, name, seed=seed).test.items():
                if len(chosen):
                    found = {share: round(float(marked[chosen].mean()), 6) for share, marked in shares.items()}
                    rows.append({"task": name, "seed": seed, "links": links, "count": len(chosen), **found})
        send({"done": (1 + list(work.settings["seeds"]).index(name)) / len(work.settings["seeds"])})
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


_TIE_COLUMNS = {
    "network": "{network}",
    "transductive test links": "{count:,}",
    "simultaneous with another link": "{simultaneous:.1%}",
    "exact repetition": "{repeated:.1%}",
}


def _tie_table(ties: dict[str, list[dict[str, Any]]]) -> Table:
    """How many transductive test links have ties."""
    first = {network: [row for row in rows if row["task"] == "transductive"][:1] for network, rows in ties.items()}
    rows = [row | {"network": display_name(network)} for network, some in first.items() for row in some]
    return listing("Ties among the test links", _TIE_COLUMNS, rows)


# Differences between clocks.


def _table(pivot: Groups, network: str, metric: str, tests: tuple[str, ...]) -> Table:
    """A row per system and kind of test links: the metric with each clock, and its difference from the strict one."""
    rows = []
    for test in tests:
        for label in LABELS:
            strict, *others = (pivot[f"clocks, {label}", metric, clock, network, *TESTS[test]] for clock in CLOCKS)
            if strict:
                shown = [f"{one.mean:.2f} ({(one - strict).signed})" if one - strict else "" for one in others]
                rows.append([f"{label}, {test}", str(strict), *shown])
    return Table(["system, test links", *CLOCKS], rows, f"{display_name(network)}, {metric.upper()}")


# The paper's cells.


_READING_COLUMNS = {
    "network, test links, system": "{name}, {test}, {label}",
    "paper": "{paper}",
    "strict": "{strict}",
    "trained strictly, evaluated by rows": "{event}",
    "trained and evaluated by rows": "{rows}",
    "rows minus strict": "{gain.signed}{mark}",
    "by rows in the authors' code": "{last}",
}


def _readings(found: Records, pivot: Groups, ties: dict[str, list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """The cells of Table 2 for the variants that were also trained with ties resolved by rows."""
    for network, label, (test, place) in product(found.networks, LABELS, TESTS.items()):
        trained = f"clocks, {label}", f"clocks, {label}, {BY_ROWS}"
        runs = [found.where(label=one, network=network, task=place[0]) for one in trained]
        strict, event = (pivot[trained[0], "auc_batch30", clock, network, *place] for clock in ("strict", "event"))
        if strict and runs[1]:
            splits = [{(record.seed, record.split) for record in some} for some in runs]
            shares = [row for row in ties[network] if (row["task"], row["links"]) == place]
            links = sum(row["count"] for row in shares)
            rows = pivot[trained[1], "auc_batch30", "strict", network, *place]
            yield {
                "network": network,
                "name": display_name(network),
                "test": test,
                "label": label,
                "paper": paper_value("auc", network, _PUBLISHED[label], test) or "",
                "strict": strict,
                "event": event,
                "rows": rows,
                "gain": rows - strict,
                "mark": "" if splits[0] == splits[1] else " *",
                "last": f"{sum(row['count'] * row['last'] for row in shares) / links:.1%}" if links else "",
            }


def _reading_claim(row: dict[str, Any]) -> Finding:
    """Whether resolving ties by rows explains the paper's value."""
    gap, gain = row["paper"].mean - row["strict"].mean, row["gain"]
    claim = Finding.of(
        f"{row['test']}, {row['label']}: resolving ties by rows explains the paper's value", row["network"], gain
    )
    if gap <= 0:
        return claim._replace(verdict="not below the paper with the strict clock")
    if not gain.is_clear:
        return claim._replace(verdict=f"undecided from {counted(len(gain), 'seed')}")
    return claim._replace(verdict=f"closes {100 * min(max(gain.mean / gap, 0), 1):.0f} % of the gap of {gap:.2f}")


def _plot(pivot: Groups, networks: list[str]) -> Plot:
    size = 3.0 * len(networks) + 1.5, 3.4
    return Plot("AP by clock, transductive test links", partial(_draw, pivot, networks), size)


def _draw(pivot: Groups, networks: list[str], figure: Any) -> None:
    """A panel per network, a line per system over the clocks."""
    axes = figure.subplots(1, len(networks), squeeze=False)[0]
    for axis, network in zip(axes, networks, strict=True):
        for label in LABELS:
            values = {clock: pivot[f"clocks, {label}", "ap", clock, network, "transductive", "all"] for clock in CLOCKS}
            known = [(clock, value.mean) for clock, value in values.items() if value]
            if known:
                axis.plot(*zip(*known, strict=True), marker="o", markersize=4, label=label)
        axis.set_title(display_name(network))
        axis.grid(axis="y")
    axes[0].set_ylabel("AP, %")
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
