"""A history in lists, in place of a predictor, for tests of what is stored."""

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

    def check_links(self, src, dst, t, *, msg=None) -> np.ndarray:
        if "bad" in src:
            raise cawn.DataError("src holds 'bad'")
        times = np.array(t)
        if len(times) and times.dtype.kind not in "if":
            raise cawn.QueryError(f"t is {t[0]!r}: give numbers")
        return times

    def knows_link_ids(self, link_id: np.ndarray) -> np.ndarray:
        return np.array([each in self.ids for each in link_id.tolist()], bool)

    def append(self, src, dst, t, *, msg=None, link_id=None) -> Update:
        if "broken" in src:
            raise cawn.DataError("src holds 'broken'")
        before, ids = len(self.nodes), [0] * len(src) if link_id is None else link_id.tolist()
        rows = zip(src, dst, t, ids, strict=True)
        added = [row for row in rows if row[3] not in self.ids]
        self.links += added
        self.ids.update(row[3] for row in added if row[3])
        self.nodes.update(*((row[0], row[1]) for row in added))
        self.version += 1
        self.watermark = max([*t, *([] if self.watermark is None else [self.watermark])])
        return Update(len(added), len(src) - len(added), len(self.nodes) - before)


def some_links(count: int, *, first: int = 0, ids: bool = True) -> Links:
    """Links 0, 1, 2, ..., each with its number as its time and id."""
    numbers = range(first, first + count)
    names = [f"n{i % 7}" for i in numbers], [f"m{i % 11}" for i in numbers]
    return Links(*names, list(numbers), None, [f"e{i}" for i in numbers] if ids else None)
