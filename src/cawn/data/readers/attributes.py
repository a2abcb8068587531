"""Columns of attributes, read piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cawn.data.attributes import MAX_CODES, Attribute
from cawn.data.readers.tables import PLAIN_KINDS, TableColumn
from cawn.errors import DataError

Array = npt.NDArray[Any]
Codes = dict[str, int]  # of the levels of a category in all files, in the order in which they are seen

_PER_LEVEL = 200  # bytes of a level of a category, about


class ReadAgainError(Exception):
    """A column of the file is of another kind than its beginning looked like: the log must be read again."""


class AttributeReader:
    """A column of attributes in one file: numbers, or categories.

    A column of text is a category unless it begins with a number: then all must be numbers. In a text file, where
    nothing else distinguishes them, a column without a single word is no category either.
    """

    def __init__(
        self,
        of: str,
        codes: Codes,
        reserve: Callable[[int], object] = lambda _: None,
        *,
        given: bool,
        untyped: bool,
        known: bool = False,
    ) -> None:
        """`of` is "link" or "node".

        Args:
            reserve: Called with the bytes that further codes are about to use.
            given: Whether the user says that it is a category.
            untyped: Whether it is a column of a text file.
            known: Whether an earlier attempt to read the file has found that it is a category.
        """
        self.is_category: bool | None = True if given or known else None
        self._codes, self._reserve, self._untyped = codes, reserve, untyped
        self._rule = f"{of} attributes are finite numbers, unless the column is named in categorical"
        self._name, self._booleans = "", False
        self._plain = PLAIN_KINDS if untyped and not given else ()  # the types of which all values are
        self._refusal: DataError | None = None  # if they are

    def add(self, column: TableColumn) -> Array:
        """The values of a piece as float32, [n]."""
        self._name = column.name
        if self.is_category is None:
            self._booleans = self._untyped and column.holds_booleans()
            self.is_category = column.is_category() and not self._booleans
        if self.is_category:
            if self._plain:
                words = column.without_empty()
                self._plain = tuple(kind for kind in self._plain if words.fits(kind))
                self._refusal = self._refusal or column.refusal(self._rule)
            return self._encoded(column)
        if self._booleans and not column.fits(pa.bool_()):
            self.is_category = True
            raise ReadAgainError
        return column.numbers(self._rule, booleans=self._booleans)

    def _encoded(self, column: TableColumn) -> Array:
        indices, levels = column.categories()
        before = len(self._codes)
        codes = np.array([self._codes.setdefault(level, len(self._codes)) for level in levels], np.float32)
        if len(self._codes) > MAX_CODES:
            raise column.too_many(len(self._codes))
        self._reserve(_PER_LEVEL * (len(self._codes) - before))
        return np.asarray(codes[indices])

    def finish(self) -> Attribute:
        """What the column holds, called when the whole file is read."""
        if self._plain and self._refusal:
            raise self._refusal
        return Attribute(self._name, "category", tuple(self._codes)) if self.is_category else Attribute(self._name)
