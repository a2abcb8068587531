"""Files of pairs to score and of nodes to rank, of any size: read in chunks, with every column as it is in the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cawn.data.readers import files
from cawn.data.readers.dialect import sniff, split
from cawn.data.readers.rows import FileRows, open_rows
from cawn.data.readers.tables import TableColumn
from cawn.data.reading import Layout, Reading, find_layout, has_usual_ends, time_columns
from cawn.errors import DataError

NODE = "node"
_PIECE = 1 << 22  # bytes
_NODE_COLUMNS = ("name", "id", "node_id", "nodes", "src", "source", "user", "user_id")


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file with a table in it."""

    rows: FileRows  # with the folders KEY=VALUE above the file as columns

    @property
    def path(self) -> files.File:
        return self.rows.file

    def chunks(self, rows: int, first: int = 0, stop: int | None = None) -> Iterator[pa.Table]:
        """The rows from `first` to `stop` (exclusive; None: all) in order, `rows` at a time but for the last."""
        held: list[pa.Table] = []
        for piece in self.rows.pieces(_PIECE, range(len(self.rows.names)), skip=first):
            low, end = max(first - piece.first, 0), piece.first + len(piece.table)
            high = len(piece.table) if stop is None else min(stop - piece.first, len(piece.table))
            if low < high:
                held.append(piece.table.slice(low, high - low))
            if sum(map(len, held)) >= rows:
                table = pa.concat_tables(held)
                whole = len(table) // rows * rows
                yield from (table.slice(at, rows) for at in range(0, whole, rows))
                held = [table.slice(whole)]
            if stop is not None and end >= stop:
                break
        if sum(map(len, held)):
            yield pa.concat_tables(held)

    def num_rows(self) -> int | None:
        """The approximate number of rows: of text, the number of lines. None if unknown."""
        try:
            if self.path.kind == "parquet":
                import pyarrow.parquet as pq

                return int(pq.read_metadata(self.path.path).num_rows)
            if self.rows.dialect is None:
                return None
            with self.path.open() as file:
                lines: int = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
            return max(lines - self.rows.dialect.skip, 1)
        except (pa.ArrowException, OSError, EOFError):
            return None  # reading the rows reports what is wrong

    def count_rows(self) -> int:
        """The exact number of rows. All kinds of files but Parquet are parsed."""
        exact = self.num_rows() if self.path.kind == "parquet" else None
        return sum(map(len, self.chunks(1 << 16))) if exact is None else exact


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
        """Look at the beginning of a file, which must have times if it is `timed`.

        `recorded` columns, of the links a run was trained on, are used where the user gave none and the file has them.
        """
        rows = open_rows(path, header=header, columns=2)
        rows = rows.with_keys([key for key, _ in rows.file.partitions if key not in rows.names])
        columns = (wanted or Reading()).completed(recorded, rows.names, rows.header.is_given)
        return cls(rows, find_layout(rows.header, columns, timed=timed), timed)

    def has_times(self) -> bool:
        """Whether there is a column that looks like times, even if it was not asked for."""
        if not self.rows.header.is_given:
            return len(self.rows.names) > 2
        return self.layout.time >= 0 or len(time_columns(self.rows.names, (self.layout.src, self.layout.dst))) == 1


@dataclass(frozen=True, slots=True)
class NodeFile(TableFile):
    """A file of node names: its column `node`, else the first."""

    column: int

    @classmethod
    def open(cls, path: files.Input) -> NodeFile:
        """Look at the beginning of a file. Text has a header if its first line has the usual name of a column."""
        file = files.find_file(path)
        rows = open_rows(file, *_guess_layout(file) if file.kind == "text" else (), columns=1)
        if not rows.names:
            raise DataError(f"{file}: has no columns; expected names of nodes")
        plain = [name.strip().lower() for name in rows.names]
        return cls(rows, plain.index(NODE) if NODE in plain else 0)

    def name_chunks(self, rows: int, first: int = 0, stop: int | None = None) -> Iterator[list[Any]]:
        """The names in rows `first` to `stop`, as `chunks` does."""
        for table in self.chunks(rows, first, stop):
            yield TableColumn.at(table, self.column, self.rows.origin(first)).names().to_pylist()
            first += len(table)


def _guess_layout(file: files.File) -> tuple[str, bool]:
    """The delimiter of a text file of nodes, and whether it has a header."""
    skip = sniff(file, "\t", header=False, columns=1).skip
    with file.open() as raw:
        line = raw.read(1 << 16).decode("utf-8-sig", "replace").splitlines()[skip:][:1]
    delimiter = next((mark for mark in ",;|" if line and mark in line[0]), "\t")
    names = [name.strip().lower() for name in split(line[0], delimiter)] if line else []
    return delimiter, NODE in names or has_usual_ends(names) or (len(names) == 1 and names[0] in _NODE_COLUMNS)
