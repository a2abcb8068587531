"""Train on one network and test on another without further training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

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
from cawn.paper.experiments import Experiment, Plot, Request, Section, Table, counted
from cawn.paper.measurements import Measurement, Task
from cawn.paper.negatives import trained_with
from cawn.paper.published import NAMES, display_name
from cawn.paper.results import MEAN_AND_INTERVAL, Cell, Result, Results, cell, check_same_splits
from cawn.paper.training import KINDS_OF_NEGATIVES, config_of, options_of, training
from cawn.paper.variants import BY_NAME, VARIANTS, Variant, chosen_variants, settings_of
from cawn.studies.jobs import Send
from cawn.systems.base import Context, Scorer
from cawn.systems.baselines import scorers as untrained_scorers
from cawn.systems.settings import Settings
from cawn.systems.training import TrainingLinks

TRAINED, RESCALED, UNCHANGED, RULE = "trained", "rescaled", "unchanged", "recency"
_SYSTEMS = ("paper-mean", "default", "counts", "rates")  # by default
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
            transfer(network, settings_of(variant, network, request), request.networks, variant, seed)
            for network in request.networks
            for variant in chosen
            for seed in range(request.seeds)
        ]

    def show(self, results: Results) -> Section | None:
        runs = {variant: results.labelled(_label(variant)) for variant in VARIANTS}
        tested = {variant: [one for run in found for one in by_test_network(run)] for variant, found in runs.items()}
        check_same_splits(one for found in tested.values() for _, one in found)
        matrices = [matrix_of(variant.label, found) for variant, found in tested.items() if found]
        if not matrices:
            return None
        section = Section(used=[run for found in runs.values() for run in found])
        section.text.append(
            "Each row is the network trained on, each column the network tested on: its transductive test links, with "
            "its own history, split and negatives. The weights are not changed. Decays and the unit of time are "
            "adapted to the test network as in training: decays keep their ratio to tau, the number of links of an "
            "average node per unit of time, and the unit is a fixed share of the training period. The text compares "
            "this with keeping those of the training network. Attributes are not used. AP in percent, pooled, "
            f"{MEAN_AND_INTERVAL}; strict clock. The last row is an untrained baseline, recency: pairs are ranked by "
            "the time of their last link, then by that of the destination's last link. The paper does not have this "
            "experiment."
        )
        section.text.append(trained_with({variant.label: found for variant, found in runs.items()}))
        for matrix in matrices:
            section.text.append(f"**{matrix.label}.** " + " ".join(matrix.findings()))
            section.tables.extend(matrix.table(kind) for kind in _SHOWN)
        if (text := _compared(matrices)) is not None:
            section.text.append(text)
        section.plots.append(_plot(matrices))
        return section


def transfer(network: str, config: Settings, networks: Iterable[str], variant: Variant, seed: int) -> Measurement:
    """A training run on one network, without attributes, tested on all networks."""
    alone = training(
        network,
        config.with_(attributes=False) if config.attributes else config,
        task="transductive",
        seed=seed,
        label=_label(variant),
        negatives=KINDS_OF_NEGATIVES,
    )
    settings = {**alone.settings, "others": sorted(name for name in networks if name != network)}
    return replace(alone, kind="transfer", settings=settings)


def _label(variant: Variant) -> str:
    return f"transfer, {variant.label}"


# The measurement.


def measure(task: Task, send: Send) -> dict[str, Any]:
    """Train on a network, or resume, and test there and on the others: see `evaluate_with`, by test network."""
    from cawn.learn.experiments import train

    def training_is_a_part(value: dict[str, Any]) -> None:
        send({"done": _TRAINING * value["done"]} if "done" in value else value)

    options = options_of(task, training_is_a_part)
    options["task"] = replace(options["task"], negatives=("random",), baselines=False)
    run = train(task.events(), config_of(task.settings), **options)
    networks, tests = [task.network, *task.settings["others"]], {}
    for done, network in enumerate(networks):
        send({"done": _TRAINING + (1 - _TRAINING) * done / len(networks)})
        events = task.events(network)
        scales = {TRAINED: run.facts} if network == task.network else transferred_facts(run, events)
        tests[network] = evaluate_with(run, events, scales, task)
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


def evaluate_with(run: Run, events: Events, scales: Mapping[str, dict[str, Any]], task: Task) -> dict[str, Any]:
    """The accuracy on the test links of a network: of a trained system with each set of facts, and of recency."""
    parts, known = split(events, "transductive", seed=run.seed), _training_links(events, run)
    device, model = pick_device(task.device), next(iter(scales))
    scorers: dict[str, Scorer] = {RULE: untrained_scorers(events)[RULE]}
    for name, facts in scales.items():
        context = Context(run.config, events[parts.visible], run.seed, device, task.threads, known, dict(facts))
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


def by_test_network(run: Result) -> list[tuple[str, Result]]:
    """The network it was trained on, and its metrics on each test network as a result of that network."""
    return [
        (
            run.network,
            replace(
                run,
                network=network,
                links=test["links"],
                value={"rows": [row | {"split": test["split"]} for row in test["rows"]]},
            ),
        )
        for network, test in run.value["tests"].items()
    ]


class Pair(NamedTuple):
    """AP of a system on a test network after training on another, and what it is compared with."""

    start: str  # the network trained on
    test: str
    rescaled: float
    unchanged: float
    there: float  # AP after training on the test network itself
    rule: float  # AP of recency


@dataclass(frozen=True)
class Matrix:
    """AP of one system by training network, test network, scorer and kind of negatives."""

    label: str
    networks: list[str]
    cells: dict[tuple[str, str, str, str], Cell]

    def table(self, kind: str) -> Table:
        """Training networks by test networks, and recency."""
        rows = []
        for start in self.networks:
            cells = [
                self.cells.get((start, test, TRAINED if start == test else RESCALED, kind)) for test in self.networks
            ]
            shown = ["" if found is None else str(found) for found in cells]
            rows.append([display_name(start), *shown])
        rule = [self.rule(test, kind) for test in self.networks]
        rows.append(["recency (untrained)", *("" if found is None else str(found) for found in rule)])
        headings = ["trained on \\ tested on", *(display_name(test) for test in self.networks)]
        return Table(headings, rows, f"{self.label}, {kind} negatives")

    def rule(self, test: str, kind: str) -> Cell | None:
        """AP of recency on a test network, from the training network with the most seeds."""
        found = [value for key, value in self.cells.items() if key[1:] == (test, RULE, kind)]
        return max(found, key=lambda value: value.seeds, default=None)

    def pairs(self, kind: str) -> list[Pair]:
        """All pairs of networks for which every value is known."""
        found = []
        for start in self.networks:
            for test in self.networks:
                cells = [self.cells.get((start, test, name, kind)) for name in (RESCALED, UNCHANGED)]
                cells += [self.cells.get((test, test, TRAINED, kind)), self.rule(test, kind)]
                means = [one.mean for one in cells if one is not None]
                if start != test and len(means) == 4:
                    found.append(Pair(start, test, *means))
        return found

    def findings(self) -> list[str]:
        """How transfer compares with training on the test network and with recency, in words."""
        return [sentence for kind in _SHOWN for sentence in findings(self.pairs(kind), kind)] or [
            "No pair of networks has been measured completely."
        ]


def matrix_of(label: str, tested: list[tuple[str, Result]]) -> Matrix:
    """The matrix of a system from its results by training network, see `by_test_network`."""
    places = list(dict.fromkeys((start, one.network) for start, one in tested))
    cells = {}
    for start, test in places:
        same = [one for where, one in tested if (where, one.network) == (start, test)]
        for name in (TRAINED, RESCALED, UNCHANGED, RULE):
            for kind in KINDS_OF_NEGATIVES:
                if (found := cell(same, "ap", scorer=name, negatives=kind)) is not None:
                    cells[start, test, name, kind] = found
    names = {name for place in places for name in place}
    return Matrix(label, [*(name for name in NAMES if name in names), *sorted(names - set(NAMES))], cells)


def findings(pairs: list[Pair], kind: str) -> list[str]:
    """AP after transfer, compared with recency and with training on the test network; and the effect of rescaling."""
    if not pairs:
        return []
    moved, there, rule, before = (
        _mean(getattr(pair, name) for pair in pairs) for name in ("rescaled", "there", "rule", "unchanged")
    )
    better = sum(pair.rescaled > pair.rule for pair in pairs)
    scaled = sum(pair.rescaled > pair.unchanged for pair in pairs)
    number = counted(len(pairs), "pair")
    sentences = [
        f"Against {kind} negatives, the mean AP over {number} of networks is {moved:.2f} after transfer, "
        f"{there:.2f} after training on the test network and {rule:.2f} for recency; {_closed(moved, there, rule)}.",
        f"Transfer is better than recency in {better} of {number}.",
        f"Adapting decays and time unit to the test network changes AP by {moved - before:+.2f} points on average and "
        f"raises it in {scaled} of {number}.",
    ]
    starts = {pair.start: _mean(one.rescaled - one.there for one in pairs if one.start == pair.start) for pair in pairs}
    if len(starts) > 1:
        best, worst = max(starts, key=lambda name: starts[name]), min(starts, key=lambda name: starts[name])
        sentences.append(
            f"The best network to train on is {display_name(best)} ({starts[best]:+.2f} points on average compared "
            f"with training on the test network), the worst is {display_name(worst)} ({starts[worst]:+.2f})."
        )
    return sentences


def _closed(moved: float, there: float, rule: float) -> str:
    """The share of the gap between recency and training on the test network that transfer closes, in words."""
    gap = there - rule
    if gap <= 0:
        return "training on the test network is not better than recency"
    share = f"{100 * (moved - rule) / gap:.0f} %" if moved > rule else "none"
    return f"transfer closes {share} of the gap of {gap:.2f} points between the latter two"


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _compared(matrices: list[Matrix]) -> str | None:
    """The systems ranked by AP after transfer, over the pairs of networks that all have; None for a single system."""
    parts = []
    for kind in _SHOWN:
        pairs = {matrix.label: {(one.start, one.test): one for one in matrix.pairs(kind)} for matrix in matrices}
        common = set.intersection(*(set(found) for found in pairs.values()))
        if len(matrices) > 1 and common:
            means = {label: _mean(found[place].rescaled for place in common) for label, found in pairs.items()}
            order = sorted(means, key=lambda label: -means[label])
            listed = ", ".join(f"{label} {means[label]:.2f}" for label in order)
            parts.append(f"against {kind} negatives {listed} (mean over {counted(len(common), 'pair')})")
    return f"Systems ranked by AP after transfer: {'; '.join(parts)}." if parts else None


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
        names, pairs = matrix.networks, matrix.pairs("random")
        losses = [[float("nan")] * len(names) for _ in names]
        for pair in pairs:
            row, column = names.index(pair.start), names.index(pair.test)
            losses[row][column] = pair.rescaled - pair.there
            colour = "white" if losses[row][column] < 0.6 * _DARKEST else "black"
            axis.text(column, row, f"{losses[row][column]:+.1f}", ha="center", va="center", size=7, color=colour)
        axis.imshow(losses, cmap="Blues_r", vmin=_DARKEST, vmax=0)
        printed = [display_name(name) for name in names]
        axis.set_xticks(range(len(names)), printed, rotation=60, ha="right")
        axis.set_yticks(range(len(names)), printed)
        axis.set_title(matrix.label)
