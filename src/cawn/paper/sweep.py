"""Run an experiment: make the measurements that have no result yet, in parallel."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cawn.data.events import Events
from cawn.devices import pick_device
from cawn.errors import DataError, QueryError
from cawn.files import FolderInUseError, make_folder
from cawn.learn.arguments import check_writable
from cawn.learn.reporting import format_duration
from cawn.learn.run_info import current_versions
from cawn.learn.runs import digest_of_links
from cawn.learn.shared_links import share_links
from cawn.paper.experiments import Experiment, Request
from cawn.paper.measurements import Measurement, Task, measure
from cawn.paper.results import Result, Results, refuse_damaged
from cawn.studies.jobs import Job, Outcome, threads_of_each
from cawn.studies.study import Claims, Display, Study
from cawn.studies.tables import device_name

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
        with Claims(self.folder) as claims:
            alone = self.experiment.alone or not self.experiment.shared
            if alone and not claims.take(self.experiment.name):
                name = self.experiment.name
                raise FolderInUseError(f"{self.folder}: another process makes {name}; wait until it ends")
            return self._run()

    def _run(self) -> list[str]:
        self._device = str(pick_device(self.device))
        self._digests = {name: digest_of_links(events) for name, events in self.networks.items()}
        self._failed: list[str] = []
        self._first: dict[str, Measurement] = {}  # by key; some measurements are planned twice
        self._labels: dict[str, list[str]] = {}  # of the others
        if self.experiment.alone:
            self.jobs = min(self.jobs, 1)
        self._threads = threads_of_each(self.jobs, self.threads)
        self._results = Results.read(self.folder)
        self._check_links()
        request = Request(
            self.networks, self.seeds, self._results, self.changes, self.systems, self.trials, self._device
        )
        with refuse_damaged(self.folder, "of earlier sweeps"):
            planned = self.experiment.plan(request)
        total = len(set(map(self._key, planned))) if isinstance(planned, list) else self.experiment.total(request)
        display = Display(self.experiment.name, total, "measurement", quiet=self.quiet)
        again = "run the same command again to continue"
        with TemporaryDirectory(prefix="cawn-") as self._temporary, display:
            study = Study[Measurement](self.folder, display, self.jobs, self._threads, again)
            study.run(self._distinct(planned), self._job, self._ended, self._reported)
        with suppress(OSError):  # it contains what failed or was interrupted
            (self.folder / WORK).rmdir()
        return self._failed

    def _key(self, measurement: Measurement) -> str:
        return measurement.key(self._digests)

    def _check_links(self) -> None:
        """Refuse results of another version of a network, and files that would be overwritten."""
        for name, digest in self._digests.items():
            self._results.check_writable(name)
            known = self._results.about.get(name, {}).get("digest", digest)
            if known != digest:
                raise QueryError(f"{self.folder}: has results for a different version of {name}; give another folder")

    def _distinct(self, planned: Iterable[Measurement]) -> Iterator[tuple[str, Measurement]]:
        """The measurements by their keys; of those that are planned twice, the first."""
        for measurement in planned:
            key = self._key(measurement)
            if self._first.setdefault(key, measurement) is measurement:
                yield key, measurement
            elif (result := self._results.get(measurement.network, key)) is not None:
                self._results.use(result, measurement.label)
                self.experiment.ended(measurement, result)
            else:
                self._labels.setdefault(key, []).append(measurement.label)
                self.experiment.ended(measurement, None)

    def _job(self, measurement: Measurement) -> Job | None:
        """The job of a measurement; None if there is a result."""
        key = self._key(measurement)
        self._results.refresh(measurement.network)
        if (result := self._results.get(measurement.network, key)) is not None:
            for label in (measurement.label, *self._labels.pop(key, [])):
                self._results.use(result, label)
            self.experiment.ended(measurement, result)
            return None
        links = {name: share_links(self._temporary, name, self.networks[name]) for name in measurement.networks}
        task = Task(
            measurement.network,
            dict(measurement.settings),
            links,
            self._device,
            self._threads,
            (self.folder / WORK / key).absolute(),
        )
        return Job(
            str(measurement), measure, (measurement.kind, task), errors=task.folder.with_name(f"{key}.error.txt")
        )

    def _reported(self, measurement: Measurement, value: Any, stop: Callable[[], object]) -> float | None:
        self.experiment.reported(measurement, value, stop)
        share: float | None = value.get("done")
        return share

    def _ended(self, measurement: Measurement, outcome: Outcome) -> str:
        key, value = self._key(measurement), outcome.value
        if outcome.stopped:
            value = self.experiment.stopped(measurement)
        elif outcome.failure is not None:
            self._failed.append(f"{measurement}: {outcome.failure}")
            self.experiment.ended(measurement, None)
            return self._failed[-1]
        result = Result(
            key=key,
            network=measurement.network,
            kind=measurement.kind,
            settings=dict(measurement.settings),
            labels=list(dict.fromkeys([measurement.label, *self._labels.pop(key, [])])),
            value=value,
            seconds=round(outcome.seconds, 1),
            command=self.command,
            versions=current_versions(),
            device=device_name(self._device),
            links=self._digests[measurement.network],
        )
        self._results.add(result, self._about(measurement.network))
        shutil.rmtree(self.folder / WORK / key, ignore_errors=True)
        self.experiment.ended(measurement, result)
        return f"{measurement}: {format_duration(outcome.seconds)}"

    def _about(self, network: str) -> dict[str, Any]:
        events = self.networks[network]
        return {"digest": self._digests[network], "links": len(events), "nodes": events.num_nodes}


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
