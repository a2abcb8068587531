"""Tables of any size, a piece at a time, with every column as it stands in the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from cawn.errors import DataError
from cawn.readers import files
from cawn.readers.columns import Layout, Roles, find_layout, recognised
from cawn.readers.dialect import Dialect, SingleBlanks, line_of, opened, sniff, split
from cawn.readers.tables import Source, as_names

_BLOCK = 1 << 24  # bytes of text at a time, and the longest line
NODE = "node"
_NODE_COLUMNS = ("name", "id", "node_id", "nodes", "src", "source", "user", "user_id")


@dataclass(frozen=True, slots=True)
class Pairs:
    """A file of pairs: what its columns are called, which of them matter, and how it is laid out."""

    path: str
    kind: files.Kind
    names: list[str]
    layout: Layout
    has_time: bool
    dialect: Dialect | None  # of text

    @classmethod
    def open(cls, path: str, *, src: Any, dst: Any, time: Any, timed: bool, header: bool | None = None) -> Pairs:
        """Look at the beginning of a file; `timed` says whether it must have a column of times."""
        kind = files.kind_of(files.check(path))
        dialect = sniff(path, header=header, columns=2) if kind == "text" else None
        names = dialect.names if dialect else _schema(path, kind)
        has_header = dialect is None or dialect.has_header
        roles = Roles.of(src=src, dst=dst, time=time, msg=None)
        if timed:
            return cls(path, kind, names, find_layout(names, roles, path, has_names=has_header), True, dialect)
        column_of_times = len(names)  # one that is not there, so that the ends are found without it
        layout = find_layout([*names, ""], Roles(roles.src, roles.dst, column_of_times, ()), path, has_names=has_header)
        return cls(path, kind, names, layout, False, dialect)

    def has_times(self) -> bool:
        """Whether the file has a column that looks like times, even where it was not asked for."""
        if self.dialect is not None and not self.dialect.has_header:
            return len(self.names) > 2
        try:
            find_layout(self.names, Roles(self.layout.src, self.layout.dst, None, ()), self.path)
        except DataError:
            return False
        return True

    def source(self, first: int) -> Source:
        """For messages about rows that are counted from row `first` of the file."""
        dialect, path = self.dialect, self.path
        if dialect is None:
            return Source(path, lambda row: f"row {first + row + 1}")
        return Source(path, lambda row: f"line {line_of(path, dialect, first + row)}")

    def chunks(self, rows: int) -> Iterator[pa.Table]:
        """The rows in order, `rows` at a time but for the last."""
        try:
            yield from _rechunked(self._batches(rows), rows)
        except (pa.ArrowException, OSError, EOFError, UnicodeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise DataError(f"{self.path}: cannot be read ({reason[:120]})") from error

    def num_rows(self) -> int | None:
        """How many rows there are, about: lines of text are counted, which may be parts of rows. None if not known."""
        try:
            if self.kind == "parquet":
                import pyarrow.parquet as pq

                return int(pq.read_metadata(self.path).num_rows)
            if self.dialect is None:
                return None
            with opened(self.path, self.dialect.compression) as file:
                lines: int = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
            return max(lines - self.dialect.skip, 1)
        except (pa.ArrowException, OSError, EOFError):
            return None  # reading the rows says what is wrong

    def _batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        if self.dialect is not None:
            with _text(self.path, self.dialect) as reader:
                for batch in reader:
                    columns = map(pc.utf8_trim_whitespace, batch.columns) if self.dialect.padded else batch.columns
                    yield pa.RecordBatch.from_arrays(list(columns), self.names)
        elif self.kind == "parquet":
            import pyarrow.parquet as pq

            with pq.ParquetFile(self.path) as file:
                yield from file.iter_batches(batch_size=rows)
        else:
            with pa.OSFile(self.path) as raw:
                opened_file = pa.ipc.open_file(raw) if self.kind == "ipc file" else pa.ipc.open_stream(raw)
                if self.kind == "ipc file":
                    yield from (opened_file.get_batch(i) for i in range(opened_file.num_record_batches))
                else:
                    yield from opened_file


@dataclass(frozen=True, slots=True)
class NodeFile:
    """A file of node names: its column `node`, else the first."""

    rows: Pairs
    column: int

    @classmethod
    def open(cls, path: str) -> NodeFile:
        """Look at the beginning of a file. Text has a header if its first line holds the usual name of a column."""
        kind = files.kind_of(files.check(path))
        dialect = None
        if kind == "text":
            first = sniff(path, "\t", header=False, columns=1)
            with opened(path, first.compression) as file:
                line = file.read(1 << 16).decode("utf-8-sig", "replace").splitlines()[first.skip :][:1]
            delimiter = next((mark for mark in ",;|" if line and mark in line[0]), "\t")
            names = [name.strip().lower() for name in split(line[0], delimiter)] if line else []
            has_header = NODE in names or recognised(names) or (len(names) == 1 and names[0] in _NODE_COLUMNS)
            dialect = sniff(path, delimiter, header=has_header, columns=1)
        names = dialect.names if dialect else _schema(path, kind)
        if not names:
            raise DataError(f"{path}: has no columns; expected names of nodes")
        plain = [name.strip().lower() for name in names]
        column = plain.index(NODE) if NODE in plain else 0
        layout = Layout(column, column, column, (), False)
        return cls(Pairs(path, kind, names, layout, False, dialect), column)

    @property
    def path(self) -> str:
        return self.rows.path

    def chunks(self, rows: int) -> Iterator[list[Any]]:
        """The names in order, `rows` at a time but for the last."""
        first = 0
        for table in self.rows.chunks(rows):
            name = self.rows.names[self.column]
            yield as_names(table.column(self.column), name, self.rows.source(first)).to_pylist()
            first += len(table)


def column_names(source: Any, header: bool | None = None) -> tuple[list[str], bool]:
    """What the columns of a file or table are called, and whether that is said by itself; nothing where unknown."""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        kind = files.kind_of(files.check(path))
        if kind != "text":
            return _schema(path, kind), True
        dialect = sniff(path, header=header, columns=2)
        return dialect.names, dialect.has_header
    names = getattr(source, "column_names", getattr(source, "columns", []))
    return [str(name) for name in names], True


@contextmanager
def _text(path: str, dialect: Dialect) -> Iterator[Any]:
    """A reader of text whose columns all stay text."""
    blanks = dialect.delimiter == " +"
    numbers = [f"{i}" for i in range(len(dialect.names))]
    with opened(path, dialect.compression) as file:
        yield csv.open_csv(
            SingleBlanks(file) if blanks else file,
            read_options=csv.ReadOptions(skip_rows=dialect.skip, column_names=numbers, block_size=_BLOCK),
            parse_options=csv.ParseOptions(delimiter=" " if blanks else dialect.delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(numbers, pa.string()), strings_can_be_null=False
            ),
        )


def _schema(path: str, kind: files.Kind) -> list[str]:
    try:
        if kind == "parquet":
            import pyarrow.parquet as pq

            return list(pq.read_schema(path).names)
        with pa.OSFile(path) as file:
            return list((pa.ipc.open_file(file) if kind == "ipc file" else pa.ipc.open_stream(file)).schema.names)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: a damaged {kind.split()[0]} file; write it again") from error


def _rechunked(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        while count + len(batch) >= rows:
            held.append(batch.slice(0, rows - count))
            batch = batch.slice(rows - count)
            yield pa.Table.from_batches(held)
            held, count = [], 0
        if len(batch):
            held.append(batch)
            count += len(batch)
    if held:
        yield pa.Table.from_batches(held)
