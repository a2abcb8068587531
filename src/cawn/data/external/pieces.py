"""Files of links in pieces of bounded size."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from cawn.data.external.tables import read_pieces, whole_schema
from cawn.data.readers import files
from cawn.data.readers.columns import Layout, ReadOptions, find_layout, partition_columns
from cawn.data.readers.dialect import check_utf8, line_of
from cawn.data.readers.files import LONGEST_LINE, TOO_LONG, File
from cawn.data.readers.tables import Origin
from cawn.data.readers.text import TextFile, csv_options, spaced, text_columns, text_origin, with_partitions
from cawn.data.reading import Reading
from cawn.errors import DataError, brief, reason

Result = TypeVar("Result")

_BREAK = re.compile(rb"\r\n|\r|\n")
_PARSED_AT_ONCE = 1 << 20  # bytes that one thread parses
_GUESSES = (  # the types that Arrow tries for a column of text, in this order
    *(pa.null(), pa.int64(), pa.bool_(), pa.date32(), pa.time32("s")),
    *(pa.timestamp(unit, zone) for unit in ("s", "ns") for zone in (None, "UTC")),
    *(pa.float64(), pa.string()),
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive rows of a file."""

    table: pa.Table  # the needed columns
    first: int  # row
    done: float  # bytes of the file that are read
    parse: Callable[[], pa.Table] | None = None  # again, with the types that are known now


class LinkFile(ABC):
    """A file of links.

    Attributes:
        layout: Of the tables of its pieces.
        names: Of their columns.
        reading: As far as it is known before the file is read.
    """

    file: File
    layout: Layout
    names: list[str]
    reading: Reading
    prefixes: tuple[str, str]
    zeros_mean_none = False

    @abstractmethod
    def pieces(self, size: int) -> Iterator[Piece]:
        """All rows, in pieces of about `size` bytes."""

    @abstractmethod
    def column(self, at: int, kind: pa.DataType) -> Iterator[tuple[int, pa.ChunkedArray]]:
        """One column read again, in pieces: the first row of each, and the values; those of text as this type."""

    @abstractmethod
    def origin(self, first: int) -> Origin:
        """For messages about rows counted from row `first` of the file."""

    def read_as_text(self, at: int) -> None:  # noqa: B027
        """Read a column as text from now on, where its type would be guessed."""


def open_links(file: File, options: ReadOptions) -> LinkFile:
    """Look at the beginning of a file."""
    if file.kind == "text" or options.delimiter is not None:
        return TextLinks(TextFile.open(file, options))
    return TableLinks(file, options)


# Text.


class TextLinks(LinkFile):
    """Text. Types are guessed for each piece, but for those columns that are known to be text."""

    def __init__(self, text: TextFile) -> None:
        self._text, self.file = text, text.file
        self._needed = text.layout.needed
        self.layout, self.reading = text.layout.narrowed(), text.reading
        self.names = [text.dialect.columns[i] for i in self._needed]
        self.zeros_mean_none = text.zeros_mean_none
        self.prefixes = text.layout.prefixes
        self._own = [f"{i}" for i in self._needed if i < len(text.dialect.names)]
        self._texts = tuple(text_columns(text.layout))
        self._size = 1 << 22
        self._guessed: dict[int, pa.DataType] = {}

    @property
    def is_authors(self) -> bool:
        return self._text.is_authors

    def origin(self, first: int) -> Origin:
        return text_origin(self.file, self._text.dialect, first)

    def read_as_text(self, at: int) -> None:
        name = f"{self._needed[at]}"
        if name not in self._texts:
            self._texts = (*self._texts, name)

    def pieces(self, size: int) -> Iterator[Piece]:
        self._size = size
        first = 0
        for block, done, texts, table in prefetch(self._parsed()):
            if table is None or texts != self._texts:
                table = self._table(block, first)
            again = lambda block=block, first=first: self._table(block, first)  # noqa: E731
            yield Piece(table, first, done, again)
            first += len(table)

    def _parsed(self) -> Iterator[tuple[bytes, float, tuple[str, ...], pa.Table | None]]:
        """Blocks and their tables; None where something is wrong, and it is not known yet at which row."""
        for block, done in self._blocks():
            texts = self._texts
            try:
                yield block, done, texts, self._complete(self._parse(block, self._own, texts), texts)
            except pa.ArrowInvalid:
                yield block, done, texts, None

    def column(self, at: int, kind: pa.DataType) -> Iterator[tuple[int, pa.ChunkedArray]]:
        first, position = 0, self._needed[at]
        for block, _ in self._blocks():
            if position >= len(self._text.dialect.names):
                rows = len(self._parse(block, ["0"], ["0"]))
                values = pa.chunked_array([files.constant(dict(self.file.partitions)[self.names[at]], rows)])
            else:
                table = self._checked(block, first, [f"{position}"], {f"{position}": kind})
                values = self._trimmed(table).column(0)
            yield first, values
            first += len(values)

    def guessed_type(self, at: int) -> pa.DataType:
        """The type that Arrow would guess for a column of the whole file."""
        if at not in self._guessed:
            self._guessed[at] = self._guess(at)
        return self._guessed[at]

    def _guess(self, at: int) -> pa.DataType:
        name = f"{self._needed[at]}"
        if self._needed[at] >= len(self._text.dialect.names):
            return files.constant(dict(self.file.partitions)[self.names[at]], 0).type
        kinds = list(_GUESSES)
        for block, _ in self._blocks():
            kinds = [kind for kind in kinds if self._fits(block, name, kind)]
        return kinds[0]

    def _fits(self, block: bytes, name: str, kind: pa.DataType) -> bool:
        try:
            self._parse(block, [name], {name: kind})
        except pa.ArrowInvalid:
            return bool(pa.types.is_string(kind))
        return True

    # Blocks of whole lines.

    def _blocks(self) -> Iterator[tuple[bytes, float]]:
        """Whole rows without the lines before them, and how many bytes of the file are read so far."""
        skip, dialect = self._text.dialect.skip, self._text.dialect
        with self._damage_reported(), open(self.file.path, "rb") as raw:
            stream = pa.CompressedInputStream(raw, self.file.compression) if self.file.compression else raw
            for block in _whole_rows(spaced(stream, self.file, dialect), self._size, str(self.file)):
                if skip:
                    block, skip = _without_lines(block, skip)
                if block.strip():
                    yield block, raw.tell()

    @contextmanager
    def _damage_reported(self) -> Iterator[None]:
        try:
            yield
        except (OSError, EOFError, UnicodeError) as error:
            raise DataError(f"{self.file}: is damaged ({reason(error)}); download or write the file again") from error

    # Parsing.

    def _table(self, block: bytes, first: int) -> pa.Table:
        """The needed columns; an error names the row."""
        return self._complete(self._checked(block, first, self._own, self._texts), self._texts)

    def _complete(self, table: pa.Table, texts: Iterable[str]) -> pa.Table:
        text = self._text
        table = with_partitions(self._trimmed(table), self.file, text.dialect, text.layout, list(texts))
        return table.rename_columns(self.names)

    def _trimmed(self, table: pa.Table) -> pa.Table:
        if self._text.dialect.padded:
            for i, name in enumerate(table.column_names):
                if pa.types.is_string(table.column(i).type):
                    table = table.set_column(i, name, pc.utf8_trim_whitespace(table.column(i)))
        return table

    def _checked(self, block: bytes, first: int, needed: list[str], types: Any) -> pa.Table:
        """Columns of a block; DataError if they cannot be read."""
        with self._damage_reported():
            try:
                return self._parse(block, needed, types)
            except pa.ArrowInvalid:
                pass
            check_utf8(self.file)  # else Arrow cannot say which row is ragged
            return self._parse_slowly(block, first, needed)

    def _parse_slowly(self, block: bytes, first: int, needed: list[str]) -> pa.Table:
        """All as text; finds ragged rows."""
        ragged: list[Any] = []

        def remember(row: Any) -> str:
            ragged.append(row) if not ragged else None
            return "skip"

        try:
            table = self._parse(block, needed, needed, remember)
        except pa.ArrowInvalid as error:
            why = reason(error)
            if "straddl" in why:
                raise DataError(f"{self.file}: {TOO_LONG}") from error
            raise DataError(f"{self.file}: cannot be read as text ({why[:100]}); is it UTF-8?") from error
        if ragged:
            row = ragged[0]
            line = line_of(self.file, self._text.dialect, first + row.number - 1)
            fields = f"found {row.actual_columns} fields, expected {row.expected_columns}"
            raise DataError(f"{self.file}, line {line}: {fields}: {brief(row.text[:60])}")
        return table

    def _parse(self, block: bytes, needed: list[str], types: Any, on_ragged: Any = None) -> pa.Table:
        """Columns of a block; `types` are those that are not guessed, or the names of those that are text."""
        types = types if isinstance(types, dict) else dict.fromkeys(types, pa.string())
        types = {name: kind for name, kind in types.items() if name in needed}
        if on_ragged is None:
            try:
                return csv.read_csv(pa.BufferReader(block), **self._options(needed, types))
            except pa.ArrowInvalid:
                if b'"' not in block and len(block) < _PARSED_AT_ONCE:
                    raise
        whole = self._options(needed, types, on_ragged, max(len(block) + 1, 1024))
        return csv.read_csv(pa.BufferReader(block), **whole)

    def _options(
        self, needed: list[str], types: dict[str, pa.DataType], on_ragged: Any = None, whole: int | None = None
    ) -> dict[str, Any]:
        """`whole`: the size of the block, if line breaks may be quoted, so that it is parsed by one thread."""
        options = csv_options(self._text.dialect, needed, [], on_ragged, slow=whole is not None)
        options["read_options"].skip_rows = 0
        options["read_options"].block_size = whole or _PARSED_AT_ONCE
        options["convert_options"].column_types = types
        return options


def _whole_rows(stream: IO[bytes], size: int, name: str) -> Iterator[bytes]:
    """Blocks of about `size` bytes that end where a line ends, and not within quotes."""
    rest = b""
    while True:
        block = stream.read(size)
        block = block if isinstance(block, bytes) else bytes(block)
        rest += block
        cut = len(rest) if not block else _last_row(rest)
        if cut:
            yield rest[:cut]
            rest = rest[cut:]
        if not block:
            return
        if len(rest) > LONGEST_LINE + size:
            raise DataError(f"{name}: {TOO_LONG}")


def _last_row(text: bytes) -> int:
    """Where the last whole row ends, or 0. Line breaks after an odd number of quotes are part of a field."""
    end = text.rfind(b"\n") + 1 or (text.rfind(b"\r", 0, -1) + 1 if b"\n" not in text else 0)
    if text.count(b'"', 0, end) % 2 == 0:
        return end
    at, odd = end, True
    while odd and at > 0:
        before = text.rfind(b"\n", 0, at - 1) + 1
        odd ^= text.count(b'"', before, at) % 2 == 1
        at = before
    return at or (0 if len(text) <= LONGEST_LINE else end)


def _without_lines(block: bytes, skip: int) -> tuple[bytes, int]:
    """The block without its first lines, and how many remain to be skipped."""
    end = 0
    for found in islice(_BREAK.finditer(block), skip):
        end, skip = found.end(), skip - 1
    return (block[end:], 0) if skip == 0 else (b"", skip)


# Parquet, Arrow IPC and JSON Lines.


class TableLinks(LinkFile):
    """A table, whose columns have types."""

    def __init__(self, file: File, options: ReadOptions) -> None:
        self.file = file
        self._schema = whole_schema(file)
        names = list(self._schema.names)
        keys = partition_columns([key for key, _ in file.partitions], names, options, has_names=True)
        columns = [*names, *keys]
        wanted = options.columns(columns)
        layout = find_layout(columns, wanted, str(file))
        self.layout, self.reading = layout.narrowed(), layout.reading(columns, wanted)
        self.names, self.prefixes = [columns[i] for i in layout.needed], layout.prefixes
        self._own = [i for i in layout.needed if i < len(names)]
        self._needed, self._size = layout.needed, 1 << 22

    def origin(self, first: int) -> Origin:
        return Origin(str(self.file), lambda row: f"row {first + row + 1}")

    def pieces(self, size: int) -> Iterator[Piece]:
        self._size = size
        first = 0
        for batch, done in prefetch(read_pieces(self.file, self._own, self._schema, size)):
            table = self._complete(batch)
            yield Piece(table, first, done)
            first += len(table)

    def column(self, at: int, kind: pa.DataType) -> Iterator[tuple[int, pa.ChunkedArray]]:
        for piece in self.pieces(self._size):
            yield piece.first, piece.table.column(at)

    def _complete(self, table: pa.Table) -> pa.Table:
        values, at = dict(self.file.partitions), iter(range(table.num_columns))
        columns = [
            table.column(next(at)) if i in self._own else files.constant(values[name], len(table))
            for i, name in zip(self._needed, self.names, strict=True)
        ]
        return pa.Table.from_arrays(columns, self.names)


# Reading ahead.


def prefetch(results: Iterator[Result]) -> Iterator[Result]:
    """The same results; a thread asks for the next one in advance."""
    end = object()
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, results, end)
        while (found := following.result()) is not end:
            following = pool.submit(next, results, end)
            yield found  # type: ignore[misc]


def size_of(file: File) -> int:
    """The size of a file in bytes."""
    return os.path.getsize(file.path)
