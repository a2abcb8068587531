"""Run an experiment: make the measurements that have no result yet, in parallel."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cawn.data.events import Events
from cawn.devices import pick_device
from cawn.errors import DataError, QueryError
from cawn.files import FolderLock, make_folder, write_text
from cawn.learn.experiments import check_writable
from cawn.learn.field.table import device_name
from cawn.learn.reporting import format_duration
from cawn.learn.run_info import current_versions
from cawn.learn.runs import digest_of_links
from cawn.learn.workers import Call, Outcome, Workers, call_here
from cawn.paper.experiments import Experiment, Request, counted
from cawn.paper.measurements import Measurement
from cawn.paper.results import Result, Results, refuse_damaged
from cawn.progress import Report, progress

WORK = "unfinished"  # folder of measurements that were interrupted


@dataclass
class Sweep:
    """The measurements of one experiment."""

    experiment: Experiment
    networks: Mapping[str, Events]
    folder: Path
    seeds: int
    command: str
    device: str = "auto"
    jobs: int = 0
    threads: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    systems: tuple[str, ...] | None = None
    trials: int | None = None
    quiet: bool = False

    def run(self) -> list[str]:
        """Make the measurements; returns a line for each that failed, with the reason."""
        check_writable(self.folder)
        make_folder(self.folder)
        self._device = str(pick_device(self.device))
        self._digests = {name: digest_of_links(events) for name, events in self.networks.items()}
        self._running: dict[Call, tuple[Measurement, str, float]] = {}
        self._shares: dict[str, float] = {}
        self._failed: list[str] = []
        self._made, self._start = 0, time.monotonic()
        self._other_labels: dict[str, list[str]] = {}  # of measurements that are planned twice
        if self.experiment.alone:
            self.jobs = min(self.jobs, 1)
        with FolderLock(self.folder):
            self._results = Results.read(self.folder)
            self._check_links()
            request = Request(
                self.networks, self.seeds, self._results, self.changes, self.systems, self.trials, self._device
            )
            with refuse_damaged(self.folder, "of earlier sweeps"):
                planned = self.experiment.plan(request)
            total = self._count(planned) if isinstance(planned, list) else self.experiment.total(request)
            self._waiting = self._count(planned, made=False) if isinstance(planned, list) else total
            try:
                with (
                    Workers(max(self.jobs, 1), self.threads) as workers,
                    progress(self.experiment.name, total or 0, quiet=self.quiet or not total) as report,
                ):
                    self._measure(workers, iter(planned), report)
            except KeyboardInterrupt:
                self._say("stopped; run the same command again to continue")
                raise
            with suppress(OSError):  # it contains what failed or was interrupted
                (self.folder / WORK).rmdir()
        return self._failed

    def _count(self, planned: list[Measurement], *, made: bool = True) -> int:
        """The number of distinct measurements, including those made before if `made`."""
        keys = {(one.network, one.key(self._digests)) for one in planned}
        return len([key for key in keys if made or self._results.get(*key) is None])

    def _check_links(self) -> None:
        """Refuse results of another version of a network, and files that would be overwritten."""
        for name, digest in self._digests.items():
            self._results.check_writable(name)
            known = self._results.about.get(name, {}).get("digest", digest)
            if known != digest:
                raise QueryError(f"{self.folder}: has results for a different version of {name}; give another folder")

    def _measure(self, workers: Workers, planned: Iterator[Measurement], report: Report) -> None:
        def reported(call: Call, value: Any) -> None:
            measurement, key, _ = self._running[call]
            if "done" in value:
                self._shares[key] = value["done"]
                report(sum(self._shares.values()))
            self.experiment.reported(measurement, value, partial(workers.stop, call))

        def ended(call: Call, outcome: Outcome) -> None:
            measurement, key, start = self._running.pop(call)
            self._shares[key] = 1.0
            report(sum(self._shares.values()))
            self._made += 1
            self._end(measurement, key, outcome, time.monotonic() - start)

        calls = self._calls(workers, planned)
        if self.jobs > 0:
            workers.run(calls, ended, reported)
            return
        for call in calls:
            ended(call, call_here(call, partial(reported, call)))

    def _calls(self, workers: Workers, planned: Iterator[Measurement]) -> Iterator[Call]:
        """The calls of the measurements without a result."""
        done = 0
        for measurement in planned:
            key = measurement.key(self._digests)
            if (result := self._results.get(measurement.network, key)) is not None:
                done += key not in self._shares  # else made just now
                self._shares[key] = 1.0
                self._results.use(result, measurement.label)
                self.experiment.ended(measurement, result)
                continue
            if key in self._shares:  # planned twice
                self._other_labels.setdefault(key, []).append(measurement.label)
                self.experiment.ended(measurement, None)
                continue
            if done:
                self._say(f"reusing {counted(done, 'result')}")
                done = 0
            links = {name: workers.share(name, self.networks[name]) for name in measurement.networks}
            arguments = {
                "kind": measurement.kind,
                "network": measurement.network,
                "settings": dict(measurement.settings),
                "links": links,
                "device": self._device,
                "threads": workers.threads if self.jobs > 0 else self.threads,
                "folder": str((self.folder / WORK / key).absolute()),
            }
            call = Call(str(measurement), "cawn.paper.measurements:measure", arguments)
            self._running[call] = measurement, key, time.monotonic()
            self._shares[key] = 0.0
            yield call
        if done:
            self._say(f"reusing {counted(done, 'result')}")

    def _end(self, measurement: Measurement, key: str, outcome: Outcome, seconds: float) -> None:
        work, value = self.folder / WORK / key, outcome.value
        if outcome.stopped:
            value = self.experiment.stopped(measurement)
        elif outcome.failure is not None:
            self._failed.append(f"{measurement}: {outcome.failure}")
            self._say(f"{measurement}: {outcome.failure}")
            if outcome.errors:
                make_folder(work.parent)
                write_text(work.with_name(f"{key}.error.txt"), outcome.errors + "\n")
            self.experiment.ended(measurement, None)
            return
        result = Result(
            key=key,
            network=measurement.network,
            kind=measurement.kind,
            settings=dict(measurement.settings),
            labels=list(dict.fromkeys([measurement.label, *self._other_labels.get(key, [])])),
            value=value,
            seconds=round(seconds, 1),
            command=self.command,
            versions=current_versions(),
            device=device_name(self._device),
            links=self._digests[measurement.network],
        )
        self._results.add(result, self._about(measurement.network))
        shutil.rmtree(work, ignore_errors=True)
        self._say(f"{measurement}: {format_duration(seconds)}{self._left()}")
        self.experiment.ended(measurement, result)

    def _left(self) -> str:
        """How many are made, and an estimate of the time left."""
        if self._waiting is None:
            return ""
        remaining = self._waiting - self._made
        seconds = (time.monotonic() - self._start) / self._made * remaining
        left = f"; about {format_duration(seconds)} left" if remaining > 0 else ""
        return f" ({self._made} of {self._waiting}{left})"

    def _about(self, network: str) -> dict[str, Any]:
        events = self.networks[network]
        return {"digest": self._digests[network], "links": len(events), "nodes": events.num_nodes}

    def _say(self, text: str) -> None:
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)


def load_networks(names: Sequence[str] | None, default: tuple[str, ...] | None) -> dict[str, Events]:
    """The links of the named datasets; without names, of those in `default` or the catalog that need no download."""
    from cawn.data import datasets

    if names is not None:
        return {name: datasets.load(name) for name in names}
    found = {}
    for name in default or tuple(datasets.CATALOG):
        if datasets.where(name) is not None:
            found[name] = datasets.load(name)
    if not found:
        raise DataError("no dataset is available locally: download one with 'cawn datasets download NAME'")
    return found
