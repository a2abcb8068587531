"""Table 1 of the paper, the statistics of the networks; and more about their ties, repetition and new pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cawn.data.datasets import CATALOG
from cawn.data.events import Events
from cawn.data.summary import describe
from cawn.kernels.keys import pair_key
from cawn.learn.splits import split
from cawn.paper.experiments import Content, Experiment, Finding, Request, Table
from cawn.paper.measurements import Measurement, Work
from cawn.paper.published import NAMES, display_name, published
from cawn.paper.records import Records
from cawn.paper.results import ResultStore
from cawn.paper.variants import tuned
from cawn.studies.jobs import Send

_LABEL = "statistics"
_DAY = 86_400
_RATIO, _FACTOR = 5.0, 2.0  # tau / alpha in the paper, and the factor within which a ratio counts as equal to it
_PRESETS = {"paper-mean": "CAW-N-mean", "paper-attn": "CAW-N-attn"}
_FORMS = {"nodes": ",", "links": ",", "node attributes": ",", "link attributes": ",", "intensity": ".3g"}  # of Table 1
_COLUMNS = {  # statistics of the second table
    "distinct_times": "distinct times",
    "ties": "simultaneous with another link",
    "identical": "same nodes and time as an earlier row",
    "repeats_directed": "repeat an earlier pair",
    "repeats_undirected": "repeat an earlier pair, in either direction",
    "surprise": "test links with a pair that is not in training (surprise)",
    "unseen": "test links with a node that is not in training",
}
Found = dict[str, dict[str, Any]]  # the statistics of each network


class Networks(Experiment):
    name = "datasets"
    title = "Table 1: statistics of the networks"
    seeds = 1
    options = ()

    def plan(self, request: Request) -> list[Measurement]:
        return [Measurement(network, "statistics", {}, _LABEL) for network in request.networks]

    def show(self, records: Records) -> Content | None:
        used = records.results.labelled(_LABEL)
        found = {one.network: one.value for one in used}
        if not found:
            return None
        section = Content(used, [_table1(found), _table_of_shares(found)], claims=list(_differences(found)))
        if ratios := _ratios(records.results, found):
            section.tables.append(_table_of_ratios(ratios))
            section.claims.extend(_about_five(ratios))
        return section


def measure(work: Work, send: Send) -> dict[str, Any]:
    """The statistics of a network."""
    return statistics(work.events())


def statistics(events: Events) -> dict[str, Any]:
    """Those of `describe`, and shares of links as fractions."""
    found = describe(events)
    code = pair_key(events.src, events.dst)
    _, at, same_time = np.unique(events.t, return_inverse=True, return_counts=True)
    pairs, pair = np.unique(code, return_inverse=True)
    parts = split(events, "transductive", seed=0)
    train, test = parts.train, parts.test["all"]
    known = np.zeros(events.num_nodes, np.bool_)
    known[events.src[train]] = known[events.dst[train]] = True
    links = len(events)
    return {
        "nodes": int(np.unique([events.src, events.dst]).size),
        "links": links,
        "node attributes": found["node_attributes"],
        "link attributes": found["link_attributes"],
        "intensity": found["tau"],
        "seconds": float(events.t[-1] - events.t[0]),
        "bipartite": not np.intersect1d(events.src, events.dst).size,
        "distinct_times": len(same_time),
        "ties": float((same_time[at] > 1).mean()),
        "identical": 1 - len(np.unique(pair * len(same_time) + at)) / links,
        "repeats_directed": 1 - len(pairs) / links,
        "repeats_undirected": found["repeats"] / links,
        "surprise": float((~np.isin(code[test], code[train])).mean()),
        "unseen": float((~(known[events.src[test]] & known[events.dst[test]])).mean()),
    }


def _rows(found: Found) -> dict[str, dict[str, Any]]:
    """The networks of the tables, those of the paper and of the catalog, measured or not."""
    return {network: found.get(network, {}) for network in dict.fromkeys([*NAMES, *CATALOG, *found])}


def _table1(found: Found) -> Table:
    headings = ["network", "nodes", "links", "node attributes", "link attributes", "τ, 1/s", "days", "bipartite"]
    rows = []
    for network, ours in _rows(found).items():
        paper = published()["networks"].get(network, {})
        cells = [_beside(ours.get(name), paper.get(name), form) for name, form in _FORMS.items()]
        cells += [f"{ours['seconds'] / _DAY:,.1f}", "yes" if ours["bipartite"] else "no"] if ours else ["", ""]
        rows.append([display_name(network), *cells])
    return Table(headings, rows, "Table 1")


def _beside(ours: float | None, paper: float | None, form: str) -> str:
    """Our value, and below it the paper's."""
    parts = ["" if ours is None else format(ours, form), "" if paper is None else f"({paper:{form}})"]
    return "<br>".join(part for part in parts if part)


def _table_of_shares(found: Found) -> Table:
    empty = dict.fromkeys(_COLUMNS, "")
    rows = []
    for network, ours in _rows(found).items():
        shown = {name: f"{100 * ours[name]:.1f} %" for name in _COLUMNS} if ours else empty
        count = {"distinct_times": f"{ours['distinct_times']:,}"} if ours else {}
        rows.append([display_name(network), *(shown | count).values()])
    note = "In percent of all links, or of the test links where these are named."
    return Table(["network", *_COLUMNS.values()], rows, "Ties, repetition and surprise", note)


def _differences(found: Found) -> Iterator[Finding]:
    """Where our values differ from the paper's: counts at all, tau by more than 5 %."""
    for network, paper in published()["networks"].items():
        ours = found.get(network, {})
        for column in ("nodes", "node attributes", "link attributes") if ours else ():
            if gap := ours[column] - paper[column]:
                yield Finding.that(f"the number of {column} is the paper's", network, False, f"{gap:+,}")
        if ours and ours["intensity"] > 0 and not 0.95 < (ratio := paper["intensity"] / ours["intensity"]) < 1.05:
            yield Finding.that("τ is the paper's", network, False, f"the paper's is {ratio:.2g} times ours")


def _ratios(results: ResultStore, found: Found) -> dict[tuple[str, str], tuple[float, float]]:
    """By network and preset: the best alpha of the grid search, and tau / alpha."""
    ratios = {}
    for trial in results.all("trial"):
        network, preset = trial.network, trial.settings["preset"]
        alpha = tuned(results, network, preset).get("alpha")
        if network in found and preset in _PRESETS and isinstance(alpha, float) and alpha > 0:
            ratios[network, preset] = alpha, found[network]["intensity"] / alpha
    return ratios


def _table_of_ratios(ratios: dict[tuple[str, str], tuple[float, float]]) -> Table:
    shown = {place: f"{ratio:.3g} (α = {alpha:.2g})" for place, (alpha, ratio) in ratios.items()}
    rows = [
        [display_name(network), *(shown.get((network, preset), "") for preset in _PRESETS)]
        for network in dict.fromkeys(network for network, _ in ratios)
    ]
    note = "For the decay α chosen by the hyperparameter search on validation links."
    return Table(["network", *_PRESETS.values()], rows, "τ / α", note)


def _about_five(ratios: dict[tuple[str, str], tuple[float, float]]) -> Iterator[Finding]:
    """Whether tau / alpha is about the same everywhere, as the paper says."""
    for (network, preset), (_, ratio) in ratios.items():
        text = f"{_PRESETS[preset]}: τ / α is about {_RATIO:g} (within a factor of {_FACTOR:g})"
        yield Finding.that(text, network, _RATIO / _FACTOR <= ratio <= _RATIO * _FACTOR, f"{ratio:.3g}")
