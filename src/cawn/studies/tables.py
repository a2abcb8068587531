"""The result of a comparison: accuracy and cost of every system, as JSON and as Markdown tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cawn import __version__, systems
from cawn.data.summary import describe
from cawn.files import write_text
from cawn.learn.metrics import mean_and_interval
from cawn.learn.reporting import format_duration
from cawn.learn.run_info import changed_settings
from cawn.learn.runs import digest_of_links
from cawn.learn.testing import BASELINES
from cawn.studies.trainings import Finished, Trainings

METRICS = {"ap": "AP", "auc": "AUC", "mrr": "MRR", "ap_batch200": "AP (batches of 200)"}  # the last for "dyglib" only
CLOCKS = {"strict": "links at earlier times are known", "event": "links in earlier rows are known"}


@dataclass(frozen=True)
class Comparison:
    """Accuracy and cost of several systems on one network.

    Each row of `accuracy` is for one task, kind of test links, kind of negatives and system; a metric is its mean over
    seeds and the half-width of its 95 % confidence interval, which is None for a single seed. Each row of `cost` is for
    one task and system: means over seeds, and the largest peak memory.
    """

    about: dict[str, Any]
    accuracy: list[dict[str, Any]] = field(repr=False)
    cost: list[dict[str, Any]] = field(repr=False)
    failed: list[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values."""
        return asdict(self)

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
        return list(dict.fromkeys((row["task"], row["links"]) for row in self.accuracy))

    def kinds(self, task: str, links: str) -> list[str]:
        """The kinds of negatives that these links are tested against."""
        rows = [row for row in self.accuracy if (row["task"], row["links"]) == (task, links)]
        return list(dict.fromkeys(row["negatives"] for row in rows))

    def accuracy_table(
        self, task: str, links: str, metrics: tuple[str, ...] = tuple(METRICS)
    ) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: trained systems sorted by AP (MRR for TGB) against the first kind of negatives, then
        untrained ones."""
        kinds = self.kinds(task, links)
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for row in self.accuracy:
            if (row["task"], row["links"]) == (task, links):
                found.setdefault(row["system"], {})[row["negatives"]] = row
        columns = [(metric, kind) for metric in metrics for kind in kinds if self._has(metric, task, links, kind)]
        order = sorted(found, key=lambda name: _place(found[name], kinds[0]))
        best = {
            (metric, kind): max(found[name][kind][metric][0] for name in order if kind in found[name])
            for metric, kind in columns
        }
        rows = []
        for name in order:
            first = next(iter(found[name].values()))
            cells = [_figure(found[name].get(kind, {}).get(metric), best[metric, kind]) for metric, kind in columns]
            rows.append([name if first["trained"] else f"{name} (untrained)", *cells, str(len(first["seeds"]))])
        return ["system", *(f"{METRICS[metric]} {kind}" for metric, kind in columns), "seeds"], rows

    def _has(self, metric: str, task: str, links: str, kind: str) -> bool:
        return all(
            row.get(metric) is not None
            for row in self.accuracy
            if (row["task"], row["links"], row["negatives"]) == (task, links, kind)
        )

    def cost_table(self, task: str) -> tuple[list[str], list[list[str]]]:
        """Headings and rows, sorted by training time."""
        headings = ["system", "training", "s/epoch", "epochs", "links/s", "pairs/s", "peak memory", "weights"]
        rows = []
        for row in sorted((row for row in self.cost if row["task"] == task), key=lambda row: row["seconds"]):
            seconds, memory = row["seconds_per_epoch"], row["peak_memory"]
            rows.append(
                [
                    row["system"],
                    format_duration(row["seconds"]),
                    f"{seconds:.3g}" if seconds < 100 else f"{seconds:,.0f}",
                    f"{row['epochs']:.3g}",
                    "" if row["links_per_second"] is None else f"{row['links_per_second']:,.0f}",
                    f"{row['pairs_per_second']:,.0f}",
                    "" if memory is None else f"{memory / 1e9:.2f} GB",
                    f"{row['weights']:,.0f}",
                ]
            )
        return headings, rows

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
    groups: dict[tuple[str, str], dict[int, Finished]] = {}
    for run in trainings.planned:
        if run in finished:
            groups.setdefault((run.task.nodes, run.system), {})[run.seed] = finished[run]
    accuracy = [row for (task, name), runs in groups.items() for row in _accuracy(task, name, runs)]
    rows = [row for runs in groups.values() for found in runs.values() for row in found.results]
    splits: dict[str, list[str]] = {}
    for run, found in sorted(finished.items(), key=lambda item: item[0].seed):
        digests = splits.setdefault(run.task.nodes, [])
        if found.results[0]["split"] not in digests:
            digests.append(found.results[0]["split"])
    task = trainings.planned[0].task
    about = {
        "data": describe(events),
        "digest": digest_of_links(events)[:16],
        "clock": task.clock,
        "protocol": task.protocol,
        "negatives": list(dict.fromkeys(row["negatives"] for row in rows)),
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
    return Comparison(about, accuracy, [cost for cost in costs if cost], reasons)


def _accuracy(task: str, name: str, runs: dict[int, Finished]) -> Iterator[dict[str, Any]]:
    """The rows of a system, and of the untrained baselines that were evaluated with it."""
    tests = dict.fromkeys((row["links"], row["negatives"]) for run in runs.values() for row in run.results)
    for links, kind in tests:
        same = {
            seed: row
            for seed, run in sorted(runs.items())
            for row in run.results
            if (row["links"], row["negatives"]) == (links, kind)
        }
        where = {"task": task, "links": links, "negatives": kind}
        about = {"seeds": list(same), "count": float(np.mean([row["count"] for row in same.values()]))}
        trained = systems.entry(name).trained
        yield where | {"system": name, "trained": trained} | about | _metrics([_of_model(row) for row in same.values()])
        rules = [rule for rule in next(iter(same.values()))["rules"] if rule not in BASELINES]
        for rule in rules:
            figures = _metrics([_of_rule(row, rule) for row in same.values()])
            yield where | {"system": rule, "trained": False} | about | figures


def name_of_links(kind: str) -> str:
    """A kind of test links in words; TGB's protocol has validation links, too."""
    return f"{kind} links" if kind in ("test", "validation") else f"{kind} test links"


def main_metric(figures: dict[str, Any]) -> float:
    """AP or, for links that are only ranked, MRR."""
    return float(figures["ap"] if "ap" in figures else figures["mrr"])


def main_figure(row: dict[str, Any]) -> tuple[float, float | None]:
    """Mean and half-width of AP or, for links that are only ranked, of MRR, in a row of `accuracy`."""
    mean, half = row["mrr"] if row["ap"] is None else row["ap"]
    return mean, half


def _of_model(row: dict[str, Any]) -> dict[str, Any]:
    figures: dict[str, Any] = row["model"] | row.get("ranks", {}).get("model", {})
    return figures


def _of_rule(row: dict[str, Any], rule: str) -> dict[str, Any]:
    figures: dict[str, Any] = row["rules"][rule] | row.get("ranks", {}).get(rule, {})
    return figures


def _metrics(rows: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for metric in METRICS:
        values = [row[metric] for row in rows if metric in row]
        mean, half = mean_and_interval(values) if values else (None, None)
        found[metric] = None if mean is None else [mean, half if len(values) > 1 else None]
    return found


def _cost(task: str, name: str, runs: list[Finished]) -> dict[str, Any]:
    """Means over the seeds of a system; empty if nothing was recorded."""
    costs = [run.report["cost"] for run in runs if run.report.get("cost")]
    if not costs:
        return {}
    found: dict[str, Any] = {"task": task, "system": name, "epochs": _mean(run.metrics.count("\n") for run in runs)}
    for figure in ("seconds", "seconds_per_epoch", "links_per_second", "pairs_per_second", "weights"):
        found[figure] = _mean(cost[figure] for cost in costs)
    memory = [cost["peak_memory"] for cost in costs if cost["peak_memory"] is not None]
    return found | {"peak_memory": max(memory, default=None)}


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def device_name(device: str) -> str:
    """The name of a device."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(device)
    import platform

    return f"CPU ({platform.processor() or platform.machine()})"


def _place(rows: dict[str, dict[str, Any]], kind: str) -> tuple[bool, float]:
    """The sort key of a system in the table."""
    first = next(iter(rows.values()))
    return not first["trained"], -main_figure(rows[kind])[0] if kind in rows else 1.0


def _figure(value: list[Any] | None, best: float) -> str:
    if value is None:
        return ""
    mean, half = value
    text = f"{100 * mean:.2f}" + ("" if half is None else f" ± {100 * half:.2f}")
    return f"**{text}**" if mean == best else text


def markdown_table(headings: list[str], rows: list[list[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    lines = [headings, ["---"] + ["---:"] * (len(headings) - 1), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)
