"""Train on one network and test on another without further training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from cawn import systems as registry
from cawn.data.events import Events
from cawn.devices import pick_device
from cawn.errors import QueryError
from cawn.kernels.rng import seed_for
from cawn.learn.evaluation import MODEL, evaluate
from cawn.learn.negatives import training_links
from cawn.learn.runs import digest_of_links
from cawn.learn.splits import split
from cawn.learn.testing import Run
from cawn.paper.experiments import Content, Experiment, Finding, Plot, Request, Table, counted
from cawn.paper.measurements import KINDS_OF_NEGATIVES, Measurement, Work, config_of, options_of, training
from cawn.paper.published import NAMES, display_name
from cawn.paper.records import BySeed, Groups, Records
from cawn.paper.tables import LABELS
from cawn.paper.variants import BY_NAME, chosen_variants, settings_of
from cawn.studies.jobs import Send
from cawn.systems.base import Context, Scorer
from cawn.systems.baselines import scorers as untrained_scorers
from cawn.systems.settings import Settings
from cawn.systems.training import TrainingLinks

TRAINED, RESCALED, UNCHANGED, RULE = "trained", "rescaled", "unchanged", "recency"
_SYSTEMS = ("paper-mean", "default", "counts", "rates")  # by default
_CLAIMS = {
    RULE: "is better than recency",
    TRAINED: "is better than training on the test network",
    UNCHANGED: "is better with decays and time unit of the test network",
}
_SHOWN = ("random", "historical")  # negatives
_DARKEST = -20.0  # points, in the plot
_TRAINING = 0.7  # share of a measurement that is training, for progress


class Transfer(Experiment):
    name = "transfer"
    title = "Beyond the paper: train on one network, test on another without further training"
    beyond = True
    networks = ("uci", "enron", "wikipedia", "bitcoin-otc", "mooc", "flights")
    together = True
    seeds = 3
    options = ("--seeds", "--systems", "--set")
    systems = tuple(name for name, variant in BY_NAME.items() if registry.entry(variant.system).new_nodes)

    def plan(self, request: Request) -> list[Measurement]:
        if len(request.networks) < 2:
            raise QueryError("transfer needs at least two datasets: give them with --datasets A,B")
        chosen = [BY_NAME[name] for name in _SYSTEMS] if request.systems is None else chosen_variants(request)
        return [
            transfer(network, settings_of(variant, network, request), request.networks, variant.label, seed)
            for network in request.networks
            for variant in chosen
            for seed in range(request.seeds)
        ]

    def show(self, records: Records) -> Content | None:
        found = records.labelled("transfer")
        matrices = [one for label in LABELS if (one := matrix_of(label, found)).networks]
        if not matrices:
            return None
        tables = [matrix.table(kind) for matrix in matrices for kind in _SHOWN]
        claims = [claim for matrix in matrices for kind in _SHOWN for claim in matrix.claims(kind)]
        return Content(found.runs, tables, [_plot(matrices)], claims)


def transfer(network: str, config: Settings, networks: Iterable[str], label: str, seed: int) -> Measurement:
    """A training run on one network, without attributes, tested on all networks."""
    alone = training(
        network,
        config.with_(attributes=False) if config.attributes else config,
        task="transductive",
        seed=seed,
        label=f"transfer, {label}",
        negatives=KINDS_OF_NEGATIVES,
    )
    settings = {**alone.settings, "others": sorted(name for name in networks if name != network)}
    return replace(alone, kind="transfer", settings=settings)


# The measurement.


def measure(work: Work, send: Send) -> dict[str, Any]:
    """Train on a network, or resume, and test there and on the others: see `evaluate_with`, by test network."""
    from cawn.learn.experiments import train

    def training_is_a_part(value: dict[str, Any]) -> None:
        send({"done": _TRAINING * value["done"]} if "done" in value else value)

    options = options_of(work, training_is_a_part)
    options["task"] = replace(options["task"], negatives=("random",), baselines=False)
    run = train(work.events(), config_of(work.settings), **options)
    networks, tests = [work.network, *work.settings["others"]], {}
    for done, network in enumerate(networks):
        send({"done": _TRAINING + (1 - _TRAINING) * done / len(networks)})
        events = work.events(network)
        scales = {TRAINED: run.facts} if network == work.network else transferred_facts(run, events)
        tests[network] = evaluate_with(run, events, scales, work)
    return {"tests": tests, "epochs": len(run.epochs), "cost": run.report["cost"]}


def transferred_facts(run: Run, events: Events) -> dict[str, dict[str, Any]]:
    """The facts to use on another network, see `Context.fact`: derived from its training links, or unchanged.

    Decays keep their ratio to tau, also if they were given in the settings or chosen by a comparison; all other facts
    are left to the system.
    """
    before, after = (_training_links(links, run).known.intensity for links in (run.events, events))
    scale = after / before if before > 0 else 1.0
    decays: dict[str, Any] = {name: _scaled(run.facts[name], scale) for name in ("alpha", "decay") if name in run.facts}
    return {RESCALED: decays, UNCHANGED: dict(run.facts)}


def _scaled(value: Any, scale: float) -> Any:
    return [scale * one for one in value] if isinstance(value, list | tuple) else scale * value


def _training_links(events: Events, run: Run) -> TrainingLinks:
    return training_links(events, split(events, "transductive", seed=run.seed), run.config, run.seed)


def evaluate_with(run: Run, events: Events, scales: Mapping[str, dict[str, Any]], work: Work) -> dict[str, Any]:
    """The accuracy on the test links of a network: of a trained system with each set of facts, and of recency."""
    parts, known = split(events, "transductive", seed=run.seed), _training_links(events, run)
    device, model = pick_device(work.device), next(iter(scales))
    scorers: dict[str, Scorer] = {RULE: untrained_scorers(events)[RULE]}
    for name, facts in scales.items():
        context = Context(run.config, events[parts.visible], run.seed, device, work.threads, known, dict(facts))
        system = registry.build(registry.name_of(run.config), context)
        system.module.load_state_dict(run.model.state_dict())
        scorers[MODEL if name == model else name] = system.scorer(events)
    found = evaluate(scorers, events, parts, run.calibration, seed=seed_for(run.seed, "test"))
    rows = [
        {"scorer": name, "negatives": row["negatives"]}
        | {metric: round(metrics[metric], 6) for metric in ("auc", "ap")}
        for row in found
        for name, metrics in ({model: row["model"]} | row["baselines"]).items()
    ]
    drawn = {row["negatives"]: row["digest"] for row in found}
    return {"links": digest_of_links(events), "split": parts.digest, "negatives": drawn, "rows": rows}


# The matrix of networks.


@dataclass(frozen=True)
class Matrix:
    """AP of one system by training network, test network, scorer and kind of negatives."""

    label: str
    networks: list[str]
    cells: Groups

    def table(self, kind: str) -> Table:
        """Training networks by test networks, and recency."""
        rows = [
            [display_name(start), *(str(self._moved(start, test, RESCALED, kind)) for test in self.networks)]
            for start in self.networks
        ]
        rows.append(["recency (untrained)", *(str(self._rule(test, kind)) for test in self.networks)])
        headings = ["trained on \\ tested on", *map(display_name, self.networks)]
        return Table(headings, rows, f"{self.label}, {kind} negatives")

    def _moved(self, start: str, test: str, scorer: str, kind: str) -> BySeed:
        return self.cells[start, test, TRAINED if start == test else scorer, kind]

    def _rule(self, test: str, kind: str) -> BySeed:
        """AP of recency on a test network, from the training network with the most seeds."""
        found = (value for key, value in self.cells.items() if key[1:] == (test, RULE, kind))
        return max(found, key=len, default=BySeed())

    def pairs(self) -> list[tuple[str, str]]:
        """Training and test networks that differ."""
        return [(start, test) for start, test in product(self.networks, repeat=2) if start != test]

    def claims(self, kind: str) -> list[Finding]:
        """How AP after transfer compares, on average over the pairs of networks and paired by seed."""
        found = []
        for scorer, text in _CLAIMS.items():
            gains = [
                self.cells[start, test, RESCALED, kind]
                - self.cells[test if scorer == TRAINED else start, test, scorer, kind]
                for start, test in self.pairs()
            ]
            gains = [gain for gain in gains if gain]
            better, where = sum(gain.mean > 0 for gain in gains), f"{counted(len(gains), 'pair')} of networks"
            claim = Finding.of(f"{self.label}, {kind} negatives: transfer {text}", where, BySeed.average(gains))
            found.append(claim._replace(verdict=f"{claim.verdict}; better in {better}") if gains else claim)
        return found


def matrix_of(label: str, records: Records) -> Matrix:
    """The matrix of a system."""
    found = records.where(label=f"transfer, {label}", metric="ap")
    cells = found.by("trained_on", "network", "scorer", "negatives")
    names = {name for place in cells for name in place[:2]}
    return Matrix(label, [*(name for name in NAMES if name in names), *sorted(names - set(NAMES))], cells)


def _plot(matrices: list[Matrix]) -> Plot:
    return Plot(
        "AP after transfer minus AP after training on the test network, in points, random negatives; rows: trained on, "
        "columns: tested on",
        partial(_draw, matrices),
        (3.6 * min(len(matrices), 2) + 0.8, 3.5 * -(-len(matrices) // 2)),
    )


def _draw(matrices: list[Matrix], figure: Any) -> None:
    """A panel per system: a square per pair of networks, darker where transfer loses more."""
    axes = figure.subplots(-(-len(matrices) // 2), min(len(matrices), 2), squeeze=False)
    for axis in axes.flat[len(matrices) :]:
        axis.set_visible(False)
    for axis, matrix in zip(axes.flat, matrices, strict=False):
        names = matrix.networks
        losses = [[float("nan")] * len(names) for _ in names]
        for start, test in matrix.pairs():
            row, column = names.index(start), names.index(test)
            moved, there = matrix.cells[start, test, RESCALED, "random"], matrix.cells[test, test, TRAINED, "random"]
            if moved and there:
                loss = losses[row][column] = moved.mean - there.mean
                colour = "white" if loss < 0.6 * _DARKEST else "black"
                axis.text(column, row, f"{loss:+.1f}", ha="center", va="center", size=7, color=colour)
        axis.imshow(losses, cmap="Blues_r", vmin=_DARKEST, vmax=0)
        printed = [display_name(name) for name in names]
        axis.set_xticks(range(len(names)), printed, rotation=60, ha="right")
        axis.set_yticks(range(len(names)), printed)
        axis.set_title(matrix.label)
