"""The report of a study: trials.csv, report.md with its plots, and report.html, which includes them."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cawn.files import write_text
from cawn.learn.plots import INSTALL, can_draw
from cawn.learn.reporting import format_duration
from cawn.learn.results import METRICS, markdown_table
from cawn.studies.tuning.outcome import Tuned
from cawn.studies.tuning.plots import plots
from cawn.studies.tuning.trials import Trial, where_stopped

TITLE = "Search for settings"
_FILES = {"history": "report-history.svg", "parameters": "report-parameters.svg"}


@dataclass(frozen=True)
class Section:
    """A part of the report."""

    title: str
    text: list[str]
    headings: list[str]
    rows: list[list[str]]
    plot: str = ""  # its name


def write_report(tuned: Tuned) -> list[Path]:
    """Write the files of the report; returns their paths."""
    files = {"trials.csv": trials_csv(tuned), "report.md": to_markdown(tuned), "report.html": to_html(tuned)}
    files |= {_FILES[name]: svg for name, svg in plots(tuned).items()}
    for name, text in files.items():
        write_text(tuned.folder / name, text)
    return [tuned.folder / name for name in files]


def trials_csv(tuned: Tuned) -> str:
    """A row for each trial: number, state, value (of pruned ones, when they were stopped), and so on."""
    text = io.StringIO()
    names, seeds = [each.name for each in tuned.plan.space], tuned.plan.seeds
    columns = ["trial", "state", "stopped", tuned.plan.metric]
    columns += [f"{what} of seed {seed}" for what in (tuned.plan.metric, "epochs") for seed in seeds]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*columns, "seconds", *names, "reason"])
    for trial in tuned.trials:
        results = [trial.seeds.get(seed, {}).get(what, "") for what in ("value", "epochs") for seed in seeds]
        values = [trial.parameters.get(name, "") for name in names]
        value = "" if trial.value is None else trial.value
        stopped = where_stopped(tuned.plan, trial) if trial.state == "pruned" else ""
        begin = [trial.number, trial.state, stopped, value]
        writer.writerow([*begin, *results, round(trial.seconds, 1), *values, trial.reason])
    return text.getvalue()


def sections(tuned: Tuned) -> list[Section]:
    """The parts of the report."""
    return [_outcome(tuned), _test(tuned), _settings(tuned), _parameters(tuned), _history(tuned)]


def _outcome(tuned: Tuned) -> Section:
    plan, best = tuned.plan, tuned.best
    counts = tuned.to_dict()["trials"]
    states = ", ".join(f"{counts[state]} {state}" for state in ("complete", "pruned", "failed") if counts[state])
    seeds = ", ".join(map(str, plan.seeds))
    gain = (
        "The preset itself is the best trial."
        if best is tuned.default
        else f"Its gain over the preset is {tuned.gain:+} points on the validation links, on which it was chosen. "
        "Because it is the best of many trials, expect a smaller gain on other links."
    )
    text = [
        f"{counts['total']} trials of `{plan.system}` ({states}); seeds {seeds}; task {plan.task.nodes}; "
        f"protocol {plan.task.protocol}; clock {plan.task.clock}. The best is trial {best.number}. {gain}",
        "Validation links were used to choose the settings. Test links were used only at the end, for the preset and "
        "for the best settings. Validation negatives are random, or those given with the links; settings that suit "
        "them may be worse against other negatives.",
        f"Values are {plan.metric_name} in percent, means over seeds ± the half-width of the 95 % confidence "
        "interval; the interval of a gain is that of the per-seed differences.",
    ]
    rows = [
        [name, f"{trial.number}", *(_percent(trial.seeds[seed]["value"]) for seed in plan.seeds), _percent(trial.value)]
        for name, trial in (("preset", tuned.default), ("best", best))
    ]
    return Section("Validation", text, ["", "trial", *(f"seed {s}" for s in plan.seeds), "mean"], rows)


def _test(tuned: Tuned) -> Section:
    rows = [
        [
            f"{row['links']} links, {row['negatives']} negatives",
            METRICS[row["metric"]],
            f"{row['default']}",
            f"{row['best']}",
            f"{row['gain']:+}",
        ]
        for row in tuned.test
    ]
    return Section("Test", [], ["", "metric", "preset", "best", "gain"], rows)


def _settings(tuned: Tuned) -> Section:
    before = tuned.plan.config.to_dict()
    rows = [[f"`{name}`", _shown(before[name]), _shown(value)] for name, value in tuned.changed.items()]
    text = ["The settings are in best.toml, and the model in the run folder best."]
    return Section("Best settings", text, ["setting", "preset", "best"], rows)


def _parameters(tuned: Tuned) -> Section:
    text = (
        "How much each parameter matters for the value of a trial, by PED-ANOVA on the complete trials. Pruned trials "
        "are left out, so settings that are bad from the start count for less than they should."
    )
    if not tuned.importances:
        text = "There are too few complete trials to say which parameters matter."
    plotted = (
        "In the plots, a pruned trial is as far below the final median of the complete trials as it was below their "
        "median when it was pruned."
    )
    rows = [[f"`{name}`", f"{100 * share:.0f} %"] for name, share in tuned.importances.items()]
    return Section("Parameters", [text, plotted], ["parameter", "importance"], rows, "parameters")


def _history(tuned: Tuned) -> Section:
    names = [each.name for each in tuned.plan.space]
    rows = [
        [
            str(trial.number),
            _state(tuned, trial),
            _percent(trial.value) if trial.state == "complete" else "",
            f"{len(trial.seeds)} of {len(tuned.plan.seeds)}",
            format_duration(trial.seconds),
            *(_shown(trial.parameters.get(name, "")) for name in names),
        ]
        for trial in tuned.trials
    ]
    text = [
        "Times include finished seeds only.",
        *(f"Trial {trial.number} failed: {trial.reason}" for trial in tuned.trials if trial.reason),
    ]
    return Section("Trials", text, ["trial", "state", tuned.plan.metric_name, "seeds", "time", *names], rows, "history")


def _state(tuned: Tuned, trial: Trial) -> str:
    if trial.number == tuned.best.number:
        return "**best**"
    return f"pruned ({where_stopped(tuned.plan, trial)})" if trial.state == "pruned" else trial.state


def to_markdown(tuned: Tuned) -> str:
    """The report as Markdown, with its plots in separate files."""
    lines = [f"# {TITLE}\n"]
    for section in sections(tuned):
        lines += [f"## {section.title}\n", *(f"{paragraph}\n" for paragraph in section.text)]
        if section.rows:
            lines.append(markdown_table(section.headings, section.rows))
        if section.plot and can_draw():
            lines.append(f"![{section.title}]({_FILES[section.plot]})\n")
    if not can_draw():
        lines.append(f"There are no plots, because matplotlib is not installed: {INSTALL}\n")
    return "\n".join(lines)


def to_html(tuned: Tuned) -> str:
    """The report as one page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    pages = Environment(
        loader=PackageLoader("cawn.studies.tuning"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters["inline"] = _inline
    drawn = {name: Markup(svg) for name, svg in plots(tuned, standalone=False).items()}
    return pages.get_template("report.html").render(title=TITLE, sections=sections(tuned), plots=drawn)


def _inline(text: str) -> Any:
    """Bold text and code of Markdown as HTML; anything else is escaped."""
    from markupsafe import Markup, escape

    safe = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", str(escape(text)))
    return Markup(re.sub(r"`(.+?)`", r"<code>\1</code>", safe))


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def summary(tuned: Tuned) -> list[str]:
    """The outcome in a few lines of text."""
    best, plan = tuned.best, tuned.plan
    changed = ", ".join(f"{name}={_shown(value)}" for name, value in tuned.changed.items()) or "none"
    lines = [
        f"best: trial {best.number} of {len(tuned.trials)}, validation {plan.metric_name} {_percent(best.value)} "
        f"(preset {_percent(tuned.default.value)}, gain {tuned.gain:+} points)",
        f"settings that differ from the preset: {changed}",
    ]
    for row in tuned.test:
        kind, gain = f"{row['links']} links, {row['negatives']} negatives", f"{row['gain']:+}"
        lines.append(f"{kind}: {METRICS[row['metric']]} {row['best']} (preset {row['default']}, gain {gain})")
    return lines
