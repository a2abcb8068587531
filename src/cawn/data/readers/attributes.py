"""Columns of attributes, read piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cawn.data.attributes import MAX_CODES, Attribute
from cawn.data.readers.tables import PLAIN_KINDS, TableColumn
from cawn.errors import DataError

Array = npt.NDArray[Any]

_PER_LEVEL = 200  # bytes of a level of a category, about


class ReadAgainError(Exception):
    """A column of the file is of another kind than its beginning looked like: the log must be read again."""


@dataclass(slots=True)
class AttributeReader:
    """A column of attributes in one file: numbers, or categories.

    A column of text is a category unless it begins with a number: then all must be numbers. In a text file, where
    nothing else distinguishes them, a column without a single word is no category either.
    """

    of: str  # "link" or "node"
    codes: dict[str, int]  # of the levels of a category in all files, in the order in which they are seen
    given: bool  # whether the user says that it is a category
    untyped: bool  # whether it is a column of a text file
    is_category: bool | None = None  # as an earlier attempt to read the file has found
    reserve: Callable[[int], object] = lambda _: None  # called with the bytes that further codes are about to use
    _name: str = ""
    _booleans: bool = False
    _plain: tuple[pa.DataType, ...] = PLAIN_KINDS  # the types of which all values are
    _refusal: DataError | None = None  # if they are

    def __post_init__(self) -> None:
        self.is_category = self.given or self.is_category
        if self.given or not self.untyped:
            self._plain = ()

    def add(self, column: TableColumn) -> Array:
        """The values of a piece as float32, [n]."""
        self._name = column.name
        if self.is_category is None:
            self._booleans = self.untyped and column.holds_booleans()
            self.is_category = column.is_category() and not self._booleans
        rule = f"{self.of} attributes are finite numbers, unless the column is named in categorical"
        if self.is_category:
            if self._plain:
                words = column.without_empty()
                self._plain = tuple(kind for kind in self._plain if words.fits(kind))
                self._refusal = self._refusal or column.refusal(rule)
            return self._encoded(column)
        if self._booleans and not column.fits(pa.bool_()):
            self.is_category = True
            raise ReadAgainError
        return column.numbers(rule, booleans=self._booleans)

    def _encoded(self, column: TableColumn) -> Array:
        indices, levels = column.categories()
        before = len(self.codes)
        codes = np.array([self.codes.setdefault(level, len(self.codes)) for level in levels], np.float32)
        if len(self.codes) > MAX_CODES:
            raise column.too_many(len(self.codes))
        self.reserve(_PER_LEVEL * (len(self.codes) - before))
        return np.asarray(codes[indices])

    def finish(self) -> Attribute:
        """What the column holds, called when the whole file is read."""
        if self._plain and self._refusal:
            raise self._refusal
        return Attribute(self._name, "category", tuple(self.codes)) if self.is_category else Attribute(self._name)
