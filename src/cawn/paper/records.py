"""Every number of every training as one tidy list of records, and the statistics of tables: means over seeds with
intervals, and differences paired by seed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

from cawn.errors import QueryError, StorageError, brief
from cawn.learn.results import Mean
from cawn.paper.published import in_order
from cawn.paper.results import Result, ResultStore

METRICS = ("auc", "ap", "auc_batch30", "ap_batch30", "mrr")
MODEL = ""  # the scorer that was trained


class MetricRecord(NamedTuple):
    """A metric of one run on one kind of test links."""

    network: str  # tested on
    trained_on: str
    label: str  # the role of the run, without task and seed
    task: str
    seed: int
    links: str
    negatives: str
    clock: str
    scorer: str  # `MODEL`, or the name of a baseline
    metric: str
    value: float
    split: str  # digest
    digest: str  # of the links of the network
    run: Result


def tidy(run: Result) -> Iterator[MetricRecord]:
    """The records of a run, under each of its labels; none for measurements that test no system."""
    if run.kind in ("training", "shapes"):
        yield from _records(run, run.network, run.links, run.value["rows"])
    for network, test in run.value["tests"].items() if run.kind == "transfer" else ():
        yield from _records(run, network, test["links"], [row | {"split": test["split"]} for row in test["rows"]])


def _records(run: Result, network: str, digest: str, rows: list[dict[str, Any]]) -> Iterator[MetricRecord]:
    task, seed = run.settings["task"], run.settings["seed"]
    labels = [label.removesuffix(f", {task}, seed {seed}") for label in run.labels]
    for row in rows:
        where = row.get("links", "all"), row["negatives"], row.get("clock", "strict")
        for scorer, figures in ({row.get("scorer", MODEL): row} | row.get("baselines", {})).items():
            for metric in METRICS:
                if (value := figures.get(metric)) is not None:
                    _check(run, metric, value)
                    for label in labels:
                        at = network, run.network, label, task, seed, *where
                        yield MetricRecord(*at, scorer, metric, value, row["split"], digest, run)


def _check(run: Result, metric: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise StorageError(f"{run.name}: {metric} is {brief(value)}, not between 0 and 1; remove this result")


class BySeed(dict[int, float]):
    """A quantity by seed, as a fraction; as text, its mean in percent ± half the width of its 95 % interval."""

    @cached_property
    def _mean(self) -> Mean:
        return Mean.of(list(self.values()))

    @property
    def mean(self) -> float:
        """In percent."""
        return 100 * self._mean.mean

    @property
    def half(self) -> float | None:
        """Half the width of the interval; None for a single seed."""
        return 100 * (self._mean.half or 0.0) if len(self) > 1 else None

    @property
    def interval(self) -> str:
        """Half the width of the interval as text; empty for a single seed."""
        return f"± {self.half:.2f}" if len(self) > 1 else ""

    def __str__(self) -> str:
        return f"{self._mean}" if self else ""

    @property
    def signed(self) -> str:
        """As text with a sign, for differences."""
        return f"{self._mean:+}" if self else ""

    def __sub__(self, other: Mapping[int, float]) -> BySeed:
        """The difference for the seeds that both have."""
        return BySeed({seed: self[seed] - other[seed] for seed in sorted(self.keys() & other.keys())})

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes zero, for differences; never for a single seed."""
        return self.half is not None and abs(self.mean) > self.half

    @property
    def verdict(self) -> str:
        """Whether a difference confirms the claim that it is positive."""
        if not self:
            return "not measured"
        if not self.is_clear:
            return "undecided"
        return "confirmed" if self.mean > 0 else "contradicted"

    @staticmethod
    def average(quantities: Iterable[Mapping[int, float]]) -> BySeed:
        """The mean of several quantities, for the seeds that all of them have."""
        found = list(quantities)
        seeds = set.intersection(*map(set, found)) if found else set[int]()
        return BySeed({seed: fmean(one[seed] for one in found) for seed in sorted(seeds)})


class Groups(dict[tuple[Any, ...], BySeed]):
    """Quantities by the values of some columns; empty where there is no record."""

    def __missing__(self, key: tuple[Any, ...]) -> BySeed:
        return BySeed()

    def best(self, *end: Any) -> float | None:
        """The highest mean among the quantities whose key ends so."""
        return max((found.mean for key, found in self.items() if key[len(key) - len(end) :] == end), default=None)


class Records(list[MetricRecord]):
    """Some records, and the results that they are part of."""

    def __init__(self, results: ResultStore, records: Iterable[MetricRecord] | None = None) -> None:
        super().__init__(records if records is not None else (one for run in results.all() for one in tidy(run)))
        self.results = results

    def where(self, **wanted: Any) -> Records:
        """Those with these values; a tuple stands for any of its values."""
        allowed = [(name, value if isinstance(value, tuple) else (value,)) for name, value in wanted.items()]
        return Records(self.results, [r for r in self if all(getattr(r, name) in value for name, value in allowed)])

    def labelled(self, *starts: str) -> Records:
        """Those whose label is one of these, or begins with one and a comma, in this order. Refuses several splits."""
        places = {
            label: place
            for label in {record.label for record in self}
            for place, start in enumerate(starts)
            if f"{label}, ".startswith(f"{start}, ")
        }
        found = sorted((r for r in self if r.label in places), key=lambda record: places[record.label])
        check_comparable({(id(r.run), r.network): r for r in found}.values())
        return Records(self.results, found)

    @property
    def runs(self) -> list[Result]:
        """The runs, each once."""
        return list({id(record.run): record.run for record in self}.values())

    @property
    def networks(self) -> list[str]:
        """The networks tested on: those of the paper in its order, then the others."""
        return in_order({record.network for record in self})

    def by(self, *columns: str) -> Groups:
        """By these columns, the values by seed; the records may differ in nothing else."""
        found, runs = Groups(), dict[tuple[Any, ...], Result]()
        for record in self:
            place = tuple(getattr(record, name) for name in columns)
            if runs.setdefault((*place, record.seed), record.run) is not record.run:
                name = record.run.name
                raise QueryError(f"{name}: two results with the same seed cannot be averaged; remove one of them")
            found.setdefault(place, BySeed())[record.seed] = record.value
        return found

    def seeds(self) -> BySeed:
        """The values by seed; the records may differ in nothing else."""
        return self.by()[()]


def first_run(records: Records, label: str) -> Result | None:
    """The run of a label that others are compared with.

    Sweeps begin with the lowest seed, so that one is from the latest.
    """
    found = records.where(label=label)
    return min(found, key=lambda record: record.seed).run if found else None


def comparable(records: Records, base: str, changed: Callable[[MetricRecord], Collection[str]]) -> Records:
    """The records of runs whose settings equal those of the first run with the label `base`, except for the changed.

    Other runs are left from earlier sweeps, for example with the settings of an earlier grid search.
    """
    first = first_run(records, base)
    config = {} if first is None else first.settings["config"]

    def same(record: MetricRecord) -> bool:
        other = record.run.settings["config"]
        return all(other.get(name) == config.get(name) for name in {*config, *other} - set(changed(record)))

    return Records(records.results, [record for record in records if first is not None and same(record)])


def main_settings(run: Result) -> str:
    """The settings that the paper's grid search varies, as text."""
    names = {"M": "num_walks", "m": "length", "alpha": "alpha", "learning rate": "lr"}
    values = {symbol: run.settings["config"][name] for symbol, name in names.items()}
    return ", ".join(f"{name} = {v if isinstance(v, str) else format(v, 'g')}" for name, v in values.items())


def check_comparable(records: Iterable[MetricRecord]) -> None:
    """Refuse records of different links, or of different splits for one task and seed.

    Transductive splits do not depend on the seed; inductive ones do, because the seed draws the hidden nodes.
    """
    seen: dict[tuple[Any, ...], tuple[str, str]] = {}
    for r in records:
        how = r.run.settings["protocol"], r.run.settings["ties"], r.seed if r.task == "inductive" else None
        for what, place, digest in (("links", (), r.digest), ("splits", (r.task, *how), r.split)):
            label, known = seen.setdefault((what, r.network, *place), (r.run.name, digest))
            if known != digest:
                raise QueryError(
                    f"{label!r} and {r.run.name!r} have different {what} ({known[:12]}, {digest[:12]}) and cannot be "
                    "averaged or compared; remove one of them from the results"
                )
