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


@dataclass(frozen=True, slots=True)
class SubmittedLinks:
    """Columns of links, all of one length, which is checked with the values when they are submitted.

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

    def __len__(self) -> int:
        return len(self.src)

    def id_hashes(self) -> npt.NDArray[np.uint64] | None:
        """Hashes of the ids (see `hash_ids`), 0 for a link without one: [E]; None if no link has one."""
        if self.ids is None:
            return None
        if wrong := [each for each in self.ids if type(each) not in (str, int, NoneType)]:
            raise DataError(f"ids hold {brief(wrong[0])}: ids are whole numbers or strings")
        hashes = hash_ids("" if each is None else each for each in self.ids)
        hashes[[each is None for each in self.ids]] = NO_LINK_ID
        return hashes

    @property
    def num_bytes(self) -> int:
        """An estimate of their size as JSON, much faster than encoding them."""
        texts = (column for column in (self.src, self.dst, self.attributes, self.ids) if column is not None)
        return 64 + 12 * len(self.t) + sum(3 * len(column) + _text_size(column) for column in texts)


def _text_size(column: list[Any]) -> int:
    """The number of characters of a column, about: text as it is, 8 for a number, 8 for each of several attributes."""
    try:
        return len("".join(column))
    except TypeError:
        return sum(len(v) if isinstance(v, str) else 8 * len(v) if isinstance(v, list | dict) else 8 for v in column)
