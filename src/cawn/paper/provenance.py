"""How the results of an experiment were measured: data, splits, seeds, clock, negatives, commands, times, versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median
from typing import Any, NamedTuple

from cawn.learn.reporting import format_duration
from cawn.paper.published import display_name
from cawn.paper.results import Result, Results

_SHORT = 12  # letters of a digest


class Fact(NamedTuple):
    """A line of the report."""

    name: str
    values: list[str]  # Markdown


def provenance(results: Results, used: Iterable[Result]) -> list[Fact]:
    """What a reader needs to judge or repeat the results that an experiment used."""
    chosen = list({(one.network, one.key): one for one in used}.values())
    if not chosen:
        return []
    facts = [
        Fact("Networks", [_network(results, name) for name in results.networks if _has(chosen, name)]),
        Fact("Splits", list(_splits(results, chosen))),
        Fact("Seeds", list(_seeds(chosen))),
        Fact("Clock", _distinct(chosen, "clock", "clocks")),
        Fact("Negatives", _distinct(chosen, "negatives", "negatives")),
        Fact("Commands", [code(command) for command in dict.fromkeys(one.command for one in chosen)]),
        Fact("Time", [_time(chosen)]),
        Fact("Device", list(dict.fromkeys(one.device for one in chosen))),
        Fact("Versions", list(dict.fromkeys(_versions(one) for one in chosen))),
    ]
    return [fact for fact in facts if fact.values]


def code(text: str) -> str:
    """Text as Markdown code, which may contain backticks."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _has(chosen: list[Result], network: str) -> bool:
    return any(one.network == network for one in chosen)


def _network(results: Results, name: str) -> str:
    about = results.about.get(name, {})
    sizes = [f"{about[what]:,} {what}" for what in ("links", "nodes") if what in about]
    digest = about.get("digest") or next(one.links for one in results.found[name].values())
    return f"{display_name(name)}: {', '.join([*sizes, f'digest {code(digest[:_SHORT])}'])}"


def _rows(result: Result) -> list[dict[str, Any]]:
    """The rows of a training; other measurements have none."""
    return result.value["rows"] if result.kind == "training" else []


def _splits(results: Results, chosen: list[Result]) -> Iterator[str]:
    """Digests by network and task; one for all seeds if they share it."""
    found: dict[tuple[str, ...], dict[int, str]] = {}
    for result in (one for one in chosen if one.kind == "training"):
        network, task, seed = result.where
        usual = {"protocol": "strict", "ties": "strict"}
        how = [f"{name}: {result.settings[name]}" for name, value in usual.items() if result.settings[name] != value]
        for row in _rows(result):
            found.setdefault((network, task, *how), {})[seed] = row["split"]
    for (network, *how), digests in sorted(found.items(), key=lambda item: _order(results, item[0])):
        where = ", ".join([display_name(network), *how])
        if len(set(digests.values())) == 1:
            yield f"{where}: digest {code(next(iter(digests.values())))}"
        else:
            yield f"{where}: " + ", ".join(f"seed {seed} {code(digests[seed])}" for seed in sorted(digests))


def _order(results: Results, place: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    return results.networks.index(place[0]), place[1:]


def _seeds(chosen: list[Result]) -> Iterator[str]:
    found: dict[str, set[int]] = {}
    for result in chosen:
        if "seed" in result.settings:
            found.setdefault(result.settings.get("task", ""), set()).add(result.settings["seed"])
    for task, seeds in sorted(found.items(), reverse=True):
        yield f"{task} {_ranges(sorted(seeds))}".strip()


def _ranges(numbers: list[int]) -> str:
    """Such as "0 to 4"."""
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))


def _distinct(chosen: list[Result], column: str, setting: str) -> list[str]:
    """The distinct values of a column of the rows, or of a setting for measurements without rows."""
    found: dict[str, None] = {}
    for result in chosen:
        given = result.settings.get(setting, [])
        values = [row[column] for row in _rows(result)] or ([given] if isinstance(given, str) else list(given))
        found |= dict.fromkeys(map(str, values))
    return [", ".join(found)] if found else []


def _time(chosen: list[Result]) -> str:
    seconds = [one.seconds for one in chosen]
    if len(seconds) == 1:
        return f"one measurement, {format_duration(seconds[0])}"
    total, middle = format_duration(sum(seconds)), format_duration(median(seconds))
    together = "; some may have run in parallel" if any(one.kind == "training" for one in chosen) else ""
    return f"{len(seconds):,} measurements, {total} in total, median {middle}{together}"


def _versions(result: Result) -> str:
    return ", ".join(f"{name} {version}" for name, version in result.versions.items())
