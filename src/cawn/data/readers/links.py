"""Files of links -> the columns of a log, in memory or in files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cawn.data.attributes import Attribute
from cawn.data.columns import Column, Store, steps
from cawn.data.events import NO_NEGATIVE
from cawn.data.names import NameIndex, parse_integers, string_buffers
from cawn.data.readers.attributes import AttributeReader, Category
from cawn.data.readers.columns import Layout, ReadOptions, find_layout
from cawn.data.readers.rows import Piece, Rows
from cawn.data.readers.sorting import sort_by_time
from cawn.data.readers.tables import Origin, TableColumn
from cawn.data.readers.times import FileTimes, Kinds, LogTimes, ReadAgainError
from cawn.data.reading import Reading
from cawn.errors import DataError, QueryError, brief
from cawn.kernels.cpu.numbering import rank_by_appearance
from cawn.progress import ShowProgress

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on what is held in memory at once, in bytes unless noted."""

    piece: int  # of a file
    names: int  # distinct node names and categories
    sorting: int  # rows that are sorted together
    block: int = 1 << 18  # rows that are converted together


@dataclass(frozen=True, slots=True)
class Links:
    """The rows of one file or table of links, looked at but not read yet.

    Args:
        layout: Of the needed columns among all.
        reading: As far as it is known before the rows are read.
        zeros_mean_none: Whether attributes that are all zero mean that there are none, as in JODIE's files.
    """

    rows: Rows
    layout: Layout
    reading: Reading
    zeros_mean_none: bool = False

    @classmethod
    def of(cls, rows: Rows, options: ReadOptions) -> Links:
        """Find the columns."""
        wanted = options.columns(rows.names, rows.has_names)
        layout = find_layout(rows.names, wanted, rows.name, has_names=rows.has_names)
        dialect = rows.dialect
        if not wanted.msg and dialect is not None and dialect.is_jodie:
            layout = replace(layout, msg=tuple(range(4, len(dialect.names))))
        reading = layout.reading(rows.names, wanted, has_names=rows.has_names)
        return cls(rows, layout, reading, dialect is not None and not wanted.msg)


@dataclass(frozen=True, slots=True)
class Log:
    """The columns of all links, sorted by time and finished, and what they hold."""

    columns: dict[str, Column]  # src, dst, t, others that the log has, and the arrays of its names
    num_links: int
    num_nodes: int
    reading: Reading
    attributes: tuple[Attribute, ...]


def read_log(
    parts: Sequence[Callable[[], Links]], total: float, store: Store, limits: Limits, report: ShowProgress
) -> Log:
    """Read files of links, of `total` bytes, one after the other into columns of the store.

    They are read again, with what was learnt, where a column turns out to be of another kind than it looked like.
    """
    kinds = [Kinds() for _ in parts]
    while True:
        scan = _Scan(store, Budget(limits.names, total))
        try:
            with report("reading", total, unit="bytes") as done:
                for part, known in zip(parts, kinds, strict=True):
                    scan.add(part(), known, limits.piece, done)
            pa.default_memory_pool().release_unused()
            return _finished(scan, store, limits, report)
        except ReadAgainError:
            scan.discard()


class Budget:
    """The memory that names and categories may use."""

    def __init__(self, limit: int, total: float) -> None:
        self._limit, self._used, self._total = limit, 0, total
        self.done = 0.0  # bytes of the log that are read

    def reserve(self, size: int) -> None:
        """Called before so many bytes are used."""
        self._used += size
        if self._used > self._limit:
            share = self.done / max(self._total, 1)
            needed = int(2 * self._used / max(share, 0.01)) >> 20
            raise QueryError(
                f"the distinct node names in the first {share:.0%} of the log need more memory than the limit "
                f"leaves for them; set memory to about {needed:,} MiB"
            )


# Reading.


@dataclass(frozen=True, slots=True)
class _Part:
    """What is known of a file once it is read."""

    reading: Reading
    origin: Origin
    has_dates: bool


class _Scan:
    """The columns of a log as they are while it is read: in the order of the input, with provisional numbers."""

    def __init__(self, store: Store, budget: Budget) -> None:
        self._store, self._budget = store, budget
        self.columns: dict[str, Column] = {}
        self.tables: list[NameIndex] = []
        self.parts: list[_Part] = []
        self.times: list[FileTimes] = []
        self.categories: list[Category] = []
        self.attributes: tuple[Attribute, ...] = ()
        self.prefixes: tuple[str, str] | None = None

    def add(self, links: Links, kinds: Kinds, size: int, report: Callable[[float], object]) -> None:
        """Read a file in pieces of about `size` bytes."""
        if self.parts:
            self._refuse_columns(links)
        else:
            self._create(links)
        reader, before = _FileReader(self, links, kinds), self._budget.done
        for piece in links.rows.pieces(size, links.layout.needed):
            reader.add(piece)
            self._budget.done = before + piece.done
            report(before + piece.done)
        self._budget.done = before + links.rows.size
        part = reader.finish()
        if self.parts:
            _refuse_difference(self.parts[0], part)
        self.parts.append(part)

    def discard(self) -> None:
        for column in self.columns.values():
            column.discard()

    def _create(self, first: Links) -> None:
        types: dict[str, Any] = {"src": np.int32, "dst": np.int32, "t": np.int64}
        optional = {"weight": np.float32, "negative": np.int32, "link_id": np.uint64}
        types |= {role: optional[role] for role in first.layout.optional}
        self.columns = {name: self._store.create(f"read-{name}", dtype) for name, dtype in types.items()}
        if first.layout.msg:
            self.columns["msg"] = self._store.create("read-msg", np.float32, len(first.layout.msg))
        self.categories = [Category(self._budget.reserve) for _ in first.layout.msg]
        self.prefixes = first.layout.prefixes if first.reading.bipartite else None
        self.tables = [NameIndex(reserve=self._budget.reserve) for _ in range(1 if self.prefixes is None else 2)]

    def _refuse_columns(self, links: Links) -> None:
        """Refuse other columns before the file is read, as far as they are known."""
        first, msg = self.parts[0], links.reading.msg
        if links.zeros_mean_none and len(msg) == len(self.categories):
            msg = first.reading.msg
        reading = replace(links.reading, categorical=first.reading.categorical, msg=msg)
        _refuse_difference(first, _Part(reading, links.rows.origin(), first.has_dates))


class _FileReader:
    """Appends the pieces of one file."""

    def __init__(self, scan: _Scan, links: Links, kinds: Kinds) -> None:
        self._scan, self._links, self._layout, self._kinds = scan, links, links.layout.narrowed(), kinds
        self._untyped = untyped = links.rows.dialect is not None
        self._integers = untyped and not kinds.names_are_text  # whether all names so far are
        self._with_point = False  # whether one of them is written like 7.0
        self._times = FileTimes(links.rows.origin(), kinds, links.rows.rounds)
        self._attributes = [
            AttributeReader(
                category, "link", given=at in self._layout.categorical, known=at in kinds.categories, untyped=untyped
            )
            for at, category in zip(self._layout.msg, scan.categories, strict=True)
        ]
        self._rows, self._any_msg, self._any_weight, self._boolean_weights = 0, False, False, False

    def add(self, piece: Piece) -> None:
        """Append a piece."""
        if len(piece.table) == 0:
            return
        origin, layout, columns = self._links.rows.origin(piece.first), self._layout, self._scan.columns
        at = partial(TableColumn.at, piece.table, origin=origin)
        self._add_names(at, len(piece.table))
        columns["t"].append(self._times.add(at(layout.time)))
        if layout.weight is not None:
            column = at(layout.weight)
            self._boolean_weights |= self._untyped and not self._rows and column.holds_booleans()
            weights = column.weights(booleans=self._boolean_weights)
            self._any_weight |= bool(weights.any())
            columns["weight"].append(weights)
        if layout.link_id is not None:
            columns["link_id"].append(at(layout.link_id).link_ids())
        if layout.msg:
            msg = np.stack([self._attribute(reader, at(i)) for i, reader in self._readers()], axis=1)
            self._any_msg |= bool(msg.any())
            columns["msg"].append(msg)
        self._rows += len(piece.table)

    def finish(self) -> _Part:
        """What is known now that all pieces are appended."""
        reading, origin = self._links.reading, self._links.rows.origin()
        if self._rows == 0:
            raise DataError(f"{origin.name}: no rows; expected at least one link")
        self._times.finish()
        self._scan.times.append(self._times)
        if self._layout.weight is not None and not self._any_weight:
            name = brief(self._links.rows.names[self._links.layout.weight or 0])
            raise DataError(f"{origin.name}, column {name}: all weights are 0; give some links a weight above 0")
        attributes = tuple(reader.finish() for reader in self._attributes)
        self._scan.attributes = self._scan.attributes or attributes
        kinds = zip(reading.msg, attributes, strict=True)
        reading = replace(reading, categorical=tuple(column for column, found in kinds if found.kind == "category"))
        if self._links.zeros_mean_none and not self._any_msg:
            reading = replace(reading, msg=(), categorical=())
        return _Part(reading, origin, self._times.has_dates)

    def _add_names(self, at: Callable[[int], TableColumn], count: int) -> None:
        layout, columns, tables = self._layout, self._scan.columns, self._scan.tables
        given, rows = (None, None) if layout.negative is None else at(layout.negative).negatives()
        src, dst, *negatives = self._ends([at(layout.src), at(layout.dst), *([] if given is None else [given])])
        columns["src"].append(tables[0].add(src.names()))
        columns["dst"].append(tables[-1].add(dst.names()))
        if negatives:
            found = np.full(count, NO_NEGATIVE, np.int32)
            found[rows] = tables[-1].add(negatives[0].names())
            columns["negative"].append(found)

    def _ends(self, ends: list[TableColumn]) -> list[TableColumn]:
        """Sources, destinations and perhaps negatives; those of a text file are integers only if all of them are."""
        if not self._integers:
            return ends
        parsed = [parse_integers(column.values) if column.is_text else (column.values, False) for column in ends]
        if all(integers is not None for integers, _ in parsed):
            self._with_point |= any(with_point for _, with_point in parsed)
            return [replace(column, values=values) for column, (values, _) in zip(ends, parsed, strict=True)]
        if self._with_point:  # 7.0 was read as 7, but is a string
            self._kinds.names_are_text = True
            raise ReadAgainError
        self._integers = False
        return ends

    def _readers(self) -> Iterator[tuple[int, AttributeReader]]:
        return zip(self._layout.msg, self._attributes, strict=True)

    def _attribute(self, reader: AttributeReader, column: TableColumn) -> Array:
        try:
            return reader.add(column)
        except ReadAgainError:
            self._kinds.categories.add(next(i for i, each in self._readers() if each is reader))
            raise


def _refuse_difference(first: _Part, part: _Part) -> None:
    """Refuse files that cannot be parts of one log."""
    for role in ("src", "dst", "time", "msg", "categorical", "weight", "negative", "link_id", "bipartite"):
        mine, others = getattr(part.reading, role), getattr(first.reading, role)
        if mine != others:
            raise DataError(
                f"{part.origin.name}: {role} is {brief(mine)}, but {brief(others)} in {first.origin.name}; "
                "files read together need the same columns"
            )
    if first.has_dates != part.has_dates:
        kinds = ["dates" if rows.has_dates else "numbers" for rows in (part, first)]
        raise DataError(f"{part.origin.name}: times are {kinds[0]}, but {kinds[1]} in {first.origin.name}")


# What is left to do when all rows are read.


def _finished(scan: _Scan, store: Store, limits: Limits, report: ShowProgress) -> Log:
    times = LogTimes(scan.times)
    reading = replace(scan.parts[0].reading, dates=times.has_dates, unit=times.unit)
    attributes = tuple(
        replace(column, levels=tuple(category.codes)) if column.kind == "category" else column
        for column, category in zip(scan.attributes, scan.categories, strict=True)
    )
    columns = scan.columns
    if not reading.msg and "msg" in columns:
        columns.pop("msg").discard()
        attributes = ()
    count = columns["t"].rows
    is_sorted = times.convert(columns["t"], limits.block)
    with report("sorting node names"):
        ranks = _ranks(scan, limits.block)
        names = _write_names(scan, ranks, store)
    num_nodes = sum(map(len, ranks))
    if len(ranks) > 1:
        ranks[1] += np.int32(len(ranks[0]))
    ends = {"src": ranks[0], "dst": ranks[-1], "negative": ranks[-1]}
    with report("numbering" if is_sorted else "sorting", count) as done:
        if is_sorted:
            for name in ends.keys() & columns.keys():
                for first, rows in steps(count, limits.block):
                    columns[name].replace(first, _renumbered(ends, name, columns[name].read(first, rows)))
        else:
            memory = max(limits.sorting - sum(array.nbytes for array in ranks), limits.sorting // 8)
            columns = sort_by_time(columns, store, memory, partial(_renumbered, ends), done)
    return Log(columns | names, count, num_nodes, reading, attributes)


def _renumbered(ends: dict[str, Array], name: str, values: Array) -> Array:
    """Some values of a column, with the final numbers of nodes."""
    if name not in ends:
        return values
    found = ends[name][values]
    return np.where(values == NO_NEGATIVE, np.int32(NO_NEGATIVE), found) if name == "negative" else found


def _ranks(scan: _Scan, block: int) -> list[Array]:
    """The final number of each name of a table, from its number in the table.

    Integers keep their order (names 0..N-1 stay as they are); strings are numbered as they appear, first all sources,
    then all destinations, then negatives.
    """
    found = []
    for side, table in enumerate(scan.tables):
        ranks = np.full(len(table), -1, np.int32)
        if table.strings:
            count = 0
            for name in ["src", "dst", "negative"] if len(scan.tables) == 1 else [["src"], ["dst", "negative"]][side]:
                if name in scan.columns:
                    for first, rows in steps(scan.columns[name].rows, block):
                        count = rank_by_appearance(scan.columns[name].read(first, rows), ranks, count)
        else:
            ranks = _inverse(np.argsort(table.arrays["names"]))
        found.append(ranks)
    return found


def _inverse(order: Array) -> npt.NDArray[np.int32]:
    """The inverse of a permutation."""
    found = np.empty(len(order), np.int32)
    found[order] = np.arange(len(order), dtype=np.int32)
    return found


def _write_names(scan: _Scan, ranks: list[Array], store: Store) -> dict[str, Column]:
    """The arrays of a `NameIndex` of all names."""
    tables, prefixes = scan.tables, scan.prefixes
    orders = [_inverse(mine) for mine in ranks]
    if prefixes is None and not tables[0].strings:
        names = store.create("names", np.int64)
        for block in tables[0].select(orders[0]):
            names.append(block["names"])
        return {"names": names}
    ends, text = store.create("name_ends", np.int64), store.create("name_bytes", np.uint8)
    ends.append(np.zeros(1, np.int64))
    for side, (table, order) in enumerate(zip(tables, orders, strict=True)):
        for block in table.select(order):
            block_ends, block_text = _texts(block, None if prefixes is None else f"{prefixes[side]}:")
            ends.append(text.rows + block_ends[1:] - block_ends[0])
            text.append(block_text[int(block_ends[0]) : int(block_ends[-1])])
    return {"name_ends": ends, "name_bytes": text}


def _texts(block: dict[str, Array], prefix: str | None) -> tuple[Array, Array]:
    """Offsets and bytes of names, each after the prefix."""
    if prefix is None:
        return block["name_ends"], block["name_bytes"]
    if "names" in block:
        names = pa.array(block["names"]).cast(pa.large_string())
    else:
        buffers = [None, *(pa.py_buffer(block[name]) for name in ("name_ends", "name_bytes"))]
        names = pa.Array.from_buffers(pa.large_string(), len(block["name_ends"]) - 1, buffers)
    empty, prefix = pa.scalar("", pa.large_string()), pa.scalar(prefix, pa.large_string())
    return string_buffers(pc.binary_join_element_wise(prefix, names, empty))
