"""Files and tables of rows, in pieces of bounded size. Columns of text files are text."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import IO, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from cawn.data.readers import files
from cawn.data.readers.dialect import Dialect, check_utf8, line_of
from cawn.data.readers.files import LONGEST_LINE, TOO_LONG, File
from cawn.data.readers.tables import Origin
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
    """The rows of a file or table.

    Attributes:
        name: What messages call it.
        names: Of the columns; those of folders KEY=VALUE follow those of the file.
        has_names: Whether the names are those of the file, and not made up.
        dialect: Of text.
        size: In bytes.
        rounds: Whether large integers may have become floats when they were parsed.
    """

    name: str
    names: list[str]
    has_names = True
    dialect: Dialect | None = None
    size: float = 0
    rounds = False

    @abstractmethod
    def pieces(self, size: int, columns: Sequence[int], skip: int = 0) -> Iterator[Piece]:
        """These columns of all rows, in pieces of about `size` bytes; the first `skip` rows may be left out."""

    def origin(self, first: int = 0) -> Origin:
        """For messages about rows counted from row `first`."""
        return Origin(self.name, lambda row: f"row {first + row + 1}")


def open_rows(file: File, dialect: Dialect | None) -> FileRows:
    """The rows of a file, which is text if there is a dialect."""
    return TextRows(file, dialect) if dialect else TableRows(file)


class FileRows(Rows):
    """The rows of a file."""

    def __init__(self, file: File, own: Sequence[str]) -> None:
        self.file, self.name, self.size = file, str(file), os.path.getsize(file.path)
        self._width, self.names = len(own), list(own)
        self._values = dict(file.partitions)

    def with_keys(self, keys: Sequence[str]) -> FileRows:
        """The same with these keys of the file's folders as further columns."""
        rows = copy(self)
        rows.names = [*self.names, *keys]
        return rows

    def at(self, file: File) -> FileRows:
        """The rows of the same file at another path."""
        rows = copy(self)
        rows.file, rows.name = file, str(file)
        return rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileRows) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.file!r}, {self.names!r}, {self.dialect!r})"

    def _completed(self, table: pa.Table, columns: Sequence[int], as_text: bool = False) -> pa.Table:
        """The columns, given a table of those that the file has, in their order."""
        own = iter(table.columns)
        found = []
        for i in columns:
            if i < self._width:
                found.append(next(own))
            else:
                value = self._values[self.names[i]]
                value = ("" if value is None else str(value)) if as_text else value
                found.append(files.constant(value, len(table)))
        return pa.Table.from_arrays(found, [self.names[i] for i in columns])


class TextRows(FileRows):
    """The rows of a text file."""

    def __init__(self, file: File, dialect: Dialect) -> None:
        super().__init__(file, dialect.names)
        self.dialect, self.has_names = dialect, dialect.has_header

    def origin(self, first: int = 0) -> Origin:
        return Origin(self.name, lambda row: f"line {line_of(self.file, self._dialect, first + row)}")

    @property
    def _dialect(self) -> Dialect:
        assert self.dialect is not None
        return self.dialect

    def pieces(self, size: int, columns: Sequence[int], skip: int = 0) -> Iterator[Piece]:
        return prefetch(self._pieces(size, columns))

    def _pieces(self, size: int, columns: Sequence[int]) -> Iterator[Piece]:
        own, first = [f"{i}" for i in columns if i < self._width], 0
        for block, done in self._blocks(size):
            table = self._parse(block, own, first)
            if self._dialect.padded:
                trimmed = [pc.utf8_trim_whitespace(column) for column in table.columns]
                table = pa.Table.from_arrays(trimmed, table.column_names)
            yield Piece(self._completed(table, columns, as_text=True), first, done)
            first += len(table)

    def _blocks(self, size: int) -> Iterator[tuple[bytes, float]]:
        """Whole rows without the lines before them, and how many bytes of the file are read so far."""
        skip = self._dialect.skip
        try:
            with open(self.file.path, "rb") as raw:
                stream = pa.CompressedInputStream(raw, self.file.compression) if self.file.compression else raw
                for block in _whole_rows(stream, size, self.name, quoted=True):
                    if skip:
                        block, skip = _without_lines(block, skip)
                    if self._dialect.delimiter == " +":
                        block = _BLANK_ENDS.sub(b"", _BLANKS.sub(b" ", block))
                    if block.strip():
                        yield block, raw.tell()
        except (OSError, EOFError, UnicodeError) as error:
            raise DataError(f"{self.name}: is damaged ({reason(error)}); download or write the file again") from error

    def _parse(self, block: bytes, own: list[str], first: int) -> pa.Table:
        """Columns of a block that begins with row `first`."""
        try:
            return csv.read_csv(pa.BufferReader(block), **self._options(own))
        except pa.ArrowInvalid:
            if not _is_utf8(block):  # else Arrow cannot say which row is ragged
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
            line = line_of(self.file, self._dialect, first + row.number - 1)
            fields = f"found {row.actual_columns} fields, expected {row.expected_columns}"
            raise DataError(f"{self.name}, line {line}: {fields}: {brief(row.text[:60])}")
        return table

    def _options(self, own: list[str], on_ragged: Any = None, whole: int | None = None) -> dict[str, Any]:
        """Arguments of Arrow's reader. Columns are called "0", "1", ...; `whole` is the size of the block."""
        names = [f"{i}" for i in range(self._width)]
        delimiter = " " if self._dialect.delimiter == " +" else self._dialect.delimiter
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


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _whole_rows(stream: IO[bytes], size: int, name: str, *, quoted: bool) -> Iterator[bytes]:
    """Blocks of about `size` bytes that end where a line ends and, if lines may be `quoted`, not within quotes."""
    rest, block = b"", bytes(stream.read(size))
    while block:
        following = bytes(stream.read(size))
        rest += block
        if cut := len(rest) if not following else _last_row(rest) if quoted else rest.rfind(b"\n") + 1:
            yield rest[:cut]
            rest = rest[cut:]
        if following and len(rest) > LONGEST_LINE:
            raise DataError(f"{name}: {TOO_LONG}")
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


# Tables.


class TableRows(FileRows):
    """The rows of a Parquet, Arrow IPC or JSON Lines file, whose columns have types."""

    def __init__(self, file: File) -> None:
        self._schema = _schema(file)
        super().__init__(file, self._schema.names)
        self.rounds = file.kind == "json"

    def pieces(self, size: int, columns: Sequence[int], skip: int = 0) -> Iterator[Piece]:
        return prefetch(self._pieces(size, columns, skip))

    def _pieces(self, size: int, columns: Sequence[int], skip: int) -> Iterator[Piece]:
        read = {"parquet": self._parquet, "json": self._json}.get(self.file.kind, self._ipc)
        with files.damage_reported(self.file):
            for piece in read(size, [i for i in columns if i < self._width], skip):
                piece.table.validate(full=True)  # Arrow's functions trust offsets
                yield Piece(self._completed(piece.table, columns), piece.first, piece.done)

    def _parquet(self, size: int, own: list[int], skip: int) -> Iterator[Piece]:
        import pyarrow.parquet as pq

        names = [self._schema.names[i] for i in own]
        unique = len(set(self._schema.names)) == len(self._schema.names)
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
        kinds, first = pa.schema([self._schema.field(i) for i in own]), 0
        for block, done in _json_blocks(self.file, size):
            table = _parse_json(block, explicit_schema=kinds, unexpected_field_behavior="ignore").select(kinds.names)
            yield Piece(table, first, done)
            first += len(table)


class TableInMemory(Rows):
    """The rows of a table of another library."""

    def __init__(self, table: Any, name: str = "table") -> None:
        self.name, self._table = name, files.import_stream(table)
        self.names, self.size = self._table.column_names, self._table.nbytes

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
    kinds: dict[str, pa.DataType] = {}
    for block, _ in _json_blocks(file, LONGEST_LINE):
        for column in _parse_json(block).schema:
            kind = pa.string() if pa.types.is_timestamp(column.type) else column.type
            kinds[column.name] = _common_kind(column.name, kinds.get(column.name, pa.null()), kind)
    return pa.schema(list(kinds.items()))


def _common_kind(name: str, one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """A type for the values of both, as Arrow's reader of JSON would choose it."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_nested(one) and pa.types.is_nested(other):
        return one
    raise pa.ArrowInvalid(f"JSON parse error: Column(/{name}) changed from {one} to {other}")


def _json_blocks(file: File, size: int) -> Iterator[tuple[bytes, float]]:
    """Whole lines, each with one object, and how many bytes of the file are read so far."""
    line = 0
    with open(file.path, "rb") as raw:
        unpacked = pa.CompressedInputStream(raw, file.compression) if file.compression else raw
        for block in _whole_rows(unpacked, size, file.name, quoted=False):
            lines = block.removeprefix(b"\xef\xbb\xbf") if line == 0 else block
            line = _check_objects(lines, line, file.name)
            if lines.strip():
                yield lines, raw.tell()


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


# Reading ahead.


def prefetch(results: Iterator[Result]) -> Iterator[Result]:
    """The same results; a thread asks for the next one in advance."""
    end = object()
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, results, end)
        while (found := following.result()) is not end:
            following = pool.submit(next, results, end)
            yield found  # type: ignore[misc]
