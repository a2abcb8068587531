"""Tables of any size, a piece at a time, with every column as it stands in the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from cawn.data.readers import files
from cawn.data.readers.columns import Layout, Roles, find_layout, recognised
from cawn.data.readers.dialect import Dialect, line_of, sniff, split
from cawn.data.readers.lines import LONGEST_LINE, TOO_LONG, SingleBlanks
from cawn.data.readers.tables import Origin, name_column
from cawn.errors import DataError

NODE = "node"
_NODE_COLUMNS = ("name", "id", "node_id", "nodes", "src", "source", "user", "user_id")


@dataclass(frozen=True, slots=True)
class Pairs:
    """A file of pairs: what its columns are called, which of them matter, and how it is laid out."""

    path: files.File
    kind: files.Kind
    names: list[str]
    layout: Layout
    has_time: bool
    dialect: Dialect | None  # of text

    @classmethod
    def open(
        cls, path: files.Input, *, src: Any, dst: Any, time: Any, timed: bool, header: bool | None = None
    ) -> Pairs:
        """Look at the beginning of a file; `timed` says whether it must have a column of times."""
        file = files.check(path)
        kind = files.kind_of(file)
        dialect = sniff(file, header=header, columns=2) if kind == "text" else None
        names = dialect.names if dialect else files.schema_of(file, kind).names
        has_header = dialect is None or dialect.has_header
        roles = Roles.of(src=src, dst=dst, time=time, msg=None)
        if timed:
            return cls(file, kind, names, find_layout(names, roles, str(file), has_names=has_header), True, dialect)
        column_of_times = len(names)  # one that is not there, so that the ends are found without it
        untimed = Roles(roles.src, roles.dst, column_of_times, ())
        layout = find_layout([*names, ""], untimed, str(file), has_names=has_header)
        return cls(file, kind, names, layout, False, dialect)

    def has_times(self) -> bool:
        """Whether the file has a column that looks like times, even where it was not asked for."""
        if self.dialect is not None and not self.dialect.has_header:
            return len(self.names) > 2
        try:
            find_layout(self.names, Roles(self.layout.src, self.layout.dst, None, ()), str(self.path))
        except DataError:
            return False
        return True

    def source(self, first: int) -> Origin:
        """For messages about rows that are counted from row `first` of the file."""
        dialect, path = self.dialect, self.path
        if dialect is None:
            return Origin(str(path), lambda row: f"row {first + row + 1}")
        return Origin(str(path), lambda row: f"line {line_of(path, dialect, first + row)}")

    def chunks(self, rows: int) -> Iterator[pa.Table]:
        """The rows in order, `rows` at a time but for the last."""
        try:
            yield from _rechunked(self._batches(rows), rows)
        except DataError:
            raise
        except Exception as error:  # a damaged file can raise almost anything
            if self.dialect is None:
                raise files.damaged(self.path, self.kind, error) from error
            reason = files.first_line(error)
            why = TOO_LONG if "straddl" in reason else reason[:120]
            raise DataError(f"{self.path}: cannot be read ({why})") from error

    def num_rows(self) -> int | None:
        """How many rows there are, about: lines of text are counted, which may be parts of rows. None if not known."""
        try:
            if self.kind == "parquet":
                import pyarrow.parquet as pq

                return int(pq.read_metadata(self.path.path).num_rows)
            if self.dialect is None:
                return None
            with files.opened(self.path, self.dialect.compression) as file:
                lines: int = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
            return max(lines - self.dialect.skip, 1)
        except (pa.ArrowException, OSError, EOFError):
            return None  # reading the rows says what is wrong

    def _batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        if self.dialect is None:
            yield from files.batches_of(self.path, self.kind, rows)
            return
        with _text(self.path, self.dialect) as reader:
            for batch in reader:
                columns = map(pc.utf8_trim_whitespace, batch.columns) if self.dialect.padded else batch.columns
                yield pa.RecordBatch.from_arrays(list(columns), self.names)


@dataclass(frozen=True, slots=True)
class NodeFile:
    """A file of node names: its column `node`, else the first."""

    rows: Pairs
    column: int

    @classmethod
    def open(cls, path: files.Input) -> NodeFile:
        """Look at the beginning of a file. Text has a header if its first line holds the usual name of a column."""
        file = files.check(path)
        kind = files.kind_of(file)
        dialect = None
        if kind == "text":
            first = sniff(file, "\t", header=False, columns=1)
            with files.opened(file, first.compression) as raw:
                line = raw.read(1 << 16).decode("utf-8-sig", "replace").splitlines()[first.skip :][:1]
            delimiter = next((mark for mark in ",;|" if line and mark in line[0]), "\t")
            names = [name.strip().lower() for name in split(line[0], delimiter)] if line else []
            has_header = NODE in names or recognised(names) or (len(names) == 1 and names[0] in _NODE_COLUMNS)
            dialect = sniff(file, delimiter, header=has_header, columns=1)
        names = dialect.names if dialect else files.schema_of(file, kind).names
        if not names:
            raise DataError(f"{file}: has no columns; expected names of nodes")
        plain = [name.strip().lower() for name in names]
        column = plain.index(NODE) if NODE in plain else 0
        layout = Layout(column, column, column, (), False)
        return cls(Pairs(file, kind, names, layout, False, dialect), column)

    @property
    def path(self) -> files.File:
        return self.rows.path

    def chunks(self, rows: int) -> Iterator[list[Any]]:
        """The names in order, `rows` at a time but for the last."""
        first = 0
        for table in self.rows.chunks(rows):
            name = self.rows.names[self.column]
            yield name_column(table.column(self.column), name, self.rows.source(first)).to_pylist()
            first += len(table)


def column_names(source: Any, header: bool | None = None) -> tuple[list[str], bool]:
    """What the columns of a file or table are called, and whether that is said by itself; nothing where unknown."""
    found = files.resolved(source)
    if isinstance(found, list) and found and isinstance(found[0], files.File):
        kind = files.kind_of(found[0])
        if kind != "text":
            return files.schema_of(found[0], kind).names, True
        dialect = sniff(found[0], header=header, columns=2)
        return dialect.names, dialect.has_header
    names = getattr(source, "column_names", getattr(source, "columns", []))
    return [str(name) for name in names], True


@contextmanager
def _text(path: files.File, dialect: Dialect) -> Iterator[Any]:
    """A reader of text whose columns all stay text."""
    blanks = dialect.delimiter == " +"
    numbers = [f"{i}" for i in range(len(dialect.names))]
    with files.opened(path, dialect.compression) as file:
        yield csv.open_csv(
            SingleBlanks(file, str(path)) if blanks else file,
            read_options=csv.ReadOptions(skip_rows=dialect.skip, column_names=numbers, block_size=LONGEST_LINE),
            parse_options=csv.ParseOptions(delimiter=" " if blanks else dialect.delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(numbers, pa.string()), strings_can_be_null=False
            ),
        )


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
