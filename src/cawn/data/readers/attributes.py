"""Columns of attributes, read piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cawn.data.attributes import MAX_CODES, Attribute
from cawn.data.readers.tables import PLAIN_KINDS, TableColumn
from cawn.data.readers.times import ReadAgainError
from cawn.errors import DataError

Array = npt.NDArray[Any]

_PER_LEVEL = 200  # bytes of a level of a category, about


@dataclass(slots=True)
class Category:
    """The codes of a column of categories in all files, in the order in which the levels are seen."""

    reserve: Callable[[int], object] = lambda _: None  # called with the bytes that are about to be used
    codes: dict[str, int] = field(default_factory=dict)

    def encode(self, column: TableColumn) -> Array:
        values, levels = column.categories()
        before = len(self.codes)
        new = np.array([self.codes.setdefault(level, len(self.codes)) for level in levels], np.float32)
        if len(self.codes) > MAX_CODES:
            raise column.too_many(len(self.codes))
        self.reserve(_PER_LEVEL * (len(self.codes) - before))
        return new[values.astype(np.int64)] if len(new) else values


class AttributeReader:
    """A column of attributes in one file: numbers, or categories.

    A column of text is a category unless it begins with a number: then all must be numbers. In a text file, where
    nothing else distinguishes them, a column without a single word is no category either.
    """

    def __init__(self, category: Category, of: str, *, given: bool, known: bool, untyped: bool) -> None:
        """`of` is "link" or "node".

        Args:
            given: Whether the user says that it is a category.
            known: Whether an earlier attempt to read the file has found that it is one.
            untyped: Whether it is a column of a text file.
        """
        self.kind: str | None = "category" if given or known else None
        self.name = ""
        self._category, self._untyped = category, untyped
        self._rule = f"{of} attributes are finite numbers, unless the column is named in categorical"
        self._booleans = False
        self._plain = PLAIN_KINDS if untyped and not given else ()  # the types of which all values are
        self._refusal: DataError | None = None  # if they are

    def add(self, column: TableColumn) -> Array:
        """The values of a piece as float32, [n]."""
        if self.kind is None:
            self._booleans = self._untyped and column.holds_booleans()
            self.kind = "category" if column.is_category() and not self._booleans else "number"
        self.name = column.name
        if self.kind == "category":
            if self._plain:
                words = column.without_empty()
                self._plain = tuple(kind for kind in self._plain if words.fits(kind))
                self._refusal = self._refusal or column.refusal(self._rule)
            return self._category.encode(column)
        if self._booleans and not column.fits(pa.bool_()):
            raise ReadAgainError
        return column.numbers(self._rule, booleans=self._booleans)

    def finish(self) -> Attribute:
        """What the column holds, called when the whole file is read."""
        if self._plain and self._refusal:
            raise self._refusal
        return Attribute(self.name, "category") if self.kind == "category" else Attribute(self.name)
