"""The columns of a log as they are while it is read: in the order of the input, with provisional numbers for names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cawn.data.attributes import MAX_CODES, Attribute
from cawn.data.events import NO_NEGATIVE
from cawn.data.external.files import ColumnFile
from cawn.data.external.names import DESTINATION, NEGATIVE, SOURCE, NameTable
from cawn.data.external.pieces import LinkFile, Piece, TextLinks
from cawn.data.external.times import FileTimes
from cawn.data.readers.tables import ATTRIBUTE_RULE, Origin, TableColumn, refuse_difference
from cawn.data.readers.text import parse_ends
from cawn.data.reading import Reading
from cawn.errors import DataError, QueryError

Array = npt.NDArray[Any]

_PER_LEVEL = 200  # bytes of a level of a category, about
_RULE = ATTRIBUTE_RULE.format(of="link")


class NamesAreTextError(Exception):
    """Names of a file that were read as integers, such as 7.0, are strings after all: the log must be read again."""


@dataclass
class Budget:
    """The memory that names and categories may use."""

    limit: int
    used: int = 0
    share: float = 0.0  # of the log that is read

    def reserve(self, size: int) -> None:
        """Called before so many bytes are used."""
        self.used += size
        if self.used > self.limit:
            needed = int(2 * self.used / max(self.share, 0.01)) >> 20
            raise QueryError(
                f"the distinct node names in the first {self.share:.0%} of the log need more memory than the limit "
                f"leaves for them; set memory to about {needed:,} MiB"
            )


@dataclass(frozen=True, slots=True)
class FilePart:
    """What is known of a file once it is read."""

    reading: Reading
    origin: Origin
    has_dates: bool


@dataclass
class Category:
    """The codes of a column of categories, in the order in which the levels are seen."""

    reserve: Callable[[int], None]
    codes: dict[str, int] = field(default_factory=dict)

    def encode(self, column: TableColumn) -> Array:
        values, levels = column.categories()
        before = len(self.codes)
        new = np.array([self.codes.setdefault(level, len(self.codes)) for level in levels], np.float32)
        if len(self.codes) > MAX_CODES:
            raise column.too_many(len(self.codes))
        self.reserve(_PER_LEVEL * (len(self.codes) - before))
        return new[values.astype(np.int64)] if len(new) else values


class Scan:
    """Reads files one after the other and appends their columns to files of columns."""

    def __init__(self, folder: Path, first: LinkFile, budget: Budget) -> None:
        layout = first.layout
        self.files = {"src": ColumnFile(folder / "src.npy", np.int32), "dst": ColumnFile(folder / "dst.npy", np.int32)}
        self.files["t"] = ColumnFile(folder / "t.npy", np.int64)
        if layout.msg:
            self.files["msg"] = ColumnFile(folder / "msg.npy", np.float32, len(layout.msg))
        kinds = {"weight": np.float32, "negative": np.int32, "link_id": np.uint64}
        for role in layout.optional:
            self.files[role] = ColumnFile(folder / f"{role}.npy", kinds[role])
        self.bipartite = bool(first.reading.bipartite)
        self.prefixes = first.prefixes
        self.tables = [NameTable(budget.reserve) for _ in range(1 + self.bipartite)]
        self.parts: list[FilePart] = []
        self.times: list[FileTimes] = []
        self.columns: tuple[Attribute, ...] = ()
        self._categories = [Category(budget.reserve) for _ in layout.msg]

    @property
    def rows(self) -> int:
        return self.files["src"].rows

    def add(self, links: LinkFile, size: int, on_piece: Callable[[Piece], None], *, text_names: bool = False) -> None:
        """Read a file in pieces of about `size` bytes.

        Args:
            on_piece: Called after each piece.
            text_names: Whether names of a text file are known to be strings, even if they look like integers at first.
        """
        if self.parts:
            self._refuse_columns(links)
        reader = _FileReader(self, links, text_names)
        for piece in links.pieces(size):
            reader.add(piece)
            on_piece(piece)
        part = reader.finish()
        if self.parts:
            refuse_difference(self.parts[0], part)
        else:
            self.columns = reader.attributes()
        self.parts.append(part)

    def encode(self, at: int, column: TableColumn) -> Array:
        """Codes of the categories in attribute `at`."""
        return self._categories[at].encode(column)

    def levels(self, at: int) -> tuple[str, ...]:
        return tuple(self._categories[at].codes)

    def _refuse_columns(self, links: LinkFile) -> None:
        """Refuse other columns before the file is read, as far as they are known."""
        first, msg = self.parts[0], links.reading.msg
        if links.zeros_mean_none and len(msg) == len(self._categories):
            msg = first.reading.msg
        reading = replace(links.reading, categorical=first.reading.categorical, msg=msg)
        refuse_difference(first, FilePart(reading, links.origin(0), first.has_dates))


class _FileReader:
    """Appends the pieces of one file."""

    def __init__(self, scan: Scan, links: LinkFile, text_names: bool) -> None:
        self._scan, self._links, self._layout = scan, links, links.layout
        self._integers = isinstance(links, TextLinks) and not text_names  # whether all names so far are
        self._times = FileTimes(links, scan.files["t"])
        self._kinds: list[str | None] = [
            "category" if i in self._layout.categorical else None for i in self._layout.msg
        ]
        self._rows, self._any_msg, self._any_weight = 0, False, False

    def add(self, piece: Piece) -> None:
        """Append a piece."""
        if len(piece.table) == 0:
            return
        layout, files, first = self._layout, self._scan.files, piece.first
        origin = self._links.origin(first)
        ends = self._ends(piece.table, origin)
        files["src"].append(self._scan.tables[0].add(ends[0].names(), SOURCE))
        files["dst"].append(self._scan.tables[-1].add(ends[1].names(), DESTINATION))
        self._times.add(TableColumn.at(piece.table, layout.time, origin))
        if layout.weight is not None:
            weights = self._number_column(piece, layout.weight, origin).weights(all_rows=False)
            self._any_weight = self._any_weight or bool(weights.any())
            files["weight"].append(weights)
        if layout.negative is not None:
            files["negative"].append(self._negatives(ends[2], len(piece.table)))
        if layout.link_id is not None:
            files["link_id"].append(TableColumn.at(piece.table, layout.link_id, origin).link_ids())
        if layout.msg:
            msg = np.stack([self._attribute(at, piece, origin) for at in range(len(layout.msg))], axis=1)
            self._any_msg = self._any_msg or bool(msg.any())
            files["msg"].append(msg)
        self._rows += len(piece.table)

    def finish(self) -> FilePart:
        """What is known now that all pieces are appended."""
        links, origin = self._links, self._links.origin(0)
        if self._rows == 0:
            raise DataError(f"{origin.name}: no rows; expected at least one link")
        self._times.finish()
        if self._layout.weight is not None and not self._any_weight:
            empty = pa.chunked_array([], pa.float64())
            raise TableColumn(empty, links.names[self._layout.weight], origin).no_weight()
        self._scan.times.append(self._times)
        kinds = zip(links.reading.msg, self._kinds, strict=True)
        reading = replace(links.reading, categorical=tuple(column for column, kind in kinds if kind == "category"))
        if links.zeros_mean_none and not self._any_msg:
            reading = replace(reading, msg=(), categorical=())
        return FilePart(reading, origin, self._times.has_dates)

    def attributes(self) -> tuple[Attribute, ...]:
        """What msg holds, without the levels of categories."""
        names = [self._links.names[i] for i in self._layout.msg]
        return tuple(
            Attribute(name, "category" if kind == "category" else "number")
            for name, kind in zip(names, self._kinds, strict=True)
        )

    def _ends(self, table: pa.Table, origin: Origin) -> list[TableColumn]:
        """Sources, destinations and perhaps negatives; those of a text file are integers only if all of them are."""
        layout = self._layout
        positions = [i for i in (layout.src, layout.dst, layout.negative) if i is not None]
        columns = [TableColumn.at(table, i, origin) for i in positions]
        if not self._integers:
            return columns
        integers = parse_ends([column.values for column in columns])
        if integers is not None:
            return [replace(column, values=values) for column, values in zip(columns, integers, strict=True)]
        self._integers = False
        if self._rows and any(_has_point_zero(self._links, i, self._rows) for i in positions):
            raise NamesAreTextError
        return columns

    def _negatives(self, column: TableColumn, count: int) -> Array:
        names, rows = column.negatives()
        found = np.full(count, NO_NEGATIVE, np.int32)
        found[rows] = self._scan.tables[-1].add(names, NEGATIVE)
        return found

    def _attribute(self, at: int, piece: Piece, origin: Origin) -> Array:
        """One column of attributes as float32."""
        i = self._layout.msg[at]
        column = TableColumn.at(piece.table, i, origin)
        if self._kinds[at] is None:
            column = self._number_column(piece, i, origin)
            self._kinds[at] = "category" if column.is_category() else "number"
            if self._kinds[at] == "category":
                self._links.read_as_text(i)
        elif self._kinds[at] == "number":
            column = self._number_column(piece, i, origin)
        return self._scan.encode(at, column) if self._kinds[at] == "category" else column.numbers(_RULE)

    def _number_column(self, piece: Piece, i: int, origin: Origin) -> TableColumn:
        """A column read as numbers, unless the type guessed from the whole file is text."""
        column = TableColumn.at(piece.table, i, origin)
        if not isinstance(self._links, TextLinks) or _is_decided(column):
            return column
        kind = self._links.guessed_type(i)
        if pa.types.is_string(kind):
            self._links.read_as_text(i)
            assert piece.parse is not None
            return TableColumn.at(piece.parse(), i, origin)
        return (
            replace(column, values=pa.chunked_array([pa.nulls(len(column.values), kind)]))
            if (pa.types.is_null(column.type))
            else replace(column, values=column.values.cast(kind))
        )


def _is_decided(column: TableColumn) -> bool:
    """Whether one piece already decides between numbers and categories: a missing number may be a category without a
    name, if a later piece has text."""
    kind = column.type
    whole = (pa.types.is_integer(kind) or pa.types.is_float64(kind)) and column.values.null_count == 0
    return bool(whole or pa.types.is_large_string(kind))


def _has_point_zero(links: LinkFile, at: int, rows: int) -> bool:
    """Whether one of the first names of a column is an integer written like 7.0."""
    import pyarrow.compute as pc

    for first, names in links.column(at, pa.string()):
        if first >= rows:
            return False
        if pc.any(pc.ends_with(names, ".0")).as_py():
            return True
    return False
