"""The result of a comparison: accuracy and cost of every system, as JSON and as Markdown tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cawn import __version__, systems
from cawn.data.summary import describe
from cawn.files import write_text
from cawn.learn.reporting import format_duration
from cawn.learn.results import Results, markdown_table
from cawn.learn.run_info import changed_settings
from cawn.learn.runs import digest_of_links
from cawn.learn.testing import BASELINES
from cawn.studies.trainings import Trained, Trainings

METRICS = ("ap", "auc", "mrr", "ap_batch200")  # in tables; the last for protocol "dyglib" only
_COSTS: dict[str, tuple[str, Callable[[float], str]]] = {  # what is recorded: its heading, and its form
    "seconds": ("training", format_duration),
    "seconds_per_epoch": ("s/epoch", lambda seconds: f"{seconds:.3g}" if seconds < 100 else f"{seconds:,.0f}"),
    "epochs": ("epochs", "{:.3g}".format),
    "links_per_second": ("links/s", "{:,.0f}".format),
    "pairs_per_second": ("pairs/s", "{:,.0f}".format),
    "peak_memory": ("peak memory", lambda size: f"{size / 1e9:.2f} GB"),
    "weights": ("weights", "{:,.0f}".format),
}
CLOCKS = {"strict": "links at earlier times are known", "event": "links in earlier rows are known"}


@dataclass(frozen=True)
class Comparison:
    """Accuracy and cost of several systems on one network.

    `results` has the accuracy of every run. Each row of `cost` is for one task and system: means over seeds, and the
    largest peak memory.
    """

    about: dict[str, Any]
    results: Results = field(repr=False)
    cost: list[dict[str, Any]] = field(repr=False)
    failed: list[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values; the accuracy as means over seeds, see `Results.mean_rows`."""
        means = self.results.mean_rows()
        return {"about": self.about, "accuracy": means, "cost": self.cost, "failed": self.failed}

    def write(self, folder: Path) -> None:
        """Write comparison.json and comparison.md to a folder."""
        write_text(folder / "comparison.json", json.dumps(self.to_dict(), indent=1) + "\n")
        write_text(folder / "comparison.md", self.to_markdown())

    def to_markdown(self) -> str:
        """The tables of accuracy and cost as Markdown."""
        parts = ["# Comparison of systems\n\n", *self._header()]
        for task, links in self.tests():
            parts.append(
                f"\n## Accuracy: {task}, {name_of_links(links)}\n\n{markdown_table(*self.accuracy_table(task, links))}"
            )
        for task in dict.fromkeys(row["task"] for row in self.cost):
            parts.append(f"\n## Cost: {task}\n\n{markdown_table(*self.cost_table(task))}")
        if self.failed:
            lines = [f"- {row['system']}, {row['task']}, seed {row['seed']}: {row['reason']}" for row in self.failed]
            parts.append("\n## Failed\n\n" + "\n".join(lines) + "\n")
        return "".join(parts)

    def tests(self) -> list[tuple[str, str]]:
        """The pairs of a task and a kind of test links."""
        return list(dict.fromkeys((row["task"], row["links"]) for row in self.results))

    @property
    def untrained(self) -> set[str]:
        """The systems without weights."""
        names = {row["system"] for row in self.results if not row["baseline"]}
        return {row["system"] for row in self.results if row["baseline"]} | {
            name for name in names if not systems.entry(name).trained
        }

    def accuracy_table(
        self, task: str, links: str, metrics: tuple[str, ...] = METRICS
    ) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: trained systems sorted by AP (MRR for TGB) against the first kind of negatives, then
        untrained ones."""
        table, untrained = (
            self.results.where(task=task, links=links).pivot(("system",), metrics=metrics),
            self.untrained,
        )

        def place(row: tuple[str]) -> tuple[bool, float]:
            found = table.cells.get((row, table.columns[0]))
            return row[0] in untrained, 1.0 if found is None else -found.mean

        rows = []
        for row in sorted(table.rows, key=place):
            seeds = max(mean.seeds for (name, _), mean in table.cells.items() if name == row)
            cells = [table.cell(row, column) for column in table.columns]
            rows.append([row[0] + " (untrained)" * (row[0] in untrained), *cells, str(seeds)])
        return ["system", *table.headings, "seeds"], rows

    def cost_table(self, task: str) -> tuple[list[str], list[list[str]]]:
        """Headings and rows, sorted by training time."""
        found = sorted((row for row in self.cost if row["task"] == task), key=lambda row: row["seconds"])
        rows = [
            [row["system"], *("" if row[name] is None else show(row[name]) for name, (_, show) in _COSTS.items())]
            for row in found
        ]
        return ["system", *(heading for heading, _ in _COSTS.values())], rows

    def _header(self) -> Iterator[str]:
        about, data = self.about, self.about["data"]
        clock = about["clock"]
        yield f"- Data: {data['links']:,} links, {data['nodes']:,} nodes; digest `{about['digest']}`\n"
        yield f"- Clock: {clock} ({CLOCKS.get(clock, 'links before the batch of a link are known')})\n"
        yield f"- Protocol: {about['protocol']}\n"
        yield f"- Negatives: {', '.join(about['negatives'])}; the same for every system\n"
        yield f"- Seeds (split, negatives, weights): {', '.join(map(str, about['seeds']))}\n"
        for task, digests in about["splits"].items():
            yield f"- Split digests, {task}: {', '.join(f'`{digest}`' for digest in digests)}\n"
        jobs = f"up to {about['jobs']} runs" if about["jobs"] > 1 else "one run"
        yield f"- Device: {about['device']}; {jobs} at a time\n"
        for name, changed in about["settings"].items():
            yield f"- Settings of {name}: {', '.join(f'{key}={value}' for key, value in changed.items())}\n"
        yield f"- cawn {about['versions']['cawn']}, torch {about['versions'].get('torch', '')}\n"
        candidates = "the candidates of TGB" if about["protocol"].startswith("tgb") else "100 random destinations"
        yield (
            f"\nMeans over seeds ± half of the 95 % confidence interval. MRR: among {candidates}. Training "
            "time includes validation; pairs/s is scoring after training; peak memory is that of the process on a CPU "
            "and of PyTorch's tensors on a GPU. The best of each column is bold.\n"
        )


def summarise(trainings: Trainings) -> Comparison:
    """Compare the finished runs."""
    finished, failed, events = trainings.finished, trainings.failed, trainings.events
    groups: dict[tuple[str, str], dict[int, Trained]] = {}
    for run in trainings.planned:
        if run in finished:
            groups.setdefault((run.task.nodes, run.system), {})[run.seed] = finished[run]
    results = Results(
        _compared(test) for runs in groups.values() for found in runs.values() for test in found.results.tests
    )
    splits: dict[str, list[str]] = {}
    for row in sorted(results, key=lambda row: row["seed"]):
        digests = splits.setdefault(row["task"], [])
        if row["split"] not in digests:
            digests.append(row["split"])
    task = trainings.planned[0].task
    about = {
        "data": describe(events),
        "digest": digest_of_links(events)[:16],
        "clock": task.clock,
        "protocol": task.protocol,
        "negatives": results.values("negatives"),
        "seeds": sorted({run.seed for run in (*finished, *failed)}),
        "splits": splits,
        "device": device_name(trainings.device),
        "jobs": trainings.jobs,
        "settings": {run.system: changed for run in finished if (changed := changed_settings(run.config))},
        "versions": next((found.report["versions"] for found in finished.values()), {"cawn": __version__}),
    }
    costs = [_cost(task, name, list(runs.values())) for (task, name), runs in groups.items()]
    reasons = [
        {"system": run.system, "task": run.task.nodes, "seed": run.seed, "reason": reason}
        for run, reason in failed.items()
    ]
    return Comparison(about, results, [cost for cost in costs if cost], reasons)


def _compared(test: dict[str, Any]) -> dict[str, Any]:
    """The test of a run without the trained baselines, which are compared as systems of their own."""
    untrained = {name: figures for name, figures in test["baselines"].items() if name not in BASELINES}
    return test | {"baselines": untrained}


def name_of_links(kind: str) -> str:
    """A kind of test links in words; TGB's protocol has validation links, too."""
    return f"{kind} links" if kind in ("test", "validation") else f"{kind} test links"


def _cost(task: str, name: str, runs: list[Trained]) -> dict[str, Any]:
    """Means over the seeds of a system; empty if nothing was recorded."""
    costs = [run.report["cost"] | {"epochs": run.metrics.count("\n")} for run in runs if run.report.get("cost")]
    if not costs:
        return {}
    known = {name: [cost[name] for cost in costs if cost[name] is not None] for name in _COSTS}
    means = {name: float(np.mean(values)) if values else None for name, values in known.items()}
    return {"task": task, "system": name, **means, "peak_memory": max(known["peak_memory"], default=None)}


def device_name(device: str) -> str:
    """The name of a device."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(device)
    import platform

    return f"CPU ({platform.processor() or platform.machine()})"
