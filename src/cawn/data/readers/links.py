"""Files of links -> the columns of a log, in memory or in files."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cawn.checks import Array
from cawn.data.attributes import Attribute
from cawn.data.columns import Column, Store, steps
from cawn.data.events import NO_NEGATIVE, Events
from cawn.data.names import NameIndex, parse_integers, string_buffers
from cawn.data.readers.rows import Piece, Rows
from cawn.data.readers.tables import AttributeReader, ReadAgainError, TableColumn
from cawn.data.readers.times import FileTimes, join_times
from cawn.data.reading import Layout, Reading, find_layout, name_prefixes
from cawn.data.sorting import ROWS, sort_by_time
from cawn.data.times import format_as_read, usual
from cawn.errors import DataError, QueryError, brief
from cawn.kernels.cpu.numbering import rank_by_appearance
from cawn.progress import ShowProgress


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on what is held in memory at once, in bytes unless noted."""

    piece: int  # of a file
    names: int  # distinct node names and categories
    sorting: int  # rows that are sorted together
    block: int = 1 << 18  # rows that are converted together


@dataclass(slots=True)
class Kinds:
    """What earlier attempts to read a file have found about its columns of text."""

    names_are_text: bool = False
    categories: set[int] = field(default_factory=set)  # attributes that are categories, whatever they begin with


@dataclass(frozen=True, slots=True)
class Links:
    """The rows of one file or table of links, looked at but not read yet."""

    rows: Rows
    layout: Layout  # of the needed columns among all
    reading: Reading  # as far as it is known before the rows are read
    zeros_mean_none: bool  # whether attributes that are all zero mean that there are none, as in JODIE's files

    @classmethod
    def of(cls, rows: Rows, wanted: Reading) -> Links:
        """Find the columns."""
        layout, dialect = find_layout(rows.header, wanted), rows.dialect
        is_jodie = dialect is not None and dialect.is_jodie and not wanted.msg
        if is_jodie:
            layout = replace(layout, msg=tuple(range(4, len(rows.names))))
        return cls(rows, layout, layout.reading(rows.header), is_jodie)


@dataclass(frozen=True, slots=True)
class Log:
    """The columns of all links, sorted by time and finished, and what they hold."""

    columns: dict[str, Column]  # src, dst, t, others that the log has, and the arrays of its names
    num_nodes: int
    reading: Reading
    attributes: tuple[Attribute, ...]
    files: list[tuple[int, Rows]]  # each with its first row among those of all
    notes: list[str]  # what the user should know

    def events(self, arrays: dict[str, Array]) -> Events:
        """Events of the arrays of the columns."""
        events = Events.of_arrays(self.num_nodes, arrays)
        events.columns, events.reading = self.attributes, self.reading
        for note in (*self.notes, *self._far(events.t, arrays)):
            warnings.warn(note, UserWarning, stacklevel=2)
        return events

    def _far(self, t: Array, arrays: dict[str, Array]) -> Iterator[str]:
        """What is unlikely about the times, if anything is."""
        chosen = usual(t)
        if count := len(t) - (chosen.stop - chosen.start):
            at = 0 if chosen.start else len(t) - 1
            row = int(arrays[ROWS][at]) if ROWS in arrays else at
            first, rows = self.files[bisect_right(self.files, row, key=itemgetter(0)) - 1]
            far, low, high = (format_as_read(t[i].item(), self.reading) for i in (at, chosen.start, chosen.stop - 1))
            yield (
                f"{rows.name}, {rows.origin().place(row - first)}: t is {far}, far from other links ({low} to {high}); "
                f"decays and the default time of queries ignore {count:,} such time(s); correct or remove them"
            )


def read_log(
    parts: Sequence[Callable[[], Links]], total: float, store: Store, limits: Limits, report: ShowProgress
) -> Log:
    """Read files of links, of `total` bytes, one after the other into columns of the store.

    They are read again, with what was learnt, where a column turns out to be of another kind than it looked like.
    """
    kinds = [Kinds() for _ in parts]
    while True:
        scan = _Scan(store, limits.names, total)
        try:
            with report("reading", total, unit="bytes") as done:
                for part, known in zip(parts, kinds, strict=True):
                    scan.add(part(), known, limits.piece, done)
            pa.default_memory_pool().release_unused()
            return _finished(scan, store, limits, report)
        except ReadAgainError:
            for column in scan.columns.values():
                column.discard()


class _Scan:
    """The columns of a log as they are while it is read: in the order of the input, with provisional numbers."""

    def __init__(self, store: Store, limit: int, total: float) -> None:
        """`limit`: the memory that names and categories may use; `total`: the size of the log."""
        self._store, self._limit, self._total = store, limit, total
        self._done, self._reserved = 0.0, 0  # bytes that are read, and used
        self.columns: dict[str, Column] = {}
        self.tables: list[NameIndex] = []
        self.prefixes: tuple[str, str] | None = None  # of the names in two tables
        self.first = ("", Reading())  # the name of the first file, and how it was read
        self.times: list[FileTimes] = []
        self.files: list[tuple[int, Rows]] = []
        self.notes: list[str] = []
        self.codes: list[dict[str, int]] = []
        self.attributes: tuple[Attribute, ...] = ()

    def add(self, links: Links, kinds: Kinds, size: int, report: Callable[[float], object]) -> None:
        """Read a file in pieces of about `size` bytes."""
        if self.times:  # refuse other columns before they are read, as far as they are known
            first, msg = self.first[1], links.reading.msg
            msg = first.msg if links.zeros_mean_none and len(msg) == len(self.codes) else msg
            known = replace(links.reading, msg=msg, categorical=first.categorical, dates=first.dates)
            _refuse_difference((links.rows.name, known), self.first)
        else:
            self._create(links)
        reader, before = _FileReader(self, links, kinds), self._done
        self.files.append((self.columns["t"].rows, links.rows))
        for piece in links.rows.pieces(size, links.layout.needed):
            reader.add(piece)
            self._done = before + piece.done
            report(self._done)
        self._done = before + links.rows.size
        found = (links.rows.name, reader.finish())
        if len(self.times) == 1:
            self.first = found
        _refuse_difference(found, self.first)

    def reserve(self, size: int) -> None:
        """Called before so many bytes are used for names and categories."""
        self._reserved += size
        if self._reserved > self._limit:
            share = self._done / max(self._total, 1)
            needed = int(2 * self._reserved / max(share, 0.01)) >> 20
            raise QueryError(
                f"the distinct node names in the first {share:.0%} of the log need more memory than the limit "
                f"leaves for them; set memory to about {needed:,} MiB"
            )

    def _create(self, links: Links) -> None:
        """The columns that the first file has."""
        types: dict[str, Any] = {"src": np.int32, "dst": np.int32, "t": np.int64}
        optional = {"weight": np.float32, "negative": np.int32, "link_id": np.uint64}
        types |= {role: optional[role] for role in links.layout.optional}
        self.columns = {name: self._store.create(f"read-{name}", dtype) for name, dtype in types.items()}
        if links.layout.msg:
            self.columns["msg"] = self._store.create("read-msg", np.float32, len(links.layout.msg))
        self.codes = [{} for _ in links.layout.msg]
        self.prefixes = name_prefixes(links.rows.header, links.layout) if links.layout.bipartite else None
        self.tables = [NameIndex(reserve=self.reserve) for _ in range(1 if self.prefixes is None else 2)]


class _FileReader:
    """Appends the pieces of one file."""

    def __init__(self, scan: _Scan, links: Links, kinds: Kinds) -> None:
        self._scan, self._links, self._layout, self._kinds = scan, links, links.layout, kinds
        self._place = {at: i for i, at in enumerate(links.layout.needed)}  # of each column in a piece
        self._untyped = untyped = links.rows.dialect is not None
        self._integers = untyped and not kinds.names_are_text  # whether all names so far are
        self._with_point = False  # whether one of them is written like 7.0
        self._times = FileTimes(links.rows.name, links.rows.rounds)
        given, known = links.layout.categorical, kinds.categories
        self._attributes = [
            AttributeReader("link", codes, at in given, untyped, True if at in known else None, scan.reserve)
            for at, codes in zip(links.layout.msg, scan.codes, strict=True)
        ]
        self._rows, self._any_msg, self._any_weight, self._boolean_weights = 0, False, False, False
        self._trimmed, self._first_trimmed = 0, ""  # names with white space at an end

    def add(self, piece: Piece) -> None:
        """Append a piece."""
        if len(piece.table) == 0:
            return
        origin, layout, columns = self._links.rows.origin(piece.first), self._layout, self._scan.columns

        def at(position: int) -> TableColumn:
            return TableColumn.at(piece.table, self._place[position], origin)

        optional = {role: at(position) for role, position in layout.optional.items()}
        self._add_names(at(layout.src), at(layout.dst), optional.get("negative"))
        columns["t"].append(self._times.add(at(layout.time)))
        if column := optional.get("weight"):
            self._boolean_weights |= self._untyped and not self._rows and column.holds_booleans()
            weights = column.weights(booleans=self._boolean_weights)
            self._any_weight |= bool(weights.any())
            columns["weight"].append(weights)
        if column := optional.get("link_id"):
            columns["link_id"].append(column.link_ids())
        if layout.msg:
            msg = self._msg(map(at, layout.msg))
            self._any_msg |= bool(msg.any())
            columns["msg"].append(msg)
        self._rows += len(piece.table)

    def finish(self) -> Reading:
        """How the file was read, now that all pieces are appended."""
        reading, name = self._links.reading, self._links.rows.name
        if self._rows == 0:
            raise DataError(f"{name}: no rows; expected at least one link")
        self._scan.times.append(self._times)
        if self._trimmed:
            self._scan.notes.append(f"{self._first_trimmed} ({self._trimmed:,} such name(s) here)")
        if "weight" in self._layout.optional and not self._any_weight:
            column = brief(self._links.rows.names[self._layout.optional["weight"]])
            raise DataError(f"{name}, column {column}: all weights are 0; give some links a weight above 0")
        self._scan.attributes = tuple(reader.finish() for reader in self._attributes)
        if self._links.zeros_mean_none and not self._any_msg:
            return replace(reading, msg=(), categorical=(), dates=self._times.has_dates)
        kinds = zip(reading.msg, self._attributes, strict=True)
        categorical = tuple(column for column, reader in kinds if reader.is_category)
        return replace(reading, categorical=categorical, dates=self._times.has_dates)

    def _add_names(self, src: TableColumn, dst: TableColumn, negative: TableColumn | None) -> None:
        columns, tables, count = self._scan.columns, self._scan.tables, len(src.values)
        given, rows = (None, None) if negative is None else negative.trimmed().negatives()
        ends = [src, dst] if given is None else [src, dst, given]
        src, dst, *negatives = self._ends(ends)
        columns["src"].append(tables[0].add(src.names()))
        columns["dst"].append(tables[-1].add(dst.names()))
        if negatives:
            ids = np.full(count, NO_NEGATIVE, np.int32)
            ids[rows] = tables[-1].add(negatives[0].names())
            columns["negative"].append(ids)

    def _ends(self, ends: list[TableColumn]) -> list[TableColumn]:
        """Sources, destinations and perhaps negatives without white space at both ends of names; those of a text file
        are integers only if all of them are."""
        integers = self._parsed(ends)
        if integers is None:
            ends = [self._without_blanks(column) for column in ends]
            integers = self._parsed(ends)
        if integers is None and self._integers:
            if self._with_point:  # 7.0 was read as 7, but is a string
                self._kinds.names_are_text = True
                raise ReadAgainError
            self._integers = False
        return integers or ends

    def _parsed(self, ends: list[TableColumn]) -> list[TableColumn] | None:
        """The same as integers, if all so far are."""
        if not self._integers:
            return None
        parsed = [parse_integers(column.values) if column.is_text else (column.values, False) for column in ends]
        if any(integers is None for integers, _ in parsed):
            return None
        self._with_point |= any(with_point for _, with_point in parsed)
        return [replace(column, values=values) for column, (values, _) in zip(ends, parsed, strict=True)]

    def _without_blanks(self, names: TableColumn) -> TableColumn:
        found = names.trimmed()
        if found is not names:
            changed = pc.fill_null(pc.not_equal(found.values, names.values), False)
            row = pc.index(changed, True).as_py()
            if row >= 0 and not self._trimmed:
                rule = "white space at the ends of names is left out"
                self._first_trimmed = str(names.error(rule, row, names.values[row].as_py()))
            self._trimmed += pc.sum(changed).as_py() or 0
        return found

    def _msg(self, columns: Iterable[TableColumn]) -> Array:
        pairs = zip(self._attributes, columns, strict=True)
        try:
            return np.stack([reader.add(column) for reader, column in pairs], axis=1)
        except ReadAgainError:
            known = zip(self._layout.msg, self._attributes, strict=True)
            self._kinds.categories.update(at for at, reader in known if reader.is_category)
            raise


def _refuse_difference(found: tuple[str, Reading], first: tuple[str, Reading]) -> None:
    """Refuse files, of these names, that cannot be parts of one log."""
    for role in ("src", "dst", "time", "msg", "categorical", "weight", "negative", "link_id", "bipartite"):
        mine, others = getattr(found[1], role), getattr(first[1], role)
        if mine != others:
            raise DataError(
                f"{found[0]}: {role} is {brief(mine)}, but {brief(others)} in {first[0]}; "
                "files read together need the same columns"
            )
    if found[1].dates != first[1].dates:
        mine, others = ("dates" if reading.dates else "numbers" for _, reading in (found, first))
        raise DataError(f"{found[0]}: times are {mine}, but {others} in {first[0]}")


# What is left to do when all rows are read.


def _finished(scan: _Scan, store: Store, limits: Limits, report: ShowProgress) -> Log:
    columns, attributes = scan.columns, scan.attributes
    unit, is_sorted = join_times(scan.times, columns["t"], limits.block)
    reading = replace(scan.first[1], unit=unit)
    if not reading.msg and "msg" in columns:
        columns.pop("msg").discard()
        attributes = ()
    count = columns["t"].rows
    with report("sorting node names"):
        ranks = _ranks(scan, limits.block)
        names = _write_names(scan, ranks, store, limits.block)
    num_nodes = sum(map(len, ranks))
    if len(ranks) > 1:
        ranks[1] += np.int32(len(ranks[0]))
    ends = {"src": ranks[0], "dst": ranks[-1]}
    if "negative" in columns:
        ends["negative"] = np.append(ranks[-1], np.int32(NO_NEGATIVE))  # which is the number of none, -1

    def renumbered(name: str, values: Array) -> Array:
        return ends[name][values] if name in ends else values

    with report("numbering" if is_sorted else "sorting", count) as done:
        if is_sorted:
            for name in ends:
                for first, rows in steps(count, limits.block):
                    columns[name].replace(first, renumbered(name, columns[name].read(first, rows)))
        else:
            memory = max(limits.sorting - sum(array.nbytes for array in ranks), limits.sorting // 8)
            columns = sort_by_time(columns, store, memory, renumbered, done)
    return Log(columns | names, num_nodes, reading, attributes, scan.files, scan.notes)


def _ranks(scan: _Scan, block: int) -> list[Array]:
    """The final number of each name of a table, from its number in the table.

    Integers keep their order (names 0..N-1 stay as they are); strings are numbered as they appear, first all sources,
    then all destinations, then negatives.
    """
    found = []
    columns = [("src", "dst", "negative")] if len(scan.tables) == 1 else [("src",), ("dst", "negative")]
    for table, names in zip(scan.tables, columns, strict=True):
        if not table.strings:
            found.append(_inverse(np.argsort(table.arrays["names"])))
            continue
        ranks, count = np.full(len(table), -1, np.int32), 0
        for column in (scan.columns[name] for name in names if name in scan.columns):
            for first, rows in steps(column.rows, block):
                count = rank_by_appearance(column.read(first, rows), ranks, count)
        found.append(ranks)
    return found


def _inverse(order: Array) -> npt.NDArray[np.int32]:
    """The inverse of a permutation."""
    found = np.empty(len(order), np.int32)
    found[order] = np.arange(len(order), dtype=np.int32)
    return found


def _write_names(scan: _Scan, ranks: list[Array], store: Store, block: int) -> dict[str, Column]:
    """The arrays of a `NameIndex` of all names."""
    tables, prefixes = scan.tables, scan.prefixes
    if prefixes is None and not tables[0].strings:
        names = store.create("names", np.int64)
        names.append(tables[0].arrays["names"][_inverse(ranks[0])])
        return {"names": names}
    ends, text = store.create("name_ends", np.int64), store.create("name_bytes", np.uint8)
    ends.append(np.zeros(1, np.int64))
    for side, (table, mine) in enumerate(zip(tables, ranks, strict=True)):
        order, names = _inverse(mine), table.arrow()
        for first, count in steps(len(order), block):
            some = names.take(pa.array(order[first : first + count])).cast(pa.large_string())
            if prefixes is not None:
                some = pc.binary_replace_slice(some, 0, 0, f"{prefixes[side]}:")
            at, letters = string_buffers(some)
            ends.append(text.rows + at[1:] - at[0])
            text.append(letters[int(at[0]) : int(at[-1])])
    return {"name_ends": ends, "name_bytes": text}
