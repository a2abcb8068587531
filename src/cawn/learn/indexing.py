"""Building an index folder (`cawn.data.stored`) of a log that may be larger than memory.

The stages are the columns of the links, then the index that the settings need. A stage that was finished is kept if the
build is interrupted, and the same call continues after it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np

from cawn import __version__, systems
from cawn.checks import check_path
from cawn.data.array_folders import Manifest, manifest_of, new_name, read_arrays
from cawn.data.columns import blocks
from cawn.data.events import Events
from cawn.data.hashing import read_sealed, write_sealed
from cawn.data.readers.logs import limits_of, resident_bytes, write_columns
from cawn.data.stored import (
    BUILDING,
    DESCRIPTION,
    FOLDER,
    FORMAT,
    READ_AGAIN,
    describe_network,
    map_events,
    read_stored,
)
from cawn.data.times import format_as_read
from cawn.devices import release_freed_memory
from cawn.errors import CawnError, DataError, QueryError, StorageError
from cawn.files import LOCK, FolderLock, is_temporary, make_folder, refuse_foreign, refuse_within, storing, sync
from cawn.index.estimate import settings_to_estimate
from cawn.index.files import write_index
from cawn.index.sizes import LinkCounts, index_bytes, temporary_bytes
from cawn.learn.task import TimeSplit
from cawn.progress import ShowProgress, progress
from cawn.systems.indexed import IndexedSystem
from cawn.systems.settings import Settings

_BLOCK = 1 << 20
_SAMPLE = 1 << 20  # bytes of a text file from which the length of its lines is estimated
_PER_LINK = 40  # bytes of the columns of a link while they are sorted


def build_index(
    source: Any,
    folder: str | os.PathLike[str],
    config: Settings,
    *,
    memory: int,
    split: TimeSplit | None = None,
    threads: int | None = None,
    report: ShowProgress = progress,
    **options: Any,
) -> dict[str, Any]:
    """Read a log and write an index folder for the settings of a system; returns the content of its index.json.

    Args:
        source: What `cawn.read` reads from files.
        folder: A new or empty folder, or one in which the same call was interrupted.
        config: Settings of a system with a stored index: CAW-N or rates.
        memory: The most memory to use, in bytes, resident and mapped.
        split: The split of the training to come, from whose training links the decays are derived; the default one if
            not given. The index itself has all links.
        report: Shows progress.
        options: Those of `cawn.read`.
    """
    target = check_path(folder, "folder")
    if not issubclass(systems.system_type(systems.name_of(config)), IndexedSystem):
        raise QueryError(f"system {systems.name_of(config)} has no index to store; use cawn or rates")
    _refuse_foreign(target)
    refuse_within(target, source)
    wanted = {"source": _fingerprint(source), "options": json.loads(json.dumps(options, default=str))}
    make_folder(target)
    with FolderLock(target, "index folder"):
        _refuse_foreign(target)
        build = _Build(target, memory, threads, report)
        build.open(wanted)
        try:
            if build.network is None:
                _check_disk_space(target, _estimated_bytes(source, config), "about ")
            events = build.events(source, options)
            if len(events) == 0:
                raise DataError(f"{source}: no links to index")
            cuts = (split or TimeSplit()).on(events)
            return build.finish(events, config, cuts, str(source))
        except CawnError:
            if build.network is None:  # nothing to continue from
                build.discard()
            raise


class _Build:
    """An index folder that is being written, under its lock."""

    def __init__(self, folder: Path, memory: int, threads: int | None, report: ShowProgress) -> None:
        self._folder, self._memory, self._threads, self._report = folder, memory, threads, report
        self.network: Events | None = None  # once its columns are written
        self._state: dict[str, Any] = {}

    def open(self, wanted: dict[str, Any]) -> None:
        """Continue after the stages that are finished, if the log and its columns are the same."""
        try:
            found = read_sealed(self._folder / BUILDING, "remove it to start over")
        except FileNotFoundError:
            found = {}
        if found and found["wanted"] != json.loads(json.dumps(wanted)):
            raise QueryError(
                f"{self._folder}: holds an unfinished index of other data or columns; choose another folder, or "
                "remove this one"
            )
        self._state = {"wanted": wanted} | ({"network": found["network"]} if "network" in found else {})
        held = self._state.get("network")
        if held is not None:
            network = self._folder / held["folder"]
            sizes = {name: stamp[0] for name, stamp in held["files"].items()}
            if all((network / name).is_file() and (network / name).stat().st_size == sizes[name] for name in sizes):
                arrays = read_arrays(network, held["files"], verify=False, remedy=READ_AGAIN)
                self.network = map_events(network, arrays, held, READ_AGAIN)
            else:
                del self._state["network"]
        self._remove_others()
        write_sealed(self._folder / BUILDING, self._state)

    def discard(self) -> None:
        """Remove the folder, which holds no finished stage."""
        with suppress(OSError):
            (self._folder / BUILDING).unlink(missing_ok=True)
            (self._folder / LOCK).unlink(missing_ok=True)
            self._folder.rmdir()

    def events(self, source: Any, options: dict[str, Any]) -> Events:
        """The links, read from the log unless that was done before."""
        if self.network is None:
            with self._new("network") as network:
                found = write_columns(source, network, limits_of(self._memory), self._report, **options)
                files = self._stamps(network)
            self._state["network"] = {"folder": network.name, "files": files} | describe_network(found)
            write_sealed(self._folder / BUILDING, self._state)
            self.network = found
        return self.network

    def finish(self, events: Events, config: Settings, cuts: TimeSplit, source: str) -> dict[str, Any]:
        """Write the index and index.json."""
        training = training_period(events, cuts)
        facts = IndexedSystem.index_facts(config, training)
        parts, attributes = config.pair_parts, config.attributes  # type: ignore[attr-defined]
        alphas, unit = tuple(map(float, facts["alpha"])), float(facts["unit"])
        counts = LinkCounts.at_most(len(events), events.num_nodes)
        _check_disk_space(self._folder, index_bytes(counts, len(alphas), parts) + temporary_bytes(counts, parts))
        with self._new("index") as index:
            release_freed_memory()
            left = self._memory - resident_bytes()
            options: dict[str, Any] = {"attributes": attributes, "threads": self._threads, "report": self._report}
            write_index(events, alphas, unit, parts, index, memory=left, **options)
            files = self._stamps(index)
        held = self._state["network"]
        content = {
            "format": FORMAT,
            "cawn": __version__,
            "source": source,
            "system": systems.name_of(config),
            "config": config.to_dict(),
            "facts": {"alpha": list(alphas), "unit": unit},
            "attributes": attributes,
            "cuts": None if cuts == TimeSplit() else cuts.to_dict(),
            "contents": _digest(events),
            "network": {name: held[name] for name in ("folder", "files")},
            "index": {"folder": index.name, "files": files},
        } | describe_network(events)
        write_sealed(self._folder / DESCRIPTION, content)
        (self._folder / BUILDING).unlink()
        return content

    @contextmanager
    def _new(self, kind: str) -> Iterator[Path]:
        """A new folder of arrays; removed on any error."""
        folder = self._folder / new_name(kind)
        with storing(folder):
            folder.mkdir()
            try:
                yield folder
                sync(folder)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise

    def _stamps(self, folder: Path) -> Manifest:
        """Size and checksum of each file."""
        with self._report("checksums"):
            return manifest_of(folder, sorted(path.name for path in folder.iterdir()))

    def _remove_others(self) -> None:
        """Remove what unfinished stages have left."""
        kept = self._state.get("network", {}).get("folder")
        for path in self._folder.iterdir():
            if FOLDER.fullmatch(path.name) and path.name != kept:
                shutil.rmtree(path, ignore_errors=True)


def training_period(events: Events, cuts: TimeSplit) -> Events:
    """The links of the training period of the transductive task."""
    return events[: cuts.bounds(events)[0]]


def _digest(events: Events) -> str:
    """What `digest_of_links` returns, computed in blocks."""
    state = hashlib.sha256()
    for name, array in sorted(events.arrays.items()):
        state.update(f"{name} {array.dtype} {array.shape}\n".encode())
        for _, (block,) in blocks(_BLOCK, array):
            state.update(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)
    return state.hexdigest()


def summary(folder: Path, *, verify: bool = False) -> dict[str, Any]:
    """What an index folder holds, as JSON-compatible values; `verify` as for `read_stored`."""
    events = read_stored(folder, verify=verify)
    assert events.stored is not None
    found, (first, last) = events.stored.description, (events.t[0].item(), events.t[-1].item())
    files = {found[kind]["folder"]: found[kind]["files"] for kind in ("network", "index")}
    return {
        "index": str(folder),
        "verified": verify,
        **{name: found[name] for name in ("links", "nodes", "reading", "system", "config", "facts", "cawn", "source")},
        "link_attributes": 0 if events.msg is None else events.msg.shape[1],
        "node_attributes": 0 if events.x is None else events.x.shape[1],
        "first": format_as_read(first, events.reading),
        "last": format_as_read(last, events.reading),
        "parts": sorted({name.split(".")[0] for name in found["index"]["files"]}),
        "files": {name: sum(stamp[0] for stamp in held.values()) for name, held in files.items()},
        "digest": found["contents"],
    }


# Checks before anything is written.


def _refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds a finished index or other files."""
    if (folder / DESCRIPTION).exists():
        raise QueryError(f"{folder}: holds an index already; use it, or choose another folder")
    refuse_foreign(folder, _is_ours)


def _is_ours(path: Path) -> bool:
    """Whether an interrupted build may have left this."""
    if path.is_dir():
        return not path.is_symlink() and FOLDER.fullmatch(path.name) is not None
    return path.name in (LOCK, BUILDING) or is_temporary(path.name)


def _check_disk_space(folder: Path, needed: int, about: str = "") -> None:
    """Refuse to start writing more bytes than the disk has left."""
    free = _free_bytes(folder)
    if needed > free:
        raise StorageError(
            f"{folder}: {free / 1e9:,.1f} GB are free on this disk, but {about}{needed / 1e9:,.1f} GB are needed; "
            "free some space, or choose a folder on another disk"
        )


def _fingerprint(source: Any) -> Any:
    """What identifies the files of a log: their names, sizes and times of change; the text of anything else."""
    return [[str(path), found.st_size, found.st_mtime_ns] for path in _files(source) for found in [path.stat()]] or str(
        source
    )


def _files(source: Any) -> list[Path]:
    """The files of a path, folder or pattern, or of a list of these."""
    if isinstance(source, list | tuple):
        return [path for each in source for path in _files(each)]
    if not isinstance(source, str | os.PathLike):
        return []
    path = Path(source)
    if path.is_dir():
        return sorted(each for each in path.rglob("*") if each.is_file())
    return [path] if path.is_file() else sorted(Path(found) for found in glob(str(path)) if Path(found).is_file())


def _estimated_bytes(source: Any, config: Settings) -> int:
    """Bytes of disk that reading and indexing plain text takes, by the length of its first lines; 0 for other files."""
    total = 0.0
    for path in _files(source):
        if path.suffix.lower() not in (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json"):
            continue
        with open(path, "rb") as file:
            sample = file.read(_SAMPLE)
        total += path.stat().st_size * sample.count(b"\n") / max(len(sample), 1)
    counts = LinkCounts.at_most(int(total), 0)
    return _PER_LINK * counts.links + index_bytes(counts, *settings_to_estimate(config))


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free
