"""Files and tables of rows, in pieces of bounded size. Columns of text files are text."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from cawn.data.readers import files
from cawn.data.readers.dialect import Dialect, check_utf8, line_of, sniff
from cawn.data.readers.files import LONGEST_LINE, TOO_LONG, File, Input, Value
from cawn.data.readers.tables import Origin
from cawn.data.reading import Header
from cawn.errors import DataError, brief, reason

Result = TypeVar("Result")

PIECE = 1 << 24  # bytes of a file that are read at once, unless memory is limited
_PARSED_AT_ONCE = 1 << 20  # bytes of text that one thread parses
_BUFFER = 1 << 20  # bytes that are read ahead of each column of a Parquet file
_LEAST_ROW = 16  # bytes of a value, at least, when the size of a piece is estimated
_LARGEST_BATCH = 1 << 24  # bytes of a record batch that is read whatever the limit
_DEEPEST = 64  # brackets on one line: Arrow's JSON parser is recursive and could overflow the stack
_BREAK = re.compile(rb"\r\n|\r|\n")
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|$)', re.DOTALL)  # of JSON; one that is not closed ends with the line
_BLANKS, _BLANK_ENDS = re.compile(rb"[ \t]+"), re.compile(rb"(?m)^ | (?=\r?$)")


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive rows: the wanted columns, their first row, and how many bytes of the file are read so far."""

    table: pa.Table
    first: int
    done: float


class Rows(ABC):
    """The rows of a file or table."""

    header: Header  # names of the columns; those of folders KEY=VALUE follow those of the file
    dialect: Dialect | None = None  # of text
    size: float  # in bytes
    rounds = False  # whether large integers may have become floats when they were parsed

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.header.where

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return self.header.names

    @abstractmethod
    def pieces(self, size: int, columns: Sequence[int], skip: int = 0) -> Iterator[Piece]:
        """These columns of all rows, in pieces of about `size` bytes; the first `skip` rows may be left out."""

    def origin(self, first: int = 0) -> Origin:
        """For messages about rows counted from row `first`."""
        return Origin(self.name, lambda row: f"row {first + row + 1}")


def open_rows(source: Input, delimiter: str | None = None, header: bool | None = None, *, columns: int = 3) -> FileRows:
    """The rows of a file. The layout of text, of at least so many columns, is guessed as far as it is not given."""
    file = files.find_file(source)
    size = os.path.getsize(file.path)
    if file.kind == "text" or delimiter is not None:
        dialect = sniff(file, delimiter, header, columns=columns)
        return TextRows(Header(str(file), dialect.names, dialect.has_header), file, size, len(dialect.names), dialect)
    schema = _schema(file)
    return TableRows(Header(str(file), schema.names), file, size, len(schema), None, file.kind == "json", schema)


@dataclass(frozen=True)
class FileRows(Rows):
    """The rows of a file, `width` columns of which are its own."""

    header: Header
    file: File
    size: float
    width: int
    dialect: Dialect | None = None
    rounds: bool = False

    def with_keys(self, keys: Sequence[str]) -> FileRows:
        """The same with these keys of the file's folders as further columns."""
        return replace(self, header=replace(self.header, names=[*self.names[: self.width], *keys]))

    def at(self, file: File) -> FileRows:
        """The rows of the same file at another path."""
        return replace(self, file=file, header=replace(self.header, where=str(file)))

    def pieces(self, size: int, columns: Sequence[int], skip: int = 0) -> Iterator[Piece]:
        own = [i for i in columns if i < self.width]
        return prefetch(self._completed(piece, columns) for piece in self._pieces(size, own, skip))

    @abstractmethod
    def _pieces(self, size: int, own: list[int], skip: int) -> Iterator[Piece]:
        """The same of columns that the file has."""

    def _completed(self, piece: Piece, columns: Sequence[int]) -> Piece:
        """With the columns of folders KEY=VALUE in between."""
        own, values = iter(piece.table.columns), dict(self.file.partitions)
        found = [
            next(own) if i < self.width else self._constant(values[self.names[i]], len(piece.table)) for i in columns
        ]
        return replace(piece, table=pa.Table.from_arrays(found, [self.names[i] for i in columns]))

    def _constant(self, value: Value, rows: int) -> pa.Array:
        """A column with one value."""
        if self.dialect is not None:
            value = "" if value is None else str(value)
        kind = pa.null() if value is None else pa.int64() if isinstance(value, int) else pa.string()
        return pa.repeat(pa.scalar(value, kind), rows)


@dataclass(frozen=True)
class TextRows(FileRows):
    """The rows of a text file."""

    dialect: Dialect

    def origin(self, first: int = 0) -> Origin:
        return Origin(self.name, lambda row: f"line {line_of(self.file, self.dialect, first + row)}")

    def _pieces(self, size: int, own: list[int], skip: int) -> Iterator[Piece]:
        names, first = [f"{i}" for i in own], 0
        for block, done in self._blocks(size):
            table = self._parse(block, names, first)
            if self.dialect.padded:
                trimmed = [pc.utf8_trim_whitespace(column) for column in table.columns]
                table = pa.Table.from_arrays(trimmed, table.column_names)
            yield Piece(table, first, done)
            first += len(table)

    def _blocks(self, size: int) -> Iterator[tuple[bytes, float]]:
        """Whole rows without the lines before them, and how many bytes of the file are read so far."""
        skip = self.dialect.skip
        try:
            for block, done in _whole_rows(self.file, size, quoted=True):
                if skip:
                    block, skip = _without_lines(block, skip)
                if self.dialect.delimiter == " +":
                    block = _BLANK_ENDS.sub(b"", _BLANKS.sub(b" ", block))
                if block.strip():
                    yield block, done
        except (OSError, EOFError, UnicodeError) as error:
            raise DataError(f"{self.name}: is damaged ({reason(error)}); download or write the file again") from error

    def _parse(self, block: bytes, own: list[str], first: int) -> pa.Table:
        """Columns of a block that begins with row `first`."""
        try:
            return csv.read_csv(pa.BufferReader(block), **self._options(own))
        except pa.ArrowInvalid:
            try:
                block.decode()
            except UnicodeDecodeError:  # then Arrow cannot say which row is ragged
                check_utf8(self.file)
            return self._parse_slowly(block, own, first)

    def _parse_slowly(self, block: bytes, own: list[str], first: int) -> pa.Table:
        """Parse in one thread, which allows quoted line breaks, and finds ragged rows."""
        ragged: list[Any] = []

        def remember(row: Any) -> str:
            ragged.append(row)
            return "skip"

        try:
            table = csv.read_csv(pa.BufferReader(block), **self._options(own, remember, max(len(block) + 1, 1024)))
        except pa.ArrowInvalid as error:
            why = reason(error)
            problem = TOO_LONG if "straddl" in why else f"cannot be read as text ({why[:100]}); is it UTF-8?"
            raise DataError(f"{self.name}: {problem}") from error
        if ragged:
            row = ragged[0]
            fields = f"found {row.actual_columns} fields, expected {row.expected_columns}"
            raise DataError(
                f"{self.name}, {self.origin(first).place(row.number - 1)}: {fields}: {brief(row.text[:60])}"
            )
        return table

    def _options(self, own: list[str], on_ragged: Any = None, whole: int | None = None) -> dict[str, Any]:
        """Arguments of Arrow's reader. Columns are called "0", "1", ...; `whole` is the size of the block."""
        names = [f"{i}" for i in range(self.width)]
        delimiter = " " if self.dialect.delimiter == " +" else self.dialect.delimiter
        return {
            "read_options": csv.ReadOptions(
                column_names=names, use_threads=whole is None, block_size=whole or _PARSED_AT_ONCE
            ),
            "parse_options": csv.ParseOptions(
                delimiter=delimiter, invalid_row_handler=on_ragged, newlines_in_values=whole is not None
            ),
            "convert_options": csv.ConvertOptions(
                include_columns=own, column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        }


def _whole_rows(file: File, size: int, *, quoted: bool) -> Iterator[tuple[bytes, float]]:
    """Blocks of about `size` bytes that end where a line ends and, if lines may be `quoted`, not within quotes; and
    how many bytes of the file are read so far."""
    with open(file.path, "rb") as raw:
        stream = pa.CompressedInputStream(raw, file.compression) if file.compression else raw
        rest, block = b"", bytes(stream.read(size))
        while block:
            following = bytes(stream.read(size))
            rest += block
            if cut := len(rest) if not following else _last_row(rest) if quoted else rest.rfind(b"\n") + 1:
                yield rest[:cut], raw.tell()
                rest = rest[cut:]
            if following and len(rest) > LONGEST_LINE:
                raise DataError(f"{file}: {TOO_LONG}")
            block = following


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


@dataclass(frozen=True)
class TableRows(FileRows):
    """The rows of a Parquet, Arrow IPC or JSON Lines file, whose columns have types."""

    schema: pa.Schema = field(default=None, repr=False)

    def _pieces(self, size: int, own: list[int], skip: int) -> Iterator[Piece]:
        read = {"parquet": self._parquet, "json": self._json}.get(self.file.kind, self._ipc)
        with files.damage_reported(self.file):
            for piece in read(size, own, skip):
                piece.table.validate(full=True)  # Arrow's functions trust offsets
                yield piece

    def _parquet(self, size: int, own: list[int], skip: int) -> Iterator[Piece]:
        import pyarrow.parquet as pq

        names = [self.schema.names[i] for i in own]
        unique = len(set(self.schema.names)) == len(self.schema.names)
        with pq.ParquetFile(self.file.path, buffer_size=_BUFFER, pre_buffer=False) as parquet:
            groups = [parquet.metadata.row_group(i) for i in range(parquet.metadata.num_row_groups)]
            total, ends = max(parquet.metadata.num_rows, 1), list(accumulate(group.num_rows for group in groups))
            per_row = max(sum(group.total_byte_size for group in groups) // total, _LEAST_ROW * max(len(own), 1))
            skipped = bisect_right(ends, skip)
            first = ends[skipped - 1] if skipped else 0
            options = {"columns": names if unique else None, "row_groups": list(range(skipped, len(groups)))}
            for batch in parquet.iter_batches(batch_size=min(max(size // per_row, 1), total), **options):
                table = pa.Table.from_batches([batch]).select(names if unique else own)
                yield Piece(table, first, self.size * (first + len(table)) / total)
                first += len(table)

    def _ipc(self, size: int, own: list[int], skip: int) -> Iterator[Piece]:
        first = 0
        with files.open_ipc(self.file) as reader:
            count = reader.num_record_batches if self.file.kind == "ipc file" else None
            for i, batch in enumerate(reader if count is None else map(reader.get_batch, range(count))):
                if batch.nbytes > max(8 * size, _LARGEST_BATCH) and size < PIECE:
                    found = f"a record batch of {batch.nbytes >> 20:,} MiB"
                    raise DataError(
                        f"{self.name}: {found} is too large for this limit of memory; write smaller batches"
                    )
                table = pa.Table.from_batches([batch]).select(own)
                for part in _slices(table, size):
                    yield Piece(part, first, self.size * (i + 1) / count if count else 0)
                    first += len(part)

    def _json(self, size: int, own: list[int], skip: int) -> Iterator[Piece]:
        kinds, first = pa.schema([self.schema.field(i) for i in own]), 0
        for block, done in _json_blocks(self.file, size):
            table = _parse_json(block, explicit_schema=kinds, unexpected_field_behavior="ignore").select(kinds.names)
            yield Piece(table, first, done)
            first += len(table)


class TableInMemory(Rows):
    """The rows of a table of another library: of any object that offers an Arrow stream."""

    def __init__(self, table: Any, name: str = "table") -> None:
        try:
            self._table = pa.table(table)
            self._table.validate(full=True)
        except Exception as error:  # another library's table can raise anything
            raise DataError(f"table: cannot be read as Arrow ({reason(error)})") from error
        self.header, self.size = Header(name, self._table.column_names), self._table.nbytes

    def pieces(self, size: int, columns: Sequence[int], skip: int = 0) -> Iterator[Piece]:
        first = 0
        for part in _slices(self._table.select(list(columns)), size):
            yield Piece(part, first, 0)
            first += len(part)


def _slices(table: pa.Table, size: int) -> Iterator[pa.Table]:
    """The rows in tables of about `size` bytes."""
    rows = max(size * len(table) // max(table.nbytes, 1), 1)
    for first in range(0, len(table), rows):
        yield table.slice(first, rows)


def _schema(file: File) -> pa.Schema:
    """The columns of a file; those of a JSON file are found by reading it."""
    with files.damage_reported(file):
        if file.kind == "parquet":
            import pyarrow.parquet as pq

            return pq.read_schema(file.path)
        if file.kind == "json":
            return _json_schema(file)
        with files.open_ipc(file) as reader:
            return reader.schema


def _json_schema(file: File) -> pa.Schema:
    """The columns of all lines, with the types that fit all of them; what looks like dates is text."""
    found: dict[str, pa.Field] = {}
    for block, _ in _json_blocks(file, LONGEST_LINE):
        for column in _parse_json(block).schema:
            if pa.types.is_timestamp(column.type):
                column = column.with_type(pa.string())
            known = found.setdefault(column.name, column)
            if not (pa.types.is_nested(known.type) and pa.types.is_nested(column.type)):
                both = [pa.schema([known]), pa.schema([column])]
                found[column.name] = pa.unify_schemas(both, promote_options="permissive").field(0)
    return pa.schema(list(found.values()))


def _json_blocks(file: File, size: int) -> Iterator[tuple[bytes, float]]:
    """Whole lines, each with one object, and how many bytes of the file are read so far."""
    line = 0
    for block, done in _whole_rows(file, size, quoted=False):
        lines = block.removeprefix(b"\xef\xbb\xbf") if line == 0 else block
        line = _check_objects(lines, line, file.name)
        if lines.strip():
            yield lines, done


def _check_objects(lines: bytes, number: int, name: str) -> int:
    """Refuse lines that do not have one object each, or a deeply nested one; returns the number of the last line."""
    for line in lines.splitlines():
        number += 1
        if (text := line.strip()) and not (text.startswith(b"{") and text.endswith(b"}")):
            raise DataError(f"{name}, line {number}: expected one JSON object on each line")
        if line.count(b"{") + line.count(b"[") > _DEEPEST:
            plain = _STRINGS.sub(b"", line)
            if plain.count(b"{") + plain.count(b"[") > _DEEPEST:
                raise DataError(f"{name}, line {number}: nested values; write one flat object on each line")
    return number


def _parse_json(block: bytes, **options: Any) -> pa.Table:
    from pyarrow import json

    return json.read_json(
        pa.BufferReader(block),
        read_options=json.ReadOptions(block_size=len(block) + 1),
        parse_options=json.ParseOptions(newlines_in_values=False, **options),
    )


def prefetch(results: Iterator[Result]) -> Iterator[Result]:
    """The same results; a thread asks for the next one in advance."""
    end = object()
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, results, end)
        while (found := following.result()) is not end:
            following = pool.submit(next, results, end)
            yield found  # type: ignore[misc]
