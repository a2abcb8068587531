"""The results of all experiments: a folder with one JSON file per network, one line per measurement."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cawn.errors import StorageError, brief, one_line
from cawn.files import LOCK, FileLock, make_folder, read_file, write_text
from cawn.paper.published import in_order

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


@dataclass
class ResultStore:
    """All results in a folder, by network and key."""

    folder: Path
    found: dict[str, dict[str, Result]] = field(default_factory=dict)
    about: dict[str, dict[str, Any]] = field(default_factory=dict)  # by network: digest, links, nodes
    _read_at: dict[str, int] = field(default_factory=dict)  # by network: when its file was changed
    foreign: set[Path] = field(default_factory=set)  # JSON files in the folder that have no results

    @classmethod
    def read(cls, folder: Path) -> ResultStore:
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
        """Add a result to the file of its network. Its labels are taken from the results that had them before."""
        network = result.network
        make_folder(self.folder)
        with FileLock(self.folder / LOCK):  # no other process changes the file meanwhile
            self.refresh(network)
            self.about[network] = about
            found = self.found.setdefault(network, {})
            for other in found.values():
                other.labels[:] = [label for label in other.labels if label not in result.labels]
            known = found.get(result.key)
            labels = [*(known.labels if known else []), *result.labels]
            found[result.key] = replace(result, labels=labels)
            self._write(network)

    def use(self, result: Result, labels: list[str]) -> None:
        """Give labels to an existing result."""
        if set(labels) - set(result.labels):
            self.add(replace(result, labels=labels), self.about[result.network])

    def refresh(self, network: str) -> None:
        """Read what other processes have written since."""
        path = self._file(network)
        if path.exists() and path.stat().st_mtime_ns != self._read_at.get(network):
            self._read_file(path)

    def _write(self, network: str) -> None:
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
        """The networks with results."""
        return in_order(self.found)

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
