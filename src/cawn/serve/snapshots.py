"""Snapshots of the live state, and recovery: the newest valid snapshot, then the log after it.

FOLDER/state.json              the run that the state belongs to
FOLDER/snapshots/POSITION/     a snapshot that includes the log up to this position; the two newest are kept
    snapshot.json              its position in the log, the number of links, how far sources were read, checksums
    run/                       a run folder with all links
FOLDER/log/, catalog.sqlite    the log (see `log`); segments that the older snapshot covers are removed

A copy of the folder of a stopped service is a backup; `Snapshots.backup` makes one of a running service. One can also
copy state.json, then snapshots/, then log/ of a running service; without the catalog, only the idempotency keys of
removed segments are lost. To restore, put the copy back, or start the service with it. The folder is only valid
together with its run.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cawn.checks import check_flags, check_integer, check_path, check_threads
from cawn.devices import Device, check_device, pick_device
from cawn.errors import CawnError, QueryError, StorageError, reason
from cawn.files import (
    LOCK,
    is_temporary,
    link_or_copy,
    make_folder,
    read_file,
    storing,
    sync,
    temporary_folder,
    write_text,
)
from cawn.learn.runs import load_system, read_description, read_report, read_run
from cawn.predictor import LinkPredictor
from cawn.serve.catalog import Receipt
from cawn.serve.ingest import Ingest
from cawn.serve.links import Links
from cawn.serve.log import LinkLog, Record

Progress = Callable[[int, int], object]  # links replayed so far, and in total

_FORMAT = 1
_NAME = re.compile(r"[0-9]{20}")
_REPLAYED_TOGETHER = 100_000  # links
_KEPT = 2  # snapshots

_logger = logging.getLogger(__name__)


class LiveState(NamedTuple):
    """What a restart recovers.

    Attributes:
        predictor: With all stored links.
        log: Opened and locked.
        replayed: The number of links replayed from the log.
        torn: The number of incomplete writes cut off at the end of the log: 0 or 1. They were never acknowledged.
        problems: One line for each damaged snapshot that was skipped, and each record that could not be added.
    """

    predictor: LinkPredictor
    log: LinkLog
    replayed: int
    torn: int
    problems: list[str]


def open_state(
    run: Path,
    folder: Path | None = None,
    *,
    device: Device = "auto",
    threads: int | None = None,
    verify: bool = True,
    progress: Progress | None = None,
) -> LiveState:
    """Recover the live state of a run.

    Args:
        run: The run folder. It is not changed, unless the state is kept in it; its index may be cached beside it.
        folder: Of the state; RUN/live by default. It is created if needed.
        device: As for `LinkPredictor.load`.
        threads: Likewise.
        verify: Likewise.
        progress: Called with the number of links replayed so far, and in total.

    Raises:
        StorageError: if the state is used by another process, belongs to another run, or is damaged.
    """
    run = check_path(run, "run")
    check_device(device)
    check_flags(verify=verify)
    check_threads(threads)
    folder = run / "live" if folder is None else check_path(folder, "folder")
    bind_to_run(folder, run)

    def load(source: Path) -> LinkPredictor:
        found = read_run(source, verify=verify, in_state=True)
        system = load_system(found, pick_device(device), threads, verify=verify, cache=source == run)
        return LinkPredictor.of_stored(found, system)

    log = LinkLog(folder)
    try:
        predictor, snapshot, problems = _load_newest(run, folder, log, load)
        after = 0 if snapshot is None else _position(snapshot)
        replayed = _Replay(predictor, log, problems).run(after, progress or (lambda done, total: None))
    except BaseException:
        log.close()
        raise
    for problem in problems:
        _logger.warning("%s", problem)
    if log.torn:
        _logger.warning("%s: an incomplete write at the end of the log was cut off; it was not acknowledged", folder)
    return LiveState(predictor, log, replayed, log.torn, problems)


class Snapshots:
    """Writes snapshots in the background, and removes old ones with the segments of the log they cover.

    Args:
        every: Links after which a snapshot is written; with a history of more than ten times as many links,
            a tenth of its links.
    """

    def __init__(
        self,
        predictor: LinkPredictor,
        log: LinkLog,
        ingest: Ingest,
        *,
        every: int = 500_000,
    ) -> None:
        self._predictor, self._log, self._ingest = predictor, log, ingest
        self._every = check_integer(every, "every", 1)
        self._folder = log.folder / "snapshots"
        make_folder(self._folder)
        sync(log.folder)
        self.problem = ""  # why the last snapshot failed; empty if it was written
        self._links = log.num_links(self._newest())  # since the newest snapshot
        self._one = threading.Lock()  # writing at a time
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the background thread."""
        self._stopping = False
        self._ingest.observers.append(self._count)
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)
        self._thread.start()

    def stop(self, *, write: bool = True) -> None:
        """End the background thread; by default, after a last snapshot if links were added since the newest."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            self._ingest.observers.remove(self._count)
        if write:
            self.write()

    def write(self) -> Path | None:
        """Write a snapshot now; None if nothing was stored since the newest. Links may arrive during the write."""
        with self._one:
            return self._write()

    def backup(self, target: Path) -> None:
        """Write a consistent copy of the state to a new folder; links may arrive during the copy.

        Files that never change are hard links where possible.
        """
        target = check_path(target, "target").absolute()
        if target.exists():
            raise QueryError(f"{target}: exists; give the name of a new folder")
        if target.is_relative_to(self._log.folder.absolute()):
            raise QueryError(f"{target}: lies inside the state folder; give a folder elsewhere")
        make_folder(target.parent)
        with self._one, storing(target), temporary_folder(target) as part:
            self._write()
            copy_log = self._ingest.between(self._log.copier)
            newest = self._newest()
            if newest:
                source = self._folder / _name(newest)
                shutil.copytree(source, part / "snapshots" / source.name, copy_function=link_or_copy)
            copy_log(part)
            self._copy_others(part)
            sync(part)
            part.rename(target)
            sync(target.parent)

    def _copy_others(self, target: Path) -> None:
        """Copy the other files of the folder, such as kept weights."""
        for path in self._log.folder.iterdir():
            if path.name in ("log", "snapshots", LOCK) or path.name.startswith("catalog.sqlite"):
                continue
            if path.is_dir():
                shutil.copytree(path, target / path.name, ignore=_temporary)
            elif not is_temporary(path.name):
                shutil.copyfile(path, target / path.name)
                sync(target / path.name)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._stopping:
                return
            try:
                self.write()
            except CawnError as error:
                self.problem = str(error)
                _logger.error("no snapshot was written: %s", error)
            except Exception as error:
                self.problem = reason(error)
                _logger.exception("no snapshot was written")

    def _count(self, links: Links) -> None:
        self._links += len(links)
        if self._links >= max(self._every, self._predictor.num_links // 10):
            self._links = 0
            self._wake.set()

    def _write(self) -> Path | None:
        newest = self._newest()

        def fix() -> tuple[dict[str, Any], Callable[[Path], None]] | None:
            if self._log.position <= newest:
                return None
            self._links = 0
            return _manifest(self._log, self._predictor), self._predictor.saver()

        if (fixed := self._ingest.between(fix)) is None:
            return None
        manifest, save = fixed
        self._log.store()  # once segments are removed, only the catalog has their keys
        target = self._folder / _name(manifest["position"])
        with storing(target), temporary_folder(target) as part:
            save(part / "run")
            seal = {"checksum": _checksum(manifest)}
            write_text(part / "snapshot.json", json.dumps(manifest | seal, indent=1) + "\n")
            part.rename(target)
            sync(self._folder)
        self.problem = ""
        self._remove_old()
        return target

    @property
    def age(self) -> float | None:
        """Seconds since the newest snapshot was written; None if there is none."""
        newest = self._folder / _name(self._newest())
        return time.time() - newest.stat().st_mtime if newest.is_dir() else None

    def _newest(self) -> int:
        """The position that the newest snapshot includes; 0 if there is none."""
        return max((_position(path) for path in _snapshots(self._folder)), default=0)

    def _remove_old(self) -> None:
        held = _snapshots(self._folder)
        for path in [*held[_KEPT:], *self._folder.glob("*.damaged")]:
            _remove(path)
        if len(held) >= _KEPT:
            self._log.prune(_position(held[_KEPT - 1]))


class _Replay:
    """Adds the records of a log to a predictor."""

    def __init__(self, predictor: LinkPredictor, log: LinkLog, problems: list[str]) -> None:
        self._predictor, self._log, self._problems = predictor, log, problems
        self._settled = log.settled  # the receipts of later records are not known

    def run(self, after: int, progress: Progress) -> int:
        """Add all records after a position; returns the number of their links."""
        total, done = self._log.num_links(after), 0
        self._settle_covered(after)
        voided, waiting, size = self._log.voided(after), [], 0
        progress(0, total)
        for record in self._log.replay(after):
            if record.position in voided or record.void is not None:
                continue
            waiting.append(record)
            size += len(record.links)
            if size >= _REPLAYED_TOGETHER:
                self._add(waiting)
                done, waiting, size = done + size, [], 0
                progress(done, total)
        self._add(waiting)
        progress(total, total)
        self._log.store()
        return done + size

    def _settle_covered(self, after: int) -> None:
        """Store the keys and offsets of records that a snapshot includes but the catalog does not, because it was
        removed; how many nodes they added is no longer known."""
        if self._settled < after:
            for record in self._log.replay(self._settled):
                if record.position <= after and record.void is None:
                    receipt = Receipt(len(record.links), record.duplicates, 0, self._predictor.version)
                    self._log.settle(record, receipt)

    def _add(self, records: list[Record]) -> None:
        """Add records; if some are refused, one by one."""
        if not records:
            return
        try:
            known = [record for record in records if record.position <= self._settled]
            self._add_batches([known, *([record] for record in records[len(known) :])])
        except CawnError as error:
            if len(records) == 1:
                self._refuse(records[0], error)
                return
            for record in records:
                self._add([record])

    def _add_batches(self, batches: list[list[Record]]) -> None:
        """Add batches of records together; the receipts of those that were not settled follow from the result."""
        joined = [Links.join([record.links for record in batch]) for batch in batches]
        prepared = [
            self._predictor.prepare(links.src, links.dst, links.t, msg=links.attributes, link_id=links.id_hashes())
            for links in joined
            if len(links)
        ]
        updates = iter(self._predictor.append_all(prepared))
        for batch, links in zip(batches, joined, strict=True):
            nodes_added = next(updates).nodes_added if len(links) else 0
            for record in batch:
                if record.position > self._settled:
                    receipt = Receipt(len(record.links), record.duplicates, nodes_added, self._predictor.version)
                    self._log.settle(record, receipt)

    def _refuse(self, record: Record, error: CawnError) -> None:
        """Void a record that was refused before the process was killed; a record that was acknowledged must not be."""
        problem = f"{self._log.folder}: record {record.position:,} of the log cannot be added ({error})"
        if record.position <= self._settled:
            raise StorageError(problem) from error
        self._problems.append(f"{problem}; it was not acknowledged")
        self._log.append([Record(Links([], [], []), void=record.position)])


def bind_to_run(folder: Path, run: Path) -> None:
    """Create the folder of a state, or refuse one that belongs to another run."""
    path = folder / "state.json"
    identity = _identity(run, in_state=path.exists())
    try:
        found = json.loads(read_file(path))["run"]
    except FileNotFoundError:
        make_folder(folder)
        write_text(path, json.dumps({"format": _FORMAT, "run": identity}) + "\n")
        return
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{path}: damaged ({reason(error)}); restore it from a backup") from error
    if found != identity:
        raise StorageError(
            f"{folder}: belongs to another run, or the links or weights of {run} were changed since; give another "
            "state folder, or move this one away"
        )


def _identity(run: Path, *, in_state: bool) -> str:
    """A digest of the links and weights of a run; `in_state` as for `read_description`."""
    found, finished = read_description(run, in_state=in_state), (run / "report.json").exists()
    report = read_report(run) if finished else {}
    network = found["network"]["files"]
    content = [found["system"], found["facts"], network, report.get("weights"), report.get("served_weights")]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _load_newest(
    run: Path, folder: Path, log: LinkLog, load: Callable[[Path], LinkPredictor]
) -> tuple[LinkPredictor, Path | None, list[str]]:
    """The predictor of the newest valid snapshot, or of the run itself; damaged snapshots are set aside."""
    problems: list[str] = []
    for path in _snapshots(folder / "snapshots"):
        if _position(path) > log.position:
            raise StorageError(
                f"{folder / 'log'}: ends at record {log.position:,}, but {path} includes {_position(path):,}; restore "
                "the log from a backup"
            )
        try:
            return _load_snapshot(path, log, load), path, problems
        except StorageError as error:
            problems.append(f"the snapshot {path} was skipped: {error}")
            with suppress(OSError):
                path.rename(path.with_name(f"{path.name}.damaged"))
    if log.first > 1:
        problem = f"{folder}: no valid snapshot, and the log begins at record {log.first:,}; restore it from a backup"
        raise StorageError("; ".join([problem, *problems]))
    return load(run), None, problems


def _load_snapshot(path: Path, log: LinkLog, load: Callable[[Path], LinkPredictor]) -> LinkPredictor:
    manifest, position = _read_manifest(path), _position(path)
    if manifest["log"] != log.id.hex() or manifest["position"] != position:
        raise StorageError(f"{path}: belongs to another log")
    if log.first > position + 1:
        raise StorageError(f"{path}: the log begins later, at record {log.first:,}")
    if log.settled < position:
        log.adopt_offsets(manifest.get("offsets", {}))  # the catalog was removed, and the records may be pruned
    predictor = load(path / "run")
    if predictor.num_links != manifest["links"]:
        raise StorageError(f"{path}: has {predictor.num_links:,} links, expected {manifest['links']:,}")
    return predictor


def _manifest(log: LinkLog, predictor: LinkPredictor) -> dict[str, Any]:
    """What a snapshot of the present state includes."""
    content = {"format": _FORMAT, "log": log.id.hex(), "position": log.position}
    return content | {"links": predictor.num_links, "offsets": log.offsets}


def _read_manifest(path: Path) -> dict[str, Any]:
    where = path / "snapshot.json"
    try:
        found: dict[str, Any] = json.loads(read_file(where))
        if found.pop("checksum") != _checksum(found) or found["format"] != _FORMAT:
            raise ValueError("checksum")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError(f"{where}: missing or damaged ({reason(error)})") from error
    return found


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _snapshots(folder: Path) -> list[Path]:
    """The folders of all snapshots, newest first."""
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if _NAME.fullmatch(path.name)), reverse=True)


def _name(position: int) -> str:
    return f"{position:020d}"


def _position(path: Path) -> int:
    return int(path.name)


def _temporary(_: str, names: list[str]) -> list[str]:
    return [name for name in names if is_temporary(name)]


def _remove(path: Path) -> None:
    """Remove a snapshot; its manifest goes first, so that an incomplete snapshot is never used."""
    with suppress(OSError):
        (path / "snapshot.json").unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)
