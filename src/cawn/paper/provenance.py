"""How the results of an experiment were measured: data, splits, seeds, clock, negatives, commands, times, versions."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from cawn.learn.reporting import format_duration
from cawn.paper.published import display_name
from cawn.paper.results import Result, ResultStore
from cawn.paper.variants import VARIANTS

_SHORT = 12  # letters of a digest
_USUAL = {"protocol": "strict", "ties": "strict"}


def provenance(results: ResultStore, used: Iterable[Result]) -> dict[str, list[str]]:
    """What a reader needs to judge or repeat the results that an experiment used: lines of Markdown by heading."""
    chosen = list({(one.network, one.key): one for one in used}.values())
    systems = [(one, name) for one in chosen if one.kind in ("training", "transfer") for name in _systems(one)]
    short = sorted({f"{name} ({display_name(one.network)})" for one, name in systems if one.value.get("cut_short")})
    facts = {
        "Networks": [_network(results, name) for name in results.networks if name in {one.network for one in chosen}],
        "Splits": _splits(results, chosen),
        "Seeds": _seeds(chosen),
        "Clock": _joined(value for one in chosen for value in _values(one, "clock", "clocks")),
        "Negatives": _joined(value for one in chosen for value in _values(one, "negatives", "negatives")),
        "Negatives in training": _training(systems),
        "Stopped by a time limit before the last epoch": _joined(short),
        "Commands": [code(command) for command in dict.fromkeys(one.command for one in chosen)],
        "Time": [_time(chosen)] if chosen else [],
        "Device": list(dict.fromkeys(one.device for one in chosen)),
        "Versions": list(
            dict.fromkeys(", ".join(map(" ".join, one.versions.items())) for one in chosen if one.versions)
        ),
    }
    return {name: values for name, values in facts.items() if values}


def code(text: str) -> str:
    """Text as Markdown code, which may contain backticks."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _joined(values: Iterable[object]) -> list[str]:
    """The distinct values in one line, if there are any."""
    text = ", ".join(dict.fromkeys(map(str, values)))
    return [text] if text else []


def _network(results: ResultStore, name: str) -> str:
    about = results.about.get(name, {})
    sizes = [f"{about[what]:,} {what}" for what in ("links", "nodes") if what in about]
    digest = about.get("digest") or next(one.links for one in results.found[name].values())
    return f"{display_name(name)}: {', '.join([*sizes, f'digest {code(digest[:_SHORT])}'])}"


def _splits(results: ResultStore, chosen: list[Result]) -> list[str]:
    """Digests by network and task; one for all seeds if they share it."""
    found: dict[tuple[int, str, tuple[str, ...]], dict[int, str]] = {}
    for one in (one for one in chosen if one.kind == "training"):
        how = tuple(f"{name}: {one.settings[name]}" for name, value in _USUAL.items() if one.settings[name] != value)
        place = results.networks.index(one.network), one.settings["task"], how
        for row in one.value["rows"]:
            found.setdefault(place, {})[one.settings["seed"]] = row["split"]
    lines = []
    for (number, task, how), digests in sorted(found.items()):
        shown = f"digest {code(next(iter(digests.values())))}"
        if len(set(digests.values())) > 1:
            shown = ", ".join(f"seed {seed} {code(digests[seed])}" for seed in sorted(digests))
        lines.append(f"{', '.join([display_name(results.networks[number]), task, *how])}: {shown}")
    return lines


def _seeds(chosen: list[Result]) -> list[str]:
    """By task; such as "0 to 4"."""
    found: dict[str, set[int]] = {}
    for one in (one for one in chosen if "seed" in one.settings):
        found.setdefault(one.settings.get("task", ""), set()).add(one.settings["seed"])
    lines = []
    for task, seeds in sorted(found.items(), reverse=True):
        first, last = min(seeds), max(seeds)
        in_a_row = len(seeds) > 2 and len(seeds) == last - first + 1
        lines.append(f"{task} {f'{first} to {last}' if in_a_row else ', '.join(map(str, sorted(seeds)))}".strip())
    return lines


def _values(one: Result, column: str, setting: str) -> list[object]:
    """The values of a column of the rows, or of a setting for measurements without rows."""
    given = one.settings.get(setting, [])
    rows = one.value["rows"] if one.kind == "training" else []
    return [row[column] for row in rows] or ([given] if isinstance(given, str) else list(given))


def _systems(one: Result) -> list[str]:
    """The variants in its labels."""
    return [variant.label for variant in VARIANTS if any(variant.label in label.split(", ") for label in one.labels)]


def _training(systems: list[tuple[Result, str]]) -> list[str]:
    """The systems that were trained with each kind of negatives."""
    groups: dict[str, list[str]] = {}
    for one, name in systems:
        groups.setdefault(one.settings["config"].get("negatives", "random"), []).append(name)
    return [f"{kind}: {', '.join(dict.fromkeys(names))}" for kind, names in sorted(groups.items(), reverse=True)]


def _time(chosen: list[Result]) -> str:
    seconds = [one.seconds for one in chosen]
    if len(seconds) == 1:
        return f"one measurement, {format_duration(seconds[0])}"
    total, middle = format_duration(sum(seconds)), format_duration(median(seconds))
    together = "; some may have run in parallel" if any(one.kind == "training" for one in chosen) else ""
    return f"{len(seconds):,} measurements, {total} in total, median {middle}{together}"
