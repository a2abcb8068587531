"""The hyperparameter search of Table 4: number, decay and length of walks, width and learning rate.

Optuna suggests settings and prunes unpromising trials; the value of a trial is its best validation AP. Test links are
not used. The decay is searched over a wider range than in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cawn.caw.config import Config
from cawn.data.events import Events
from cawn.kernels.rng import seed_for
from cawn.paper.experiments import Experiment, Request, Section, Table
from cawn.paper.measurements import Measurement, Task
from cawn.paper.published import display_name, published
from cawn.paper.results import Result, Results
from cawn.paper.training import config_of, events_of, options_of, training
from cawn.paper.variants import best_trial
from cawn.studies.jobs import Send
from cawn.studies.tuning.journal import import_optuna, open_study, quiet_optuna

PRESETS = ("paper-mean", "paper-attn")
SEARCHED = ("num_walks", "length", "alpha", "dim", "lr")
_BELOW, _ABOVE = 1 / 40, 10  # how far the decay is searched below and above the paper's range
_TRIALS = 30  # of each network and preset


class Grid(Experiment):
    name = "grid"
    title = "Table 4: hyperparameter search for CAW-N-mean and CAW-N-attn, on validation links"
    seeds = 1
    options = ("--systems", "--trials", "--set")
    systems = PRESETS
    shared = False  # the process that asks for a trial ends it

    def plan(self, request: Request) -> Iterator[Measurement]:
        presets = [name for name in PRESETS if request.systems is None or name in request.systems]
        self._studies = {
            f"{network}, grid {preset}": _Study(network, events, preset, request)
            for network, events in request.networks.items()
            for preset in presets
        }
        return self._turns(request)

    def _turns(self, request: Request) -> Iterator[Measurement]:
        waiting = list(self._studies.values())
        while waiting:  # one trial of each in turn
            waiting = [study for study in waiting if study.planned < _trials(request)]
            for study in waiting:
                yield study.next()

    def total(self, request: Request) -> int:
        return sum(max(_trials(request) - study.planned, 0) for study in self._studies.values())

    def _study(self, measurement: Measurement) -> _Study:
        return self._studies[str(measurement).rpartition(", trial ")[0]]

    def reported(self, measurement: Measurement, value: Any, stop: Callable[[], object]) -> None:
        if "epoch" in value:
            self._study(measurement).reported(measurement, value["epoch"], value["val_ap"], stop)

    def stopped(self, measurement: Measurement) -> Any:
        return {"stopped": True, "validation": self._study(measurement).curves[measurement.label]}

    def ended(self, measurement: Measurement, result: Result | None) -> None:
        self._study(measurement).ended(measurement, result)

    def show(self, results: Results) -> Section | None:
        found = list(results.all("trial"))
        if not found:
            return None
        rows = []
        for network in results.networks:
            for preset in PRESETS:
                trials = [one for one in found if (one.network, one.settings["preset"]) == (network, preset)]
                if trials:
                    rows.append([display_name(network), preset, *_summary(trials, network, preset, results)])
        headings = ["network", "preset", "trials", "pruned", "validation AP", "M", "m", "alpha", "d", "lr"]
        headings += ["alpha in the paper's search", "AP of complete trials"]
        text = (
            "Optuna searches the settings of each preset on validation links (transductive task, random negatives, "
            "seed 0); test links are not used. Chosen are the cheapest settings, by M m d, whose AP is within 0.1 "
            "points of the best. Experiments that are run after the search use them; a preset without a search of its "
            "own uses those of the other. The last column is the range over the trials that were not pruned."
        )
        return Section([text], [Table(headings, rows)], used=found)


def _trials(request: Request) -> int:
    return request.trials or _TRIALS


def _summary(trials: list[Result], network: str, preset: str, results: Results) -> list[str]:
    best, complete = best_trial(results, network, preset), [one for one in trials if not one.value.get("stopped")]
    values = sorted(max(one.value["validation"]) for one in complete)
    ranges = published()["grid"].get(network, {}).get("alpha")
    chosen = ["" for _ in ("AP", *SEARCHED)]
    if best is not None:
        found = best.settings["searched"]
        chosen = [f"{100 * max(best.value['validation']):.2f}", *(_shown(found.get(name, "")) for name in SEARCHED)]
    return [
        str(len(trials)),
        str(len(trials) - len(complete)),
        *chosen,
        f"{ranges[0]:g} to {ranges[-1]:g}" if ranges else "",
        f"{100 * values[0]:.2f} to {100 * values[-1]:.2f}" if values else "",
    ]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


class _Study:
    """The search for one network and preset. Its trials are stored next to the results, in an Optuna journal."""

    def __init__(self, network: str, events: Events, preset: str, request: Request) -> None:
        self.network, self.preset = network, preset
        self._base = Config.preset(preset).with_(**request.changes)
        self._distributions = _space(network, events, request.changes)
        self._running: dict[str, Any] = {}
        self.curves: dict[str, list[float]] = {}
        self._open(request.results)

    def _open(self, results: Results) -> None:
        optuna = _optuna()
        self._study = open_study(
            results.folder / f"grid-{self.network}-{self.preset}.journal",
            ", ".join(sorted(self._distributions)),
            remedy="move it away to start the search again",
            direction="maximize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=2),
        )
        seed = seed_for(len(self._study.trials), self.network, self.preset) % 2**32
        with quiet_optuna():
            self._study.sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True)
        state = optuna.trial.TrialState
        for trial in self._study.get_trials(states=[state.RUNNING]):  # of a sweep that was killed
            self._study.tell(trial.number, state=state.FAIL)
            self._study.enqueue_trial(trial.params)
        if not self._study.trials:
            for params in _first_guesses(self._base, self._distributions):
                self._study.enqueue_trial(params)
        known = {label for one in results.all("trial") if one.network == self.network for label in one.labels}
        ended = self._study.get_trials(states=[state.COMPLETE, state.PRUNED])
        self.planned = sum(self._label(trial) in known for trial in ended)  # the results may have been removed

    def next(self) -> Measurement:
        """The next trial, as a measurement."""
        trial = self._study.ask(self._distributions)
        changes: dict[str, Any] = dict(trial.params)
        if "alpha" in changes:
            changes["alpha"] = float(f"{changes['alpha']:.2g}")
        label = self._label(trial)
        config = self._base.with_(**changes)
        one = training(self.network, config, task="transductive", seed=0, label=label)
        self._running[label], self.curves[label] = trial, []
        self.planned += 1
        found = {name: getattr(config, name) for name in SEARCHED}
        return Measurement(self.network, "trial", {"preset": self.preset, "searched": found, **one.settings}, label)

    def _label(self, trial: Any) -> str:
        return f"grid {self.preset}, trial {trial.number}"

    def reported(self, measurement: Measurement, epoch: int, ap: float, stop: Callable[[], object]) -> None:
        trial, curve = self._running[measurement.label], self.curves[measurement.label]
        curve.append(round(ap, 6))
        trial.report(max(curve), epoch)
        if trial.should_prune():
            stop()

    def ended(self, measurement: Measurement, result: Result | None) -> None:
        state, trial = _optuna().trial.TrialState, self._running.pop(measurement.label)
        if result is None:
            self._study.tell(trial, state=state.FAIL)
        elif result.value.get("stopped"):
            self._study.tell(trial, state=state.PRUNED)
        else:
            self._study.tell(trial, max(result.value["validation"]))


def _optuna() -> Any:
    return import_optuna("the grid search", "paper")


def _space(network: str, events: Events, fixed: Any) -> dict[str, Any]:
    """The distributions of all settings that are searched and not fixed by the user."""
    distributions = _optuna().distributions
    ranges = published()["grid"].get(network)
    tau = events.intensity
    low, high = (ranges["alpha"][0], ranges["alpha"][-1]) if ranges else (tau / 20, tau)
    space = {
        "num_walks": distributions.CategoricalDistribution([32, 64, 128]),
        "length": distributions.CategoricalDistribution(ranges["length"] if ranges else [1, 2, 3]),
        "alpha": distributions.FloatDistribution(_BELOW * low, _ABOVE * high, log=True),
        "dim": distributions.CategoricalDistribution([32, 64, 128]),
        "lr": distributions.CategoricalDistribution([1e-4, 3e-4, 1e-3]),
    }
    return {name: one for name, one in space.items() if name not in fixed}


def _first_guesses(base: Config, space: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The first trial: the preset with the (geometric) middle of the range of alpha and the largest learning rate."""
    alpha = space.get("alpha")
    middle = {} if alpha is None else {"alpha": (alpha.low * alpha.high) ** 0.5}
    guess = {"num_walks": base.num_walks, "length": base.length, "dim": base.dim, "lr": 1e-3} | middle
    yield {name: value for name, value in guess.items() if name in space}


def measure(task: Task, send: Send) -> dict[str, Any]:
    """Train with validation after each epoch; no test."""
    from cawn.learn.trainer import Trainer

    trainer = Trainer(events_of(task), config_of(task.settings), **options_of(task, send))
    return {"validation": [round(row["val_ap"], 6) for row in trainer.fit_untested()]}
