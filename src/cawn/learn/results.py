"""Results of tests as one tidy table, and the tables that are made of it."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from cawn.errors import QueryError
from cawn.learn.metrics import mean_and_interval

Row = dict[str, Any]
Key = tuple[Any, ...]

METRICS = {"auc": "AUC", "ap": "AP", "mrr": "MRR", "hits@10": "Hits@10"}
METRICS |= {
    f"{name}_batch{size}": f"{METRICS[name]} (batches of {size})" for name in ("auc", "ap") for size in (30, 200)
}
MAIN = ("auc", "ap", "mrr")
_ABOUT = ("task", "seed", "links", "negatives", "protocol", "clock", "split", "count")


class Results(Sequence[Row]):
    """One row for each metric of each system on each kind of test links and of negatives, for each seed.

    A row has system, baseline (whether it is a baseline of another system's test), task, seed, links, negatives,
    protocol, clock, split (its digest), count (of links), metric and value. `results.pivot()` is a table of means.

    `tests` has the same figures as in results.json, one entry for each kind of links and negatives, with further facts:
    the share of negatives that are random instead, digests, the reliability of probabilities.
    """

    def __init__(self, tests: Iterable[Row], rows: Iterable[Row] | None = None) -> None:
        self.tests = tuple(tests)
        self._rows = tuple(_rows(self.tests) if rows is None else rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Results) and (self.tests, self._rows) == (other.tests, other._rows)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(cls, each: Iterable[Results]) -> Results:
        """The results of several runs."""
        return cls(test for found in each for test in found.tests)

    @classmethod
    def stored(cls, tests: list[Row]) -> Results:
        """The results in a file; ValueError, KeyError, TypeError or AttributeError if these are not results."""
        found = cls(tests)
        texts = all(isinstance(row[key], str) for row in found for key in ("system", "task", "links", "negatives"))
        numbers = all(isinstance(row[key], int | float) for row in found for key in ("seed", "count", "value"))
        if not texts or not numbers or not all(isinstance(test["fallback"], int | float) for test in tests):
            raise ValueError("not results")
        return found

    def where(self, **wanted: Any) -> Results:
        """The rows that have these values; a tuple stands for any of its values."""
        if unknown := [key for key in wanted if self._rows and key not in self._rows[0]]:
            raise QueryError(f"results have no column {unknown[0]!r}: there are {', '.join(self._rows[0])}")
        among = {key: value if isinstance(value, tuple) else (value,) for key, value in wanted.items()}

        def holds(row: Row, keys: Iterable[str]) -> bool:
            return all(row[key] in values for key, values in among.items() if key in keys)

        tests = (test for test in self.tests if holds(test, _ABOUT))
        return Results(tests, (row for row in self._rows if holds(row, row)))

    def values(self, key: str) -> list[Any]:
        """The distinct values of a column, in the order of the rows."""
        return list(dict.fromkeys(row[key] for row in self._rows))

    def by_seed(self) -> dict[int, float]:
        """The value for each seed, where all else is the same."""
        (found,) = _by_seed(self._rows, ()).values()
        return found

    def means(self, *keys: str) -> dict[Key, Mean]:
        """The mean over seeds for each combination of these columns."""
        return {key: Mean.of(list(values.values())) for key, values in _by_seed(self._rows, keys).items()}

    def gain(self, over: Results) -> Mean:
        """The mean of the differences to other results with the same seeds, where all else is the same."""
        ours, theirs = self.by_seed(), over.by_seed()
        return Mean.of([ours[seed] - theirs[seed] for seed in ours])

    def mean_rows(self) -> list[Row]:
        """The means over seeds as rows of JSON-compatible values."""
        keys = ("system", "baseline", *(key for key in _ABOUT if key not in ("seed", "split", "count")), "metric")
        return [dict(zip(keys, key, strict=True)) | mean.to_dict() for key, mean in self.means(*keys).items()]

    def pivot(
        self, rows: Sequence[str] = (), columns: Sequence[str] = ("metric", "negatives"), metrics: Sequence[str] = MAIN
    ) -> Pivot:
        """A table of means over seeds.

        Args:
            rows: The columns of these results that tell rows of the table apart; by default links and system, and what
                else differs.
            columns: Those that tell its columns apart.
            metrics: The metrics, those of them that there are.
        """
        chosen = [row for metric in metrics for row in self._rows if row["metric"] == metric]
        found = Results((), chosen)
        differing = [key for key in ("task", "protocol", "clock") if key not in columns and len(found.values(key)) > 1]
        names = tuple(rows) or (*differing, "links", "system")
        cells = found.means(*names, *columns)
        return Pivot(
            names,
            list(dict.fromkeys(key[: len(names)] for key in cells)),
            list(dict.fromkeys(key[len(names) :] for key in cells)),
            {(key[: len(names)], key[len(names) :]): mean for key, mean in cells.items()},
        )

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame."""
        return _pandas().DataFrame(list(self._rows))

    def _repr_html_(self) -> str:
        return self.pivot()._repr_html_()

    def __repr__(self) -> str:
        return f"<Results: {len(self._rows)} rows; systems {', '.join(map(str, self.values('system')))}>"


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean over seeds, and half of its 95 % confidence interval."""

    mean: float
    half: float | None  # None for a single seed
    std: float | None
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        mean, half = mean_and_interval(values)
        several = len(values) > 1
        return cls(mean, half if several else None, float(np.std(values, ddof=1)) if several else None, len(values))

    def to_dict(self) -> Row:
        """As JSON-compatible values."""
        return {"mean": self.mean, "half": self.half, "seeds": self.seeds}

    def __format__(self, sign: str) -> str:
        """In percent; `sign` is "" or "+"."""
        return f"{100 * self.mean:{sign}.2f}" + ("" if self.half is None else f" ± {100 * self.half:.2f}")


@dataclass(frozen=True)
class Pivot:
    """A table of means over seeds, in percent."""

    names: Key  # of the columns that tell its rows apart
    rows: list[Key]
    columns: list[Key]
    cells: dict[tuple[Key, Key], Mean]

    def best(self, column: Key) -> float:
        """The largest mean of a column."""
        return max(self.cells[row, column].mean for row in self.rows if (row, column) in self.cells)

    def cell(self, row: Key, column: Key) -> str:
        """A mean as text; the best of a column is bold, as in Markdown."""
        found = self.cells.get((row, column))
        if found is None:
            return ""
        return f"**{found}**" if found.mean == self.best(column) and len(self.rows) > 1 else f"{found}"

    @property
    def headings(self) -> list[str]:
        """The headings of the columns with means."""
        return [" ".join(METRICS.get(part, str(part)) for part in column) for column in self.columns]

    def to_markdown(self) -> str:
        """As a table in Markdown."""
        return markdown_table([*map(str, self.names), *self.headings], self._lines(), words=len(self.names))

    def to_pandas(self) -> Any:
        """The means as a pandas DataFrame."""
        means = [
            [self.cells[row, column].mean if (row, column) in self.cells else np.nan for column in self.columns]
            for row in self.rows
        ]
        pandas = _pandas()
        index = pandas.MultiIndex.from_tuples(self.rows, names=self.names)
        return pandas.DataFrame(means, index=index, columns=self.headings)

    def _lines(self) -> list[list[str]]:
        return [[*map(str, row), *(self.cell(row, column) for column in self.columns)] for row in self.rows]

    def _repr_html_(self) -> str:
        lines = [[*map(str, self.names), *self.headings], *self._lines()]
        cells = ("".join(f"<td>{_bold(cell)}</td>" for cell in line) for line in lines)
        return f"<table>{''.join(f'<tr>{line}</tr>' for line in cells)}</table>"

    __str__ = to_markdown


def main_metric(results: Results) -> str:
    """AP or, for links that are only ranked, MRR."""
    return "ap" if any(row["metric"] == "ap" for row in results) else "mrr"


def markdown_table(headings: list[str], rows: list[list[str]], words: int = 1) -> str:
    """A table whose first columns are words and whose others are numbers."""
    lines = [headings, ["---"] * words + ["---:"] * (len(headings) - words), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def _bold(cell: str) -> str:
    text = html.escape(cell)
    return f"<b>{text.strip('*')}</b>" if text.startswith("**") else text


def _rows(tests: Iterable[Row]) -> Iterator[Row]:
    """The rows of tests; a baseline with the name of the system itself is marked."""
    for test in tests:
        about = {key: test[key] for key in _ABOUT}
        named = {name if name != test["system"] else f"{name} (baseline)": name for name in test["baselines"]}
        figures = {test["system"]: test["model"]} | {shown: test["baselines"][name] for shown, name in named.items()}
        for system, found in figures.items():
            for metric, value in found.items():
                row = {"system": system, "baseline": system in named, **about, "metric": metric, "value": value}
                yield row


def _by_seed(rows: Iterable[Row], keys: Sequence[str]) -> dict[Key, dict[int, float]]:
    """The value for each seed in each group of rows; a group has one value for each, and one split if it is not of
    hidden nodes."""
    groups: dict[Key, dict[int, Row]] = {}
    for row in rows:
        group = groups.setdefault(tuple(row[key] for key in keys), {})
        other = group.setdefault(row["seed"], row)
        first = next(iter(group.values()))
        differing = [key for key in row if row[key] != other[key] and key not in keys and key != "value"]
        if other["value"] != row["value"] or (row["task"] == "transductive" and first["split"] != row["split"]):
            what = differing or ["value" if first["split"] == row["split"] else "split"]
            raise QueryError(f"results that differ in {what[0]} cannot be averaged; choose some with where()")
    return {key: {seed: row["value"] for seed, row in group.items()} for key, group in groups.items()}


def _pandas() -> Any:
    try:
        import pandas  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise QueryError("this needs pandas: pip install pandas") from error
    return pandas
