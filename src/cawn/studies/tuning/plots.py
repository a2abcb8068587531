"""Plots of a study: its history, and its values by parameter."""

from __future__ import annotations

from typing import Any

from cawn.learn.plots import COLOURS, can_draw, to_svg
from cawn.studies.tuning.outcome import Tuned
from cawn.studies.tuning.space import Parameter
from cawn.studies.tuning.trials import Trial, projected_value

_COLUMNS = 3  # of panels


def plots(tuned: Tuned, *, standalone: bool = True) -> dict[str, str]:
    """SVG by name: "history" and "parameters"; empty without matplotlib."""
    if not can_draw():
        return {}
    parameters = [each for each in tuned.plan.space if any(each.name in trial.parameters for trial in tuned.trials)]
    rows = -(-len(parameters) // _COLUMNS)
    found = {"history": to_svg(lambda figure: _history(figure, tuned), (7, 3.2), standalone=standalone)}
    if parameters:
        size = (10, 2.6 * rows)
        found["parameters"] = to_svg(
            lambda figure: _parameters(figure, tuned, parameters, rows), size, standalone=standalone
        )
    return found


def _history(figure: Any, tuned: Tuned) -> None:
    axis, best = figure.subplots(), list[float]()
    complete, pruned = _ended(tuned, "complete"), _ended(tuned, "pruned")
    axis.plot([t.number for t in pruned], _values(tuned, pruned), "x", color=COLOURS[7], label="pruned", markersize=5)
    axis.plot(
        [t.number for t in complete], _values(tuned, complete), "o", color=COLOURS[0], label="complete", markersize=4
    )
    for value in _values(tuned, complete):
        best.append(max([value, *best[-1:]]))
    axis.step([t.number for t in complete], best, where="post", color=COLOURS[1], label="best so far")
    axis.axhline(100 * (tuned.default.value or 0.0), color=COLOURS[2], linewidth=0.8, linestyle="--", label="preset")
    axis.set(xlabel="trial", ylabel=f"validation {tuned.plan.metric_name}, %", ylim=_limits(tuned))
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.grid()
    figure.legend(loc="outside upper center", ncols=4)


def _parameters(figure: Any, tuned: Tuned, parameters: list[Parameter], rows: int) -> None:
    axes = figure.subplots(rows, _COLUMNS, squeeze=False, sharey=True)
    for axis, parameter in zip(axes.flat, parameters, strict=False):
        _panel(axis, tuned, parameter)
    for axis in axes.flat[len(parameters) :]:
        axis.set_axis_off()
    for row in axes:
        row[0].set_ylabel(f"validation {tuned.plan.metric_name}, %")


def _panel(axis: Any, tuned: Tuned, parameter: Parameter) -> None:
    labels = parameter.labels
    for state, marker, colour in (("pruned", "x", COLOURS[7]), ("complete", "o", COLOURS[0])):
        trials = [trial for trial in _ended(tuned, state) if parameter.name in trial.parameters]
        chosen = [trial.parameters[parameter.name] for trial in trials]
        places = [labels.index(value) for value in chosen] if labels else chosen
        axis.plot(places, _values(tuned, trials), marker, color=colour, markersize=4, linestyle="")
    if labels:
        axis.set_xticks(range(len(labels)), [str(label) for label in labels], rotation=30 if _long(labels) else 0)
        for tick in axis.get_xticklabels() if _long(labels) else []:
            tick.set(ha="right", size=6)
        axis.set_xlim(-0.5, len(labels) - 0.5)
    elif parameter.log:
        axis.set_xscale("log")
    axis.set(title=parameter.name, ylim=_limits(tuned))
    axis.grid()


def _long(labels: list[Any]) -> bool:
    return sum(len(str(label)) for label in labels) > 24


def _ended(tuned: Tuned, state: str) -> list[Trial]:
    return [trial for trial in tuned.trials if trial.state == state and _value(tuned, trial) is not None]


def _value(tuned: Tuned, trial: Trial) -> float | None:
    return projected_value(trial, tuned.trials)


def _values(tuned: Tuned, trials: list[Trial]) -> list[float]:
    return [100 * (_value(tuned, trial) or 0.0) for trial in trials]


def _limits(tuned: Tuned) -> tuple[float, float]:
    """From below the worst complete trial; pruned ones may be far below."""
    values = _values(tuned, _ended(tuned, "complete"))
    margin = max(0.15 * (max(values) - min(values)), 0.1)
    return min(values) - margin, max(values) + margin
