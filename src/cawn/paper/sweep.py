"""Run an experiment: make the measurements that have no result yet, in parallel."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any

from cawn.data.events import Events
from cawn.errors import DataError, QueryError
from cawn.files import FolderInUseError, make_folder
from cawn.learn.arguments import check_writable
from cawn.learn.reporting import format_duration
from cawn.learn.run_info import current_versions
from cawn.learn.runs import digest_of_links
from cawn.learn.shared_links import share_links
from cawn.paper.experiments import Experiment, Request
from cawn.paper.measurements import Measurement, Work, measure
from cawn.paper.results import Result
from cawn.studies.jobs import Job, Outcome, threads_of_each
from cawn.studies.study import Claims, Display, Study
from cawn.studies.tables import device_name

WORK = "unfinished"  # folder of measurements that were interrupted


def sweep(experiment: Experiment, request: Request, command: str) -> list[str]:
    """Make the measurements of an experiment; returns a line for each that failed, with the reason."""
    folder = request.results.folder
    check_writable(folder)
    make_folder(folder)
    with Claims(folder) as claims:
        if experiment.alone and not claims.take(experiment.name):
            raise FolderInUseError(f"{folder}: another process makes {experiment.name}; wait until it ends")
        made = Sweep(experiment.name, request, command, min(request.jobs, 1) if experiment.alone else request.jobs)
        return experiment.make(request, made.run, made.save)


@dataclass
class Sweep:
    """The measurements of one experiment."""

    name: str
    request: Request
    command: str
    jobs: int
    _failed: list[str] = field(default_factory=list)
    _labels: dict[str, list[str]] = field(default_factory=dict)  # by key; some measurements are planned twice

    def __post_init__(self) -> None:
        self._folder, self._results = self.request.results.folder, self.request.results
        self._threads = threads_of_each(self.jobs, self.request.threads)
        self._digests = {name: digest_of_links(events) for name, events in self.request.networks.items()}
        for name, digest in self._digests.items():
            self._results.check_writable(name)
            known = self._results.about.get(name, {}).get("digest", digest)
            if known != digest:
                raise QueryError(f"{self._folder}: has results for a different version of {name}; give another folder")

    def run(self, planned: list[Measurement]) -> list[str]:
        """Make those that have no result; see `sweep`."""
        parts: dict[str, Measurement] = {}
        for one in planned:
            parts.setdefault(self._key(one), one)
            self._labels.setdefault(self._key(one), []).append(one.label)
        display = Display(self.name, len(parts), "measurement", quiet=self.request.quiet)
        with TemporaryDirectory(prefix="cawn-") as self._temporary, display:
            again = "run the same command again to continue"
            study = Study[Measurement](self._folder, display, self.jobs, self._threads, again)
            study.run(parts.items(), self._job, self._ended, _share)
        with suppress(OSError):  # it contains what failed or was interrupted
            (self._folder / WORK).rmdir()
        return self._failed

    def save(self, measurement: Measurement, value: Any, seconds: float) -> None:
        """Add a result."""
        key, network = self._key(measurement), measurement.network
        result = Result(
            key=key,
            network=network,
            kind=measurement.kind,
            settings=dict(measurement.settings),
            labels=list(dict.fromkeys(self._labels.get(key, [measurement.label]))),
            value=value,
            seconds=round(seconds, 1),
            command=self.command,
            versions=current_versions(),
            device=device_name(self.request.device),
            links=self._digests[network],
        )
        events = self.request.networks[network]
        about = {"digest": self._digests[network], "links": len(events), "nodes": events.num_nodes}
        self._results.add(result, about)

    def _key(self, measurement: Measurement) -> str:
        return measurement.key(self._digests)

    def _job(self, measurement: Measurement) -> Job | None:
        """The job of a measurement; None if there is a result."""
        key = self._key(measurement)
        self._results.refresh(measurement.network)
        if (result := self._results.get(measurement.network, key)) is not None:
            self._results.use(result, list(dict.fromkeys(self._labels[key])))
            return None
        links = {name: share_links(self._temporary, name, self.request.networks[name]) for name in measurement.networks}
        folder = (self._folder / WORK / key).absolute()
        work = Work(measurement.network, dict(measurement.settings), links, self.request.device, self._threads, folder)
        errors = folder.with_name(f"{key}.error.txt")
        return Job(str(measurement), measure, (measurement.kind, work), errors=errors)

    def _ended(self, measurement: Measurement, outcome: Outcome) -> str:
        if outcome.failure is not None:
            self._failed.append(f"{measurement}: {outcome.failure}")
            return self._failed[-1]
        self.save(measurement, outcome.value, outcome.seconds)
        shutil.rmtree(self._folder / WORK / self._key(measurement), ignore_errors=True)
        return f"{measurement}: {format_duration(outcome.seconds)}"


def _share(measurement: Measurement, value: dict[str, float], stop: Callable[[], object]) -> float | None:
    return value.get("done")


def load_networks(names: Sequence[str] | None, default: tuple[str, ...] | None) -> dict[str, Events]:
    """The links of the named datasets; without names, of those in `default` or the catalog that need no download."""
    from cawn.data import datasets

    if names is not None:
        return {name: datasets.load(name) for name in names}
    known = default or tuple(datasets.CATALOG)
    found = {name: datasets.load(name) for name in known if datasets.where(name) is not None}
    if not found:
        raise DataError("no dataset is available locally: download one with 'cawn datasets download NAME'")
    return found
