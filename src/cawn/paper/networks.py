"""Table 1 of the paper, the statistics of the networks; and more about their ties, repetition and new pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.datasets import CATALOG
from cawn.data.events import Events
from cawn.data.summary import describe
from cawn.kernels.keys import pair_key
from cawn.learn.splits import split
from cawn.paper.experiments import Experiment, Request, Section, Table, counted
from cawn.paper.measurements import Measurement, Task
from cawn.paper.published import NAMES, display_name, published
from cawn.paper.results import Result, Results
from cawn.paper.variants import tuned
from cawn.studies.jobs import Send

Array = npt.NDArray[Any]

_LABEL = "statistics"
_DAY = 86_400
_RATIO, _FACTOR = 5.0, 2.0  # tau / alpha in the paper, and the factor within which a ratio counts as equal to it
_PRESETS = {"paper-mean": "CAW-N-mean", "paper-attn": "CAW-N-attn"}
_COLUMNS = {  # statistics of the second table, and whether they are shares
    "distinct_times": ("distinct times", False),
    "ties": ("simultaneous with another link", True),
    "identical": ("same nodes and time as an earlier row", True),
    "repeats_directed": ("repeat an earlier pair", True),
    "repeats_undirected": ("repeat an earlier pair, in either direction", True),
    "surprise": ("test links with a pair that is not in training (surprise)", True),
    "unseen": ("test links with a node that is not in training", True),
}


class Networks(Experiment):
    name = "datasets"
    title = "Table 1: statistics of the networks"
    seeds = 1
    options = ()

    def plan(self, request: Request) -> list[Measurement]:
        return [Measurement(network, "statistics", {}, _LABEL) for network in request.networks]

    def show(self, results: Results) -> Section | None:
        found = {one.network: one for one in results.labelled(_LABEL)}
        if not found:
            return None
        text = [
            "Our value and, below it in parentheses, the paper's. τ = 2 |E| / (|V| T), with T in seconds. Training "
            "links are the first 70 % of the links, test links the last 15 %; pairs are directed unless stated "
            "otherwise. A network counts as bipartite if no node is both a source and a destination.",
            *_differences(found),
        ]
        section = Section(text, [_table1(found), _table_of_shares(found)], used=list(found.values()))
        if ratios := _ratios(results, found):
            section.tables.append(_table_of_ratios(ratios))
            section.text.append(_verdict(ratios))
        return section


def measure(task: Task, send: Send) -> dict[str, Any]:
    """The statistics of a network."""
    return statistics(task.events())


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


def _rows(found: dict[str, Result]) -> list[str]:
    """The networks of the tables: those of the paper and of the catalog, measured or not."""
    return list(dict.fromkeys([*NAMES, *CATALOG, *found]))


def _table1(found: dict[str, Result]) -> Table:
    headings = ["network", "nodes", "links", "node attributes", "link attributes", "τ, 1/s", "days", "bipartite"]
    rows = []
    for network in _rows(found):
        paper = published()["networks"].get(network, {})
        ours = found[network].value if network in found else {}
        cells = [
            _beside(ours.get(name), paper.get(name), ",")
            for name in ("nodes", "links", "node attributes", "link attributes")
        ]
        cells.append(_beside(ours.get("intensity"), paper.get("intensity"), ".3g"))
        cells += [f"{ours['seconds'] / _DAY:,.1f}", "yes" if ours["bipartite"] else "no"] if ours else ["", ""]
        rows.append([display_name(network), *cells])
    return Table(headings, rows, "Table 1")


def _table_of_shares(found: dict[str, Result]) -> Table:
    headings = ["network", *(heading for heading, _ in _COLUMNS.values())]
    rows = []
    for network in _rows(found):
        ours = found[network].value if network in found else None
        cells = [
            "" if ours is None else f"{100 * ours[name]:.1f} %" if is_share else f"{ours[name]:,}"
            for name, (_, is_share) in _COLUMNS.items()
        ]
        rows.append([display_name(network), *cells])
    note = "In percent of all links, or of the test links where these are named."
    return Table(headings, rows, "Ties, repetition and surprise", note)


def _beside(ours: float | None, paper: float | None, form: str) -> str:
    """Our value, and below it the paper's."""
    parts = ["" if ours is None else format(ours, form), "" if paper is None else f"({paper:{form}})"]
    return "<br>".join(part for part in parts if part)


def _differences(found: dict[str, Result]) -> list[str]:
    """Where our values differ from the paper's, in sentences."""
    sentences = []
    for network, paper in published()["networks"].items():
        if network not in found:
            continue
        name, ours = NAMES[network], found[network].value
        if paper["nodes"] == ours["nodes"] + 1:
            sentences.append(f"{name}: the paper counts one node more, the id 0, which has no links.")
        if ours["intensity"] > 0 and not 0.95 < (ratio := paper["intensity"] / ours["intensity"]) < 1.05:
            days = 2 * paper["links"] / (paper["nodes"] * paper["intensity"]) / _DAY
            sentences.append(
                f"{name}: the paper's τ is {ratio:.2g} times ours; by its formula, the links would span {days:,.0f} "
                f"days, but they span {ours['seconds'] / _DAY:,.0f}."
            )
        if missing := [kind for kind in ("node", "link") if paper[f"{kind} attributes"] > ours[f"{kind} attributes"]]:
            sentences.append(f"{name}: our copy lacks {' and '.join(missing)} attributes.")
    return [" ".join(sentences)] if sentences else []


def _ratios(results: Results, found: dict[str, Result]) -> dict[str, dict[str, tuple[float, float]]]:
    """By network and preset: the best alpha of the grid search, and tau / alpha."""
    ratios: dict[str, dict[str, tuple[float, float]]] = {}
    for network, one in found.items():
        searched = {trial.settings["preset"] for trial in results.all("trial") if trial.network == network}
        for preset in searched.intersection(_PRESETS):
            alpha = tuned(results, network, preset).get("alpha")
            if isinstance(alpha, float) and alpha > 0:
                ratios.setdefault(network, {})[preset] = alpha, one.value["intensity"] / alpha
    return ratios


def _table_of_ratios(ratios: dict[str, dict[str, tuple[float, float]]]) -> Table:
    rows = []
    for network, by_preset in ratios.items():
        cells = [
            f"{by_preset[preset][1]:.3g} (α = {by_preset[preset][0]:.2g})" if preset in by_preset else ""
            for preset in _PRESETS
        ]
        rows.append([display_name(network), *cells])
    note = "For the decay α chosen by the hyperparameter search on validation links."
    return Table(["network", *_PRESETS.values()], rows, "τ / α", note)


def _verdict(ratios: dict[str, dict[str, tuple[float, float]]]) -> str:
    """Whether tau / alpha is about the same everywhere, as the paper says."""
    values = [ratio for by_preset in ratios.values() for _, ratio in by_preset.values()]
    near = sum(_RATIO / _FACTOR <= value <= _RATIO * _FACTOR for value in values)
    claim = "confirmed" if near == len(values) else "not confirmed"
    return (
        f"The paper's claim that τ / α is about {_RATIO:g} for the best α, in different networks, is {claim}: within a "
        f"factor of {_FACTOR:g} of {_RATIO:g} are {near} of {counted(len(values), 'ratio')}; the smallest is "
        f"{min(values):.3g}, the largest {max(values):.3g}."
    )
