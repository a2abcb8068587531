"""A history in lists, in place of a predictor, for tests of what is stored."""

from typing import NamedTuple

import numpy as np

import cawn
from cawn.data.updates import Update
from cawn.serve.links import Links


class ListHistory:
    """Adds any links whose times are numbers and whose sources are not "bad"; raises at the source "broken"."""

    def __init__(self) -> None:
        self.links: list[tuple] = []
        self.nodes: set[object] = set()
        self.ids: set[int] = set()
        self.version, self.watermark = 0, None

    @property
    def num_links(self) -> int:
        return len(self.links)

    def prepare(self, src, dst, t, *, msg=None, link_id=None) -> "Prepared":
        if "bad" in src:
            raise cawn.DataError("src holds 'bad'")
        times = np.array(t)
        if times.dtype.kind not in "if":
            raise cawn.QueryError(f"t is {t[0]!r}: give numbers")
        rows = np.argsort(times, kind="stable")
        ids = np.zeros(len(src), np.uint64) if link_id is None else link_id
        return Prepared(times[rows], rows, list(zip(src, dst, t, ids.tolist(), strict=True)))

    def knows_link_ids(self, link_id: np.ndarray) -> np.ndarray:
        return np.array([each in self.ids for each in link_id.tolist()], bool)

    def append_all(self, batches: list["Prepared"]) -> list[Update]:
        if any(row[0] == "broken" for batch in batches for row in batch.links):
            raise cawn.DataError("src holds 'broken'")
        self.version += 1
        return [self._append(batch) for batch in batches]

    def append_parts(self, batch: "Prepared", sizes: list[int]) -> list[Update]:
        parts = np.split(np.arange(len(batch.links)), np.cumsum(sizes)[:-1])
        rows = [[batch.links[i] for i in part] for part in parts]
        return self.append_all(
            [Prepared(np.array([row[2] for row in some]), np.arange(len(some)), some) for some in rows]
        )

    def _append(self, batch: "Prepared") -> Update:
        before = len(self.nodes)
        added = [row for row in batch.links if row[3] not in self.ids]
        self.links += added
        self.ids.update(row[3] for row in added if row[3])
        self.nodes.update(*((row[0], row[1]) for row in added))
        self.watermark = max([*batch.t.tolist(), *([] if self.watermark is None else [self.watermark])])
        return Update(len(added), len(batch.links) - len(added), len(self.nodes) - before)


class Prepared(NamedTuple):
    """Checked links: their times in ascending order, the row of each, and the links as they were given."""

    t: np.ndarray
    rows: np.ndarray
    links: list[tuple]


def some_links(count: int, *, first: int = 0, ids: bool = True) -> Links:
    """Links 0, 1, 2, ..., each with its number as its time and id."""
    numbers = range(first, first + count)
    names = [f"n{i % 7}" for i in numbers], [f"m{i % 11}" for i in numbers]
    return Links(*names, list(numbers), None, [f"e{i}" for i in numbers] if ids else None)
