"""Links as they arrive: columns of plain Python values, never one object for each link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.events import NO_LINK_ID
from cawn.data.hashing import hash_ids
from cawn.data.names import Name
from cawn.errors import DataError, brief

Time = int | float | str  # a number in the data's unit, or a date in ISO format
Attributes = float | str | None | list[Any] | Mapping[str, Any]  # of one link: one value, a list, or values by name
COLUMNS = ("src", "dst", "t", "attributes", "ids")


@dataclass(frozen=True, slots=True)
class Links:
    """Columns of links, all of one length. The values are checked by the predictor, not here.

    Args:
        src: Names of the sources.
        dst: Names of the destinations.
        t: Times: numbers in the data's unit, or ISO dates.
        attributes: The attributes of each link, if the data has any.
        ids: The ids of the links; None for a link without an id. A link whose id is known is a duplicate.
    """

    src: list[Name]
    dst: list[Name]
    t: list[Time]
    attributes: list[Attributes] | None = None
    ids: list[str | int | None] | None = None

    def __post_init__(self) -> None:
        sizes = {}
        for name in COLUMNS:
            column = getattr(self, name)
            if column is None and name in ("attributes", "ids"):
                continue
            if not isinstance(column, list):
                raise DataError(f"{name} is {brief(column)}: give a list with one value for each link")
            sizes[name] = len(column)
        if len(set(sizes.values())) > 1:
            counts = ", ".join(f"{size:,} {name}" for name, size in sizes.items())
            raise DataError(f"found {counts}: give as many of each")

    def __len__(self) -> int:
        return len(self.src)

    def __getitem__(self, chosen: slice) -> Links:
        """The links of a slice."""
        return Links.from_columns({name: column[chosen] for name, column in self.to_columns().items()})

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Links:
        """Links given as columns under the names of the fields; other keys are ignored."""
        if missing := [name for name in ("src", "dst", "t") if name not in columns]:
            raise DataError(f"the column {missing[0]} is missing: links need src, dst and t")
        return cls(*(columns.get(name) for name in COLUMNS))  # type: ignore[arg-type]

    def to_columns(self) -> dict[str, list[Any]]:
        """The columns that are present, by name."""
        return {name: column for name, column in zip(COLUMNS, self._columns(), strict=True) if column is not None}

    def id_hashes(self) -> npt.NDArray[np.uint64] | None:
        """Hashes of the ids (see `hash_ids`), 0 for a link without one: [E]; None if no link has one."""
        if self.ids is None:
            return None
        kinds = set(map(type, self.ids))
        if not kinds <= {str, int, NoneType}:
            wrong = next(each for each in self.ids if type(each) not in (str, int, NoneType))
            raise DataError(f"ids hold {brief(wrong)}: ids are whole numbers or strings")
        if NoneType not in kinds:
            return hash_ids(self.ids)
        hashes = hash_ids("" if each is None else each for each in self.ids)
        hashes[[each is None for each in self.ids]] = NO_LINK_ID
        return hashes

    @property
    def num_bytes(self) -> int:
        """An estimate of their size as JSON, much faster than encoding them."""
        texts = (column for column in (self.src, self.dst, self.attributes, self.ids) if column is not None)
        return 64 + 12 * len(self.t) + sum(3 * len(column) + _text_size(column) for column in texts)

    def _columns(self) -> tuple[list[Any] | None, ...]:
        return self.src, self.dst, self.t, self.attributes, self.ids


def _text_size(column: list[Any]) -> int:
    """The number of characters of a column, about: text as it is, 8 for a number, 8 for each of several attributes."""
    try:
        return len("".join(column))
    except TypeError:
        return sum(len(v) if isinstance(v, str) else 8 * len(v) if isinstance(v, list | dict) else 8 for v in column)
