"""Files of pairs to score and of nodes to rank, of any size: read in chunks, with every column as it is in the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cawn.data.readers import files
from cawn.data.readers.columns import Layout, find_layout, has_usual_ends, time_columns
from cawn.data.readers.dialect import Dialect, sniff, split
from cawn.data.readers.tables import Origin, TableColumn
from cawn.data.readers.text import open_text, text_origin
from cawn.data.reading import Reading
from cawn.errors import DataError, reason

NODE = "node"
_NODE_COLUMNS = ("name", "id", "node_id", "nodes", "src", "source", "user", "user_id")


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file with a table in it."""

    path: files.File
    names: list[str]  # of the columns
    dialect: Dialect | None  # of text

    def origin(self, first: int) -> Origin:
        """For messages about rows counted from row `first` of the file."""
        if self.dialect is None:
            return Origin(str(self.path), lambda row: f"row {first + row + 1}")
        return text_origin(self.path, self.dialect, first)

    def chunks(self, rows: int, first: int = 0, stop: int | None = None) -> Iterator[pa.Table]:
        """The rows from `first` to `stop` (exclusive; None: all) in order, `rows` at a time but for the last."""
        try:
            for table in _rechunked(self._batches(rows, first, stop), rows):
                for key, value in self.path.partitions:
                    if key in self.names and key not in table.column_names:
                        table = table.append_column(key, files.constant(value, len(table)))
                yield table
        except DataError:
            raise
        except Exception as error:  # a damaged file can raise almost anything
            if self.dialect is None:
                raise files.damaged(self.path, self.path.kind, error) from error
            why = files.TOO_LONG if "straddl" in reason(error) else reason(error)[:120]
            raise DataError(f"{self.path}: cannot be read ({why})") from error

    def num_rows(self) -> int | None:
        """The approximate number of rows: of text, the number of lines. None if unknown."""
        try:
            if self.path.kind == "parquet":
                import pyarrow.parquet as pq

                return int(pq.read_metadata(self.path.path).num_rows)
            if self.dialect is None:
                return None
            with self.path.open() as file:
                lines: int = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
            return max(lines - self.dialect.skip, 1)
        except (pa.ArrowException, OSError, EOFError):
            return None  # reading the rows reports what is wrong

    def count_rows(self) -> int:
        """The exact number of rows. All kinds of files but Parquet are parsed."""
        exact = self.num_rows() if self.path.kind == "parquet" else None
        return sum(map(len, self.chunks(1 << 16))) if exact is None else exact

    def _batches(self, rows: int, first: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        if self.dialect is None:
            yield from files.read_batches(self.path, rows, first, stop)
            return
        with open_text(self.path, self.dialect) as batches:
            yield from files.rows_between(batches, first, stop)


@dataclass(frozen=True, slots=True)
class PairFile(TableFile):
    """A file of pairs; folders KEY=VALUE above it are columns as well."""

    layout: Layout
    has_time: bool

    @classmethod
    def open(
        cls,
        path: files.Input,
        wanted: Reading | None = None,
        *,
        recorded: Reading | None = None,
        timed: bool = True,
        header: bool | None = None,
    ) -> PairFile:
        """Look at the beginning of a file.

        Args:
            wanted: The columns that the user gave.
            recorded: Those of the links a run was trained on, used where the file has them and the user gave none.
            timed: Whether the file must have a column of times.
            header: Whether text has a header; guessed if None.
        """
        file = files.find_file(path)
        dialect = sniff(file, header=header, columns=2) if file.kind == "text" else None
        names = dialect.names if dialect else files.column_names(file)
        names = [*names, *(key for key, _ in file.partitions if key not in names)]
        has_names = dialect is None or dialect.has_header
        columns = (wanted or Reading()).completed(recorded, names, has_names)
        layout = find_layout(names, columns, str(file), has_names=has_names, timed=timed)
        return cls(file, names, dialect, layout, timed)

    def has_times(self) -> bool:
        """Whether there is a column that looks like times, even if it was not asked for."""
        if self.dialect is not None and not self.dialect.has_header:
            return len(self.names) > 2
        return self.layout.time >= 0 or len(time_columns(self.names, (self.layout.src, self.layout.dst))) == 1


@dataclass(frozen=True, slots=True)
class NodeFile(TableFile):
    """A file of node names: its column `node`, else the first."""

    column: int

    @classmethod
    def open(cls, path: files.Input) -> NodeFile:
        """Look at the beginning of a file. Text has a header if its first line has the usual name of a column."""
        file = files.find_file(path)
        dialect = _sniff_nodes(file) if file.kind == "text" else None
        names = dialect.names if dialect else files.column_names(file)
        if not names:
            raise DataError(f"{file}: has no columns; expected names of nodes")
        plain = [name.strip().lower() for name in names]
        return cls(file, names, dialect, plain.index(NODE) if NODE in plain else 0)

    def name_chunks(self, rows: int, first: int = 0, stop: int | None = None) -> Iterator[list[Any]]:
        """The names in rows `first` to `stop`, as `chunks` does."""
        for table in self.chunks(rows, first, stop):
            yield TableColumn.at(table, self.column, self.origin(first)).names().to_pylist()
            first += len(table)


def _sniff_nodes(file: files.File) -> Dialect:
    skip = sniff(file, "\t", header=False, columns=1).skip
    with file.open() as raw:
        line = raw.read(1 << 16).decode("utf-8-sig", "replace").splitlines()[skip:][:1]
    delimiter = next((mark for mark in ",;|" if line and mark in line[0]), "\t")
    names = [name.strip().lower() for name in split(line[0], delimiter)] if line else []
    has_header = NODE in names or has_usual_ends(names) or (len(names) == 1 and names[0] in _NODE_COLUMNS)
    return sniff(file, delimiter, header=has_header, columns=1)


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
