"""The effect on AUC of each difference between the authors' code and the paper's equations."""

from __future__ import annotations

from typing import Any

from cawn.caw.config import Config
from cawn.paper.curves import METRIC, lowest_seed, main_settings, verdict
from cawn.paper.experiments import Experiment, Request, Section, Table
from cawn.paper.measurements import Measurement
from cawn.paper.published import display_name, paper_value
from cawn.paper.results import MEAN_AND_INTERVAL, Cell, Result, Results, cell, check_same_splits, differences
from cawn.paper.training import KINDS_OF_NEGATIVES, training
from cawn.paper.variants import paper_config

EQUATIONS, ALL = "the equations", "all of these"
_AUTHORS = Config.PRESETS["authors"]
DIFFERENCES: dict[str, dict[str, Any]] = {
    "each end's walks pooled by themselves": {"sides": "separate"},
    "age instead of elapsed time": {name: _AUTHORS[name] for name in ("time_code", "frequencies")},
    "two bidirectional LSTMs": {"rnn": "bidirectional"},
    f"width {_AUTHORS['dim']}": {"dim": _AUTHORS["dim"]},
    "ties read row by row": {},
}
_TESTED = {"links": "all", "negatives": "random", "clock": "strict"}


class Authors(Experiment):
    name = "authors"
    title = "Beyond the paper: the effect of each difference between the authors' code and the equations"
    beyond = True
    networks = ("uci",)
    systems = ("paper-mean",)
    seeds = 3

    def plan(self, request: Request) -> list[Measurement]:
        found = []
        for seed in request.seeds_of("transductive"):
            for network in request.networks:
                base = paper_config(request, network)
                changed = {EQUATIONS: {}, **DIFFERENCES, ALL: {n: _AUTHORS[n] for d in DIFFERENCES.values() for n in d}}
                for name, changes in changed.items():
                    ties = "rows" if name in (ALL, "ties read row by row") else "strict"
                    config = base.with_(**changes)
                    found.append(_training(network, config, seed, f"authors, {name}", ties))
        return found

    def show(self, results: Results) -> Section | None:
        text = (
            f"AUC in percent on transductive test links, {MEAN_AND_INTERVAL}; strict clock, random negatives, averaged "
            "over batches of 30 links. One difference at a time is added to CAW-N-mean as the paper defines it; gains "
            "are paired by seed, and clear if their interval excludes 0. With ties read row by row, a prediction may "
            "use simultaneous links in earlier rows, in training and in the test; the authors' code allows this only "
            "at the last time of a node. Known defects of their code are not reproduced."
        )
        section = Section([text])
        for network in results.networks:
            base = results.labelled(f"authors, {EQUATIONS}", network)
            if (first := lowest_seed(base)) is None:
                continue
            rows = [[EQUATIONS, str(_auc(base) or ""), ""]]
            for name in (*DIFFERENCES, ALL):
                runs = results.labelled(f"authors, {name}", network)
                gain = _gain(runs, base)
                words = "" if gain is None else f"{gain.signed}{'' if gain.clear else ' (not clear)'}"
                rows.append([name, str(_auc(runs) or ""), words])
                section.used.extend(runs)
            section.used.extend(base)
            paper = paper_value("auc", network, "CAW-N-mean", "transductive")
            if paper is not None:
                rows.append(["the paper", str(paper), ""])
            title = f"{display_name(network)} ({main_settings(first)})"
            section.tables.append(Table(["CAW-N-mean with", "AUC", "gain"], rows, title))
            section.text.append(f"**{display_name(network)}.** {_statement(results, network, base)}")
        if not section.tables:
            return None
        check_same_splits(section.used)
        return section


def _training(network: str, config: Config, seed: int, label: str, ties: str) -> Measurement:
    options: dict[str, Any] = {"negatives": KINDS_OF_NEGATIVES, "ties": ties}
    return training(network, config, task="transductive", seed=seed, label=label, **options)


def _auc(runs: list[Result]) -> Cell | None:
    return cell(runs, METRIC, **_TESTED)


def _gain(runs: list[Result], base: list[Result]) -> Cell | None:
    return Cell.of(differences(runs, base, METRIC, **_TESTED).values())


def _statement(results: Results, network: str, base: list[Result]) -> str:
    """The differences that clearly help or hurt, in words."""
    groups: dict[str, list[str]] = {"confirmed": [], "contradicted": [], "undecided": []}
    for name in DIFFERENCES:
        gain = _gain(results.labelled(f"authors, {name}", network), base)
        if gain is not None:
            groups[verdict(gain)].append(f"{name} ({gain.signed})")
    words = {"confirmed": "Clearly better", "contradicted": "Clearly worse", "undecided": "No clear difference"}
    return " ".join(f"{words[group]}: {', '.join(names)}." for group, names in groups.items() if names)
