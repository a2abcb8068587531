"""The hyperparameter search of Table 4: number, decay and length of walks, width and learning rate.

Each network and preset is a study of `cawn.studies.tuning` in a folder beside the results; its trials are copied to the
results. The decay is searched over a wider range than in the paper.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from cawn.caw.config import Config
from cawn.data.events import Events
from cawn.errors import CawnError
from cawn.paper.experiments import Content, Experiment, Request, Save, listing
from cawn.paper.measurements import Measurement, training
from cawn.paper.published import display_name, published
from cawn.paper.records import Records
from cawn.paper.results import Result, ResultStore
from cawn.paper.variants import best_trial
from cawn.studies.tuning import Search, tune
from cawn.studies.tuning.journal import import_optuna
from cawn.studies.tuning.plan import FILE, SearchPlan, read_study
from cawn.studies.tuning.trials import SharedStudy, Trial

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

    def make(self, request: Request, sweep: Callable[[list[Measurement]], list[str]], save: Save) -> list[str]:
        import_optuna("the grid search", "paper")
        presets = [name for name in PRESETS if request.systems is None or name in request.systems]
        studies = [_Study(request, network, preset) for network, preset in product(request.networks, presets)]
        return [failure for study in studies for failure in study.search(save)]

    def show(self, records: Records) -> Content | None:
        found = list(records.results.all("trial"))
        rows = [
            _summary([one for one in found if (one.network, one.settings["preset"]) == place], *place, records.results)
            for place in product(records.results.networks, PRESETS)
            if any((one.network, one.settings["preset"]) == place for one in found)
        ]
        return Content(found, [listing("", _COLUMNS, rows)]) if rows else None


_COLUMNS = {
    "network": "{network}",
    "preset": "{preset}",
    "trials": "{trials}",
    "pruned": "{pruned}",
    "validation AP": "{best}",
    "M": "{num_walks}",
    "m": "{length}",
    "alpha": "{alpha}",
    "d": "{dim}",
    "lr": "{lr}",
    "alpha in the paper's search": "{ranges}",
    "AP of complete trials": "{values}",
}


@dataclass(frozen=True)
class _Study:
    """The search for one network and preset."""

    request: Request
    network: str
    preset: str

    @property
    def name(self) -> str:
        return f"grid {self.preset}"

    @property
    def folder(self) -> Path:
        return self.request.results.folder / f"grid-{self.network}-{self.preset}"

    def search(self, save: Save) -> list[str]:
        """Make the trials that are missing, and others for those that failed; returns a line for each that fails."""
        before = [trial.number for trial in self.trials() if trial.state == "failed"]
        failures = []
        try:
            self._tune(len(before))
        except CawnError as error:
            failures.append(f"{self.network}, {self.name}: {error}")
        except KeyboardInterrupt:
            if not self.request.quiet:
                print("stopped; run the same command again to continue", file=sys.stderr)
            raise
        finally:
            for trial in self.trials():
                self._copy(trial, save)
        new = [trial for trial in self.trials() if trial.state == "failed" and trial.number not in before]
        return failures + [f"{self.network}, {self.name}, trial {trial.number}: {trial.reason}" for trial in new]

    def _tune(self, failed: int) -> None:
        """Run the study; several processes may do so at once."""
        request, events = self.request, self.request.networks[self.network]
        space = space_of(self.network, events)
        low, high = (space["alpha"][end] for end in ("low", "high"))
        first = {"alpha": float(f"{(low * high) ** 0.5:.2g}"), "lr": 1e-3}  # the middle of the range
        tune(
            events,
            Config.preset(self.preset).with_(**first | dict(request.changes)),
            out=self.folder,
            trials=(request.trials or _TRIALS) + failed,
            search=Search({name: values for name, values in space.items() if name not in request.changes}, seeds=1),
            jobs=max(request.jobs, 1),
            device=request.device,
            threads=request.threads,
            quiet=request.quiet,
        )

    def trials(self) -> list[Trial]:
        """All trials; none if the search has not begun."""
        if not (self.folder / FILE).exists():
            return []
        return SharedStudy(self.folder, SearchPlan.from_dict(read_study(self.folder))).trials()

    def _copy(self, trial: Trial, save: Save) -> None:
        """Add a trial that has ended, and not failed, to the results."""
        if trial.config is None or trial.state not in ("complete", "pruned"):
            return
        label = f"{self.name}, trial {trial.number}"
        found = {name: getattr(trial.config, name) for name in SEARCHED}
        if all(one.settings["searched"] != found for one in self.request.results.labelled(label, self.network)):
            one = training(self.network, trial.config, task="transductive", seed=0, label=label)
            curve = [round(ap, 6) for _, ap in sorted(trial.curve.items())]
            value = {"validation": curve} | ({"stopped": True} if trial.state == "pruned" else {})
            settings = {"preset": self.preset, "searched": found, **one.settings}
            save(Measurement(self.network, "trial", settings, label), value, trial.seconds)


def space_of(network: str, events: Events) -> dict[str, Any]:
    """The values that are searched."""
    ranges = published()["grid"].get(network)
    tau = events.intensity
    low, high = (ranges["alpha"][0], ranges["alpha"][-1]) if ranges else (tau / 20, tau)
    return {
        "num_walks": [32, 64, 128],
        "length": ranges["length"] if ranges else [1, 2, 3],
        "alpha": {"low": _BELOW * low, "high": _ABOVE * high, "log": True},
        "dim": [32, 64, 128],
        "lr": [1e-4, 3e-4, 1e-3],
    }


def _summary(trials: list[Result], network: str, preset: str, results: ResultStore) -> dict[str, Any]:
    """The chosen trial of a study, and the range of all that were not pruned."""
    best, complete = best_trial(results, network, preset), [one for one in trials if not one.value.get("stopped")]
    values = sorted(100 * max(one.value["validation"]) for one in complete)
    ranges = published()["grid"].get(network, {}).get("alpha")
    found = {} if best is None else best.settings["searched"]
    shown = {name: value if isinstance(value, str) else f"{value:g}" for name, value in found.items()}
    about = {
        "network": display_name(network),
        "preset": preset,
        "trials": len(trials),
        "pruned": len(trials) - len(complete),
        "best": "" if best is None else f"{100 * max(best.value['validation']):.2f}",
        "ranges": f"{ranges[0]:g} to {ranges[-1]:g}" if ranges else "",
        "values": f"{values[0]:.2f} to {values[-1]:.2f}" if values else "",
    }
    return dict.fromkeys(SEARCHED, "") | shown | about
