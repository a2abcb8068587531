"""The results of all experiments: a folder with one JSON file per network, one line per measurement."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cawn.errors import QueryError, StorageError, brief, one_line
from cawn.files import LOCK, FileLock, make_folder, read_file, write_text
from cawn.learn.metrics import mean_and_interval
from cawn.paper.published import NETWORKS

MEAN_AND_INTERVAL = "mean over seeds ± half the width of the 95 % confidence interval"  # how a `Cell` is printed
_MARK = "cawn paper results"
_DAMAGED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)


@dataclass(frozen=True)
class Result:
    """A measurement and its value."""

    key: str
    network: str
    kind: str
    settings: dict[str, Any]
    labels: list[str]  # the roles of this result in tables and plots
    value: Any
    seconds: float
    command: str  # that made it
    versions: dict[str, str]
    device: str
    links: str  # digest of the network

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.network}, {self.labels[0] if self.labels else self.key}"

    @property
    def where(self) -> tuple[str, str, int]:
        """Network, task and seed of a training run."""
        return self.network, self.settings["task"], self.settings["seed"]

    def rows(self, **wanted: str) -> list[dict[str, Any]]:
        """The rows of a training run with these values: links, negatives, clock."""
        return [row for row in self.value["rows"] if all(row[name] == value for name, value in wanted.items())]


@dataclass
class Results:
    """All results in a folder, by network and key."""

    folder: Path
    found: dict[str, dict[str, Result]] = field(default_factory=dict)
    about: dict[str, dict[str, Any]] = field(default_factory=dict)  # by network: digest, links, nodes
    _read_at: dict[str, int] = field(default_factory=dict)  # by network: when its file was changed
    foreign: set[Path] = field(default_factory=set)  # JSON files in the folder that have no results

    @classmethod
    def read(cls, folder: Path) -> Results:
        """Read a folder; an empty or missing one has no results."""
        results = cls(folder)
        for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
            results._read_file(path)
        return results

    def _read_file(self, path: Path) -> None:
        changed = path.stat().st_mtime_ns
        text = read_file(path) if path.is_file() else b""
        try:
            content = json.loads(text) if _MARK.encode() in text else {}
            if not isinstance(content, dict) or content.get("format") != _MARK:
                self.foreign.add(path)
                return
            network = content["network"]
            rows = [_checked(Result(network=network, **row)) for row in content["results"]]
            about = _checked_about(content["about"])
        except _DAMAGED as error:
            raise StorageError(f"{path}: damaged, or written by another version of cawn; move it away") from error
        if network != path.stem:
            raise StorageError(f"{path}: has results of {brief(network)}, so it must have that name; move it away")
        self._read_at[network] = changed
        self.about[network], self.found[network] = about, {row.key: row for row in rows}

    def check_writable(self, network: str) -> None:
        """Refuse to overwrite the file of another program."""
        path = self._file(network)
        if path in self.foreign:
            raise StorageError(f"{path}: not written by cawn paper; move it away, or give another folder")

    def _file(self, network: str) -> Path:
        return self.folder / f"{network}.json"

    def add(self, result: Result, about: dict[str, Any]) -> None:
        """Add a result to the file of its network."""
        with self._changing(result.network):
            self.about[result.network] = about
            for label in result.labels:
                self._take(result.network, label)
            self.found.setdefault(result.network, {})[result.key] = result

    def use(self, result: Result, label: str) -> None:
        """Give a label to an existing result, and remove it from the result that had it before."""
        if label not in self.found[result.network][result.key].labels:
            with self._changing(result.network):
                self._take(result.network, label)
                self.found[result.network][result.key].labels.append(label)

    @contextmanager
    def _changing(self, network: str) -> Iterator[None]:
        """Within, no other process changes the file of a network, which is read at first and written at the end."""
        make_folder(self.folder)
        with FileLock(self.folder / LOCK):
            self.refresh(network)
            yield
            self.write(network)

    def refresh(self, network: str) -> None:
        """Read what other processes have written since."""
        path = self._file(network)
        if path.exists() and path.stat().st_mtime_ns != self._read_at.get(network):
            self._read_file(path)

    def _take(self, network: str, label: str) -> None:
        for other in self.found.get(network, {}).values():
            if label in other.labels:
                other.labels.remove(label)

    def write(self, network: str) -> None:
        """Write the file of a network."""
        rows = sorted(self.found[network].values(), key=lambda row: (row.kind, row.labels, row.key))
        lines = [json.dumps({k: v for k, v in vars(row).items() if k != "network"}) for row in rows]
        head = json.dumps({"format": _MARK, "network": network, "about": self.about[network]})[:-1]
        write_text(self._file(network), head + ', "results": [\n' + ",\n".join(lines) + "\n]}\n")
        self._read_at[network] = self._file(network).stat().st_mtime_ns

    def get(self, network: str, key: str) -> Result | None:
        return self.found.get(network, {}).get(key)

    def all(self, kind: str | None = None) -> Iterator[Result]:
        """All results, or those of one kind."""
        for results in self.found.values():
            yield from (result for result in results.values() if kind in (None, result.kind))

    @property
    def networks(self) -> list[str]:
        """The networks with results: those of the paper in its order, then the others."""
        known = [name for name in NETWORKS if name in self.found]
        return known + sorted(set(self.found) - set(known))

    def labelled(self, start: str, network: str | None = None) -> list[Result]:
        """The results with a label that is `start`, or begins with it and a comma."""
        found = self.all() if network is None else self.found.get(network, {}).values()
        return [
            result
            for result in found
            if any(label == start or label.startswith(f"{start}, ") for label in result.labels)
        ]


def _checked(result: Result) -> Result:
    """Refuse wrong types, as in a file edited by hand; the value itself is checked where it is used."""
    texts = [result.key, result.kind, result.command, result.device, result.links, *result.labels]
    texts += [*result.versions.keys(), *result.versions.values()]
    if not (all(isinstance(text, str) and text.isprintable() for text in texts) and isinstance(result.labels, list)):
        raise TypeError("not text of one line")
    if not (math.isfinite(result.seconds) and isinstance(result.settings, dict)):
        raise TypeError("not a number of seconds, or no settings")
    return result


def _checked_about(about: dict[str, Any]) -> dict[str, Any]:
    if not all(isinstance(value, str if name == "digest" else int) for name, value in about.items()):
        raise TypeError("not facts about a network")
    return about


@contextmanager
def refuse_damaged(folder: Path, which: str) -> Iterator[None]:
    """Turn errors caused by unexpected values in results into a StorageError; `which` results, such as "of table2"."""
    try:
        yield
    except _DAMAGED as error:
        cause = one_line(f"{type(error).__name__}: {error}")
        raise StorageError(
            f"{folder}: results {which} are damaged, or from another version of cawn ({cause}); measure again into "
            "another folder"
        ) from error


@dataclass(frozen=True)
class Cell:
    """Mean of a metric over seeds, in percent, and its 95 % confidence interval."""

    mean: float
    half: float | None  # half the width of the interval; None for a single seed
    seeds: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Cell | None:
        """From one value per seed, as fractions; None if there are no values."""
        found = list(values)
        if not found:
            return None
        mean, half = mean_and_interval(found)
        return cls(100 * mean, 100 * half if len(found) > 1 else None, len(found))

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + self._interval

    def __neg__(self) -> Cell:
        return Cell(-self.mean, self.half, self.seeds)

    @property
    def signed(self) -> str:
        """As text with a sign, for differences."""
        return f"{self.mean:+.2f}" + self._interval

    @property
    def _interval(self) -> str:
        return "" if self.half is None else f" ± {self.half:.2f}"

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero, for differences."""
        return self.half is not None and abs(self.mean) > self.half


def cell(results: Iterable[Result], metric: str, **wanted: str) -> Cell | None:
    """The mean of a metric over results that differ in their seeds only. Refuses to average different splits.

    Args:
        metric: "auc", "ap", "auc_batch30", ...
        wanted: links, negatives, clock.
    """
    return Cell.of(by_seed(results, metric, **wanted).values())


def by_seed(results: Iterable[Result], metric: str, **wanted: str) -> dict[int, float]:
    """A metric by seed; the results may differ in their seeds only, see `cell`."""
    chosen = [(result, row) for result in results for row in result.rows(**wanted) if row.get(metric) is not None]
    check_same_splits([result for result, _ in chosen])
    for result, row in chosen:
        if not 0 <= row[metric] <= 1:
            raise StorageError(
                f"{result.name}: {metric} is {brief(row[metric])}, not between 0 and 1; remove this result"
            )
    found = {result.settings["seed"]: row[metric] for result, row in chosen}
    if len(found) < len(chosen):
        raise QueryError(f"{chosen[0][0].name}: two results with the same seed cannot be averaged; remove one of them")
    return found


def differences(results: Iterable[Result], reference: Iterable[Result], metric: str, **wanted: str) -> dict[int, float]:
    """By seed, how much higher a metric is than in the reference. The same seed has the same split and negatives."""
    results, reference = list(results), list(reference)
    check_same_splits([*results, *reference])
    ours, theirs = by_seed(results, metric, **wanted), by_seed(reference, metric, **wanted)
    return {seed: ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())}


def check_same_splits(results: Iterable[Result]) -> None:
    """Refuse runs with different links, or with different splits for one task and seed.

    Transductive splits do not depend on the seed; inductive ones do, because the seed draws the hidden nodes.
    """
    seen: dict[tuple[Any, ...], tuple[str, str]] = {}
    for result in results:
        network, task, seed = result.where
        how = result.settings["protocol"], result.settings["ties"]
        splits = {row["split"] for row in result.value["rows"]}
        for place, what, digest in [((network,), "links", result.links)] + [
            ((network, task, *how, seed if task == "inductive" else None), "splits", split) for split in splits
        ]:
            label, known = seen.setdefault((what, *place), (result.name, digest))
            if known != digest:
                raise QueryError(
                    f"{label!r} and {result.name!r} have different {what} ({known[:12]}, {digest[:12]}) "
                    "and cannot be averaged or compared; remove one of them from the results"
                )
