"""Results as tables on a terminal."""

from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE, SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cawn.data.events import Events
from cawn.data.times import format_as_read
from cawn.errors import printable
from cawn.learn.reporting import format_duration
from cawn.learn.results import Mean, Results, main_metric
from cawn.rankings import Ranked

_ENOUGH, _TRIED = 5, 1_000  # earlier links of a good example, and number of late links to look at
_MIXTURES = {
    "mixed": "random (3 in 4) and historical (1 in 4)",
    "hard": "random (2 in 4), historical (1 in 4) and recent (1 in 4)",
    "pairs": "random (9 in 16), historical (3 in 16) and pair (4 in 16)",
}
# In this order in tables; others follow.
_BASELINES = ("rates only", "counts", "recency", "LR+LP+GR+GP", "LP+GP", "edgebank", "edgebank (window)", "popularity")
_SHOWN = {"edgebank": "EdgeBank", "edgebank (window)": "EdgeBank (window)"}  # names in tables, if they are others
_Column = tuple[str, tuple[str, ...]]  # its heading, and the metrics in it


def show_results(results: Results, *, batch_metrics: bool = False, console: Console | None = None) -> None:
    """Print a table for each kind of negatives: the system and its baselines; means over seeds."""
    console, first, ranked = console or Console(), results.tests[0], main_metric(results) == "mrr"
    if (seeds := len(results.values("seed"))) > 1:
        console.print(f"mean of {seeds} seeds ± half of the 95 % confidence interval")
    for kind in results.values("negatives"):
        some, what = results.where(negatives=kind), f"among {kind}" if ranked else f"against {kind} negatives"
        console.print(f"{what}, {_protocol(first)}", style="italic")
        console.print(_table(some, _metrics_of(some, batch_metrics=batch_metrics)))
        for test in _of_first_seed(some):
            _show_unusual(test, console)
    _show_training(first, console)
    if not ranked:
        _show_verdict(results, console)
        _show_ranks(results, console)


def _of_first_seed(results: Results) -> list[dict[str, Any]]:
    return [test for test in results.tests if test["seed"] == results.tests[0]["seed"]]


def _metrics_of(results: Results, *, batch_metrics: bool) -> list[_Column]:
    """The columns of a table, by the protocol: batches of 30 are shown with the paper's, or on request."""
    if main_metric(results) == "mrr":
        return [("MRR", ("mrr",)), ("Hits@10", ("hits@10",))]
    known, usual = results.values("metric"), 30 if results.tests[0]["protocol"] == "paper" else 200
    sizes = [size for size in (30, 200) if f"ap_batch{size}" in known and (batch_metrics or size == usual)]
    batches = [(f"batches of {size}", (f"auc_batch{size}", f"ap_batch{size}")) for size in sizes]
    return [("AUC", ("auc",)), ("AP", ("ap",)), *batches, *[("MRR", ("mrr",))] * ("mrr" in known)]


def _table(results: Results, columns: list[_Column]) -> Table:
    """A row for each kind of test links, and those of the baselines below it."""
    table = Table(box=SIMPLE, pad_edge=False)
    table.add_column("", no_wrap=True)
    for heading, _ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for test in _of_first_seed(results):
        some = results.where(links=test["links"])
        names = some.where(baseline=True).values("system")
        order = [test["system"], *sorted(names, key=lambda name: _BASELINES.index(name) if name in _BASELINES else 99)]
        means = some.means("system", "metric")
        for name in order:
            cells = [[means.get((name, metric)) for metric in metrics] for _, metrics in columns]
            shown = [_with_interval(mean) for (mean,) in cells[:2]] + [_without_interval(each) for each in cells[2:]]
            is_system = name == test["system"]
            title = f"{test['links']} links: {test['count']:,}" if is_system else f"  {_SHOWN.get(name, name)}"
            table.add_row(title, *shown, style="bold" if is_system else "dim")
    return table


def _with_interval(mean: Mean | None) -> str:
    if mean is None:
        return ""
    return f"{mean.mean:.4f}" + ("" if mean.half is None else f" ± {mean.half:.3f}")


def _without_interval(means: list[Mean | None]) -> str:
    return " / ".join(f"{mean.mean:.3f}" for mean in means if mean is not None)


def _show_ranks(results: Results, console: Console) -> None:
    """Print what MRR is measured on, and the calibration error of the probabilities."""
    if ranked := [test for test in results.tests if "ranks" in test]:
        most = max(ranked, key=lambda test: test["count"])
        console.print(
            f"MRR: up to {most['ranks']['links']} links, each among {most['ranks']['candidates']} random destinations. "
            f"Expected calibration error on {most['links']} links, with one negative per positive: "
            f"{_calibration_error(most['reliability'])}.",
            style="dim",
        )


def _calibration_error(found: dict[str, Any]) -> str:
    rolling, fixed = (f"{found[kind]['ece']:.3f}" for kind in ("rolling", "calibrated"))
    return f"{rolling} if refitted as links arrive, {fixed} if fitted on validation links alone"


def _protocol(row: dict[str, Any]) -> str:
    """The clock of a row, and its protocol if it is not the usual one."""
    return f"{row['clock']} clock" + (f", protocol {row['protocol']}" if row["protocol"] != "strict" else "")


def _show_training(row: dict[str, Any], console: Console) -> None:
    """Print which negatives the model was trained with, because the results depend on it."""
    given = [kind for kind in row.get("trained_with", "").split(", ") if kind]
    if given:
        trained = [name for name in ("rates only", "counts") if name in row["baselines"]]
        if "pairs" in given:
            trained = trained[:1]  # counts are trained without pairs
        kinds = ", else ".join(_MIXTURES.get(kind, kind) for kind in given)
        console.print(f"{_listed(['model', *trained])}: trained with {kinds} negatives", style="dim")


def _listed(names: list[str]) -> str:
    return " and ".join([*[", ".join(names[:-1])] * (len(names) > 1), names[-1]])


def _show_verdict(results: Results, console: Console) -> None:
    """Print where a baseline is better than the system."""
    better, aps = [], results.where(metric="ap")
    for links, kind in dict.fromkeys((row["links"], row["negatives"]) for row in aps if row["baseline"]):
        means = aps.where(links=links, negatives=kind).means("baseline", "system")
        best = max((key for key in means if key[0]), key=lambda key: means[key].mean)
        if means[best].mean >= max(mean.mean for key, mean in means.items() if not key[0]):
            better.append(f"{best[1]} ({links} links, {kind} negatives)")
    if better:
        text = f"Baselines with a better AP than the model: {', '.join(better)}. More links or more epochs may help."
        console.print(text, style="yellow")


def _show_unusual(row: dict[str, Any], console: Console) -> None:
    """Print what must be known about the negatives of a row."""
    notes = []
    if row["fallback"] > 0.05:
        notes.append(f"{row['fallback']:.0%} of the negatives are random instead")
    if row.get("linked", 0) > 0.01:  # links that are only ranked have none
        notes.append(f"{row['linked']:.0%} of the negatives are links at the same time")
    if notes:
        console.print(f"{row['links']} links: {'; '.join(notes)}", style="dim")


def describe_accuracy(found: dict[str, Any]) -> str:
    """The accuracy on new links in one line."""
    model, baseline = found["model"], found["recency"]
    some = f"{found['scored']:,} of {found['links']:,} scored"
    return (
        f"accuracy on the new links, before they were known ({some}): AP {100 * model['ap']:.1f} % against one earlier "
        f"destination (recency {100 * baseline['ap']:.1f} %), MRR {model['mrr']:.3f} among {found['candidates']} "
        f"(recency {baseline['mrr']:.3f})"
    )


def show_candidates(report: dict[str, Any], console: Console | None = None) -> None:
    """Print how often the true destination is among the candidates that `rank` chooses."""
    found = report["candidates"]
    (console or Console()).print(
        f"cawn rank considers {found['size']:,.0f} nodes on average; the true destination is among them for "
        f"{found['recall']:.0%} of {found['links']} test links.",
        style="dim",
    )


def show_next(folder: str | Path, events: Events, console: Console | None = None, *, explains: bool = True) -> None:
    """Print commands to try on a run, with nodes that have a history."""
    place = shlex.quote(printable(folder))
    lines = [f"cawn predict {place} pairs.csv -o scored.csv", f"cawn evaluate {place}", f"cawn info {place}"]
    link = example_link(events)
    if link is not None:
        src, dst = (shlex.quote(str(events.labels[end[link]])) for end in (events.src, events.dst))
        t = format_as_read(events.t[link].item(), events.reading)
        lines.insert(0, f"cawn rank {place} --node {src} --time {t} -k 5")
        if explains:
            lines.insert(1, f"cawn explain {place} --src {src} --dst {dst} --time {t} -o why.html")
    console = console or Console(stderr=True)
    console.print("\nNext:", style="bold")
    for line in lines:
        console.print(f"  {line}", highlight=False, soft_wrap=True, markup=False, emoji=False)


def example_link(events: Events) -> int | None:
    """A late link between nodes with earlier links and printable names, or None."""
    for share in (0.95, 0.5):
        first = min(int(share * len(events)), len(events) - 1)
        before = int(np.searchsorted(events.t, events.t[first])) if first >= 0 else 0
        if before == 0:
            continue
        degree = np.bincount(np.concatenate([events.src[:before], events.dst[:before]]), minlength=events.num_nodes)
        known = np.minimum(
            degree[events.src[first:]], degree[events.dst[first:]]
        )  # earlier links of the less active node
        for late in np.lexsort((np.arange(len(known)), np.minimum(known, _ENOUGH)))[::-1][:_TRIED]:
            link = first + int(late)
            names = [str(events.labels[end[link]]) for end in (events.src, events.dst)]
            if known[late] > 0 and names[0] != names[1] and all(map(str.isprintable, names)):
                return link
    return None


def show_ranking(ranked: list[Ranked], console: Console | None = None) -> None:
    """Print a ranking as a table."""
    table = Table("", "node", "probability", "found as", box=SIMPLE_HEAD, pad_edge=False)
    for place, row in enumerate(ranked, start=1):
        table.add_row(str(place), Text(printable(row.name)), f"{row.probability:.4f}", row.found)
    (console or Console()).print(table if ranked else "no candidates: there are no links before this time")


def show_info(info: dict[str, Any], console: Console | None = None) -> None:
    """Print the result of `run_info`: a table of facts, then the accuracy."""
    console = console or Console(highlight=False)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in facts_of_run(info).items():
        if text:
            table.add_row(name, Text(printable(text)))
    console.print(table)
    if info["results"]:
        show_results(Results(info["results"]), console=console)
    if info["candidates"]:
        show_candidates(info, console)


def show_index(found: dict[str, Any]) -> None:
    """Print what an index folder holds."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    counts = ("links", "nodes", "link attributes", "node attributes")
    facts = {
        "index": found["index"],
        "state": "all checksums verified" if found["verified"] else "links verified (--verify: all files)",
        "data": ", ".join(
            f"{found[name.replace(' ', '_')]:,} {name}" for name in counts if found[name.replace(" ", "_")]
        ),
        "period": "{} to {}".format(found["first"], found["last"]),
        "columns": _columns(found["reading"]),
        "system": found["system"],
        "decays": ", ".join(f"{alpha:.3g}" for alpha in found["facts"]["alpha"]) + " (alpha)",
        "parts": ", ".join(found["parts"]),
        "files (MB)": ", ".join(f"{name} {size / 1e6:,.1f}" for name, size in found["files"].items()),
        "versions": f"cawn {found['cawn']}",
    }
    for name, text in facts.items():
        table.add_row(name, Text(printable(text)))
    Console(highlight=False).print(table)


def show_estimate(counts: dict[str, int], num_decays: int, limit: int, found: dict[str, float]) -> None:
    """Print what an index would take."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    is_divided, hours = found["building"] > limit, found["seconds"] / 3600
    rows = {
        "index of": ", ".join(f"{count:,} {name}" for name, count in counts.items()) + f"; {num_decays} decays",
        "in memory": f"{_gigabytes(found['memory'])}, and {_gigabytes(found['building'])} while it is built",
        "on disk": f"{_gigabytes(found['disk'])}, without names and attributes"
        + (f", and {_gigabytes(found['temporary'])} while it is written" if is_divided else ""),
        "time to write": f"{hours:,.1f} h" if hours >= 1 else f"{found['seconds'] / 60:,.1f} min",
        "": f"within {_gigabytes(limit)}; time extrapolated from a trial on this machine, without reading the log",
    }
    for name, text in rows.items():
        table.add_row(name, Text(text))
    Console(highlight=False).print(table)


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


def facts_of_run(info: dict[str, Any]) -> dict[str, str]:
    """The facts about a run by name; those that do not apply are empty."""
    data, training = info["data"], info["training"]
    counts = ("links", "nodes", "link attributes", "node attributes")
    contents = [f"{data[name.replace(' ', '_')]:,} {name}" for name in counts if data[name.replace(" ", "_")]]
    contents += [name for name in ("weighted", "own negatives") if data[name.replace(" ", "_")]]
    added, epochs = data["links"] - data["links_trained_on"], f"{training['epochs']} of at most {training['at_most']}"
    if best := training["best"]:
        epochs += f"; best is {best['epoch']}, validation AP {best['val_ap']:.4f}"
    large = [f"{name} {size / 1e6:,.1f}" for name, size in info["files"].items() if size >= 50_000]
    return {
        "run": info["run"],
        "state": run_state(info),
        "data": ", ".join(contents),
        "period": "" if data["first"] is None else f"{data['first']} to {data['last']}",
        "columns": _columns(data["reading"]),
        "names": "bipartite: {}:..., {}:...".format(*data["two_sided"]) if data["two_sided"] else "",
        "added since": f"{added:,} links" if added > 0 else "",
        "system": info["system"],
        "task": f"{info['task']}, seed {info['seed']}",
        "protocol": f"{info['protocol']}, {info['clock']} clock",
        "decays": ", ".join(f"{alpha:.3g}" for alpha in info["alpha"]) + (" (alpha)" if info["alpha"] else ""),
        "settings": ", ".join(f"{name}={value}" for name, value in info["changed"].items()) or "default preset",
        "epochs": epochs,
        "served": _served(info) if info["finished"] else "",
        "calibration": _calibration(info["calibration"]) if info["calibration"] else "",
        "expected drift": _drift(info["calibration"]) if info["calibration"] else "",
        "cost": in_words(info["cost"]) if info.get("cost") else "",
        "versions": ", ".join(f"{name} {value}" for name, value in info["versions"].items() if value is not None),
        "size": f"{sum(info['files'].values()) / 1e6:,.1f} MB" + (f" ({', '.join(large)})" if large else ""),
        "live": _live(info["live"]) if info.get("live") else "",
        "links digest": data["digest"] or "",
        "split digest": info["split"] or "",
        "weights digest": info["weights"] or "",
    }


def _live(live: dict[str, Any]) -> str:
    """What the state folder of a server holds."""
    parts = [f"{live['links']:,} links, {live['nodes']:,} nodes"]
    for name, offset in live["sources"].items():
        newest = str(offset).rpartition(":")[2] if "-" in str(offset) else offset  # the end of the last range of ids
        parts.append(f"{name} read up to {newest}")
    parts += [f"{live['rejected']:,} rejected entries"] if live["rejected"] else []
    return f"{live['folder']}: {', '.join(parts)}; {live['bytes'] / 1e6:,.1f} MB"


def run_state(info: dict[str, Any]) -> str:
    """Whether training and, if asked for, the training on all links have ended."""
    if info["finished"] and not info["refit_unfinished"]:
        return "finished"
    unfinished = "tested; the training on all links (--refit) is not finished" if info["finished"] else "not finished"
    return f"{unfinished}; to resume: cawn train --resume -o RUN"


def _served(info: dict[str, Any]) -> str:
    """Which weights predictors use, and which ones the results belong to."""
    if not info["refit"]:
        return f"weights trained on {info['served']}, which are those of the results"
    return (
        f"weights trained on {info['served']} ({info['refit']['links']:,}) for {info['refit']['epochs']} epochs; "
        "the results are those of weights trained on training links"
    )


def _calibration(found: dict[str, Any]) -> str:
    """The newest step of a calibration, and the number of earlier ones."""
    later = found.get("later") or []
    newest = later[-1] if later else found
    low = newest.get("low_temperature")
    text = f"temperature {newest['temperature']:.3f}" + ("" if low is None else f" ({low:.3f} for low logits)")
    refits = sum(step["shift"] != before["shift"] for before, step in pairwise([found, *later]))
    fitted = f", refitted {refits} times since validation" if refits else ""
    return f"{text}, shift {newest['shift']:.3f}{fitted}"


def _drift(found: dict[str, Any]) -> str:
    """What to expect of the calibration on later links."""
    expected = found.get("expected")
    if not expected:
        return ""
    fixed, rolling = (expected[kind]["ece"] for kind in ("fixed", "rolling"))
    return (
        f"calibration error {fixed:.3f}, or {rolling:.3f} if refitted as links arrive "
        f"(fitted on earlier validation links, measured on {expected['links']:,} later ones)"
    )


def in_words(cost: dict[str, Any]) -> str:
    """What a training has cost, as recorded in its report."""
    parts = [format_duration(cost["seconds"])]
    if cost["links_per_second"] is not None:
        parts.append(f"{cost['links_per_second']:,.0f} training links/s")
    parts.append(f"scores {cost['pairs_per_second']:,.0f} pairs/s")
    if cost["peak_memory"] is not None:
        parts.append(f"peak memory {cost['peak_memory'] / 1e9:,.2f} GB")
    return ", ".join([*parts, f"{cost['weights']:,} weights"])


def _columns(reading: dict[str, Any] | None) -> str:
    """The columns of the training data."""
    if reading is None or reading.get("src") is None:
        return ""
    named = {role: reading.get(role) for role in ("src", "dst", "time", "weight", "negative", "link_id")}
    parts = [f"{role} {column}" for role, column in named.items() if column is not None]
    parts += [f"attributes {', '.join(map(str, reading['msg']))}"] if reading.get("msg") else []
    return "; ".join(parts)
