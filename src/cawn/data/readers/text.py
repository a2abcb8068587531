"""CSV, TSV and whitespace-separated text, with the conventions of JODIE, SNAP and the CAW authors' files.

The fast path lets Arrow parse and guess types on all cores. Where that fails, the text is read again, slowly and as
strings: to find the value that is wrong, or because only the guess was wrong (a column whose first names are digits).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from cawn.data.names import parse_integers
from cawn.data.readers import files
from cawn.data.readers.columns import Layout, ReadOptions, find_layout, partition_columns
from cawn.data.readers.dialect import Dialect, check_utf8, line_of, sniff
from cawn.data.readers.files import LONGEST_LINE, TOO_LONG, File, SingleSpaces
from cawn.data.readers.tables import Origin, Rows, TableColumn, rows_of
from cawn.data.reading import Reading
from cawn.errors import DataError, brief, reason


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text file of links, looked at but not read yet."""

    file: File
    dialect: Dialect
    layout: Layout
    wanted: Reading

    @classmethod
    def open(cls, file: File, options: ReadOptions) -> TextFile:
        """Find the layout from the first lines."""
        dialect = sniff(file, options.delimiter, options.header)
        keys = partition_columns([key for key, _ in file.partitions], dialect.names, options, dialect.has_header)
        dialect = replace(dialect, partitions=tuple(keys))
        wanted = options.columns(dialect.columns, dialect.has_header)
        layout = find_layout(dialect.columns, wanted, str(file), has_names=dialect.has_header)
        found = cls(file, dialect, layout, wanted)
        if not wanted.msg and dialect.is_jodie and not found.is_authors:
            return replace(found, layout=replace(layout, msg=tuple(range(4, len(dialect.names)))))
        return found

    @property
    def is_authors(self) -> bool:
        """Whether it belongs to the CAW authors' preprocessing: ml_NAME.csv, ml_NAME.npy and ml_NAME_node.npy."""
        own = {"u", "i", "ts", "idx"} <= set(self.dialect.names)
        return not self.wanted.msg and os.path.basename(self.file.path).startswith("ml_") and own

    @property
    def zeros_mean_none(self) -> bool:
        """Whether attributes that are all zero mean that there are none, as in JODIE's files."""
        return not self.wanted.msg

    @property
    def reading(self) -> Reading:
        """The columns that are used, by their names in the file."""
        return self.layout.reading(self.dialect.columns, self.wanted, has_names=self.dialect.has_header)


def read_text(file: File, options: ReadOptions) -> Rows:
    """The links of a text file."""
    text = TextFile.open(file, options)
    if text.is_authors:
        return _authors_rows(text)
    rows = _rows(_parse(file, text.dialect, text.layout), text)
    if text.zeros_mean_none and rows.msg is not None and not rows.msg.any():
        return replace(rows, msg=None, reading=replace(rows.reading, msg=()))
    return rows


def read_node_text(
    file: File, name_column: Callable[[list[str]], int], categorical: Collection[str | int]
) -> tuple[pa.Table, Origin]:
    """All columns of a text file; the one of names and the categorical ones stay text."""
    dialect = sniff(file, columns=2)
    at = name_column(dialect.names)
    texts = [f"{i}" for i, name in enumerate(dialect.names) if i == at or name in categorical]
    table = _read_guessed(file, dialect, [f"{i}" for i in range(len(dialect.names))], texts)
    return table.rename_columns(dialect.names), text_origin(file, dialect)


@contextmanager
def open_text(file: File, dialect: Dialect) -> Iterator[Iterator[pa.RecordBatch]]:
    """Batches of rows, all columns as text."""
    with file.open() as raw:
        reader = csv.open_csv(spaced(raw, file, dialect), **csv_options(dialect, slow=True))
        trim = pc.utf8_trim_whitespace if dialect.padded else lambda column: column
        yield (pa.RecordBatch.from_arrays([*map(trim, batch.columns)], dialect.names) for batch in reader)


def text_origin(file: File, dialect: Dialect, first: int = 0) -> Origin:
    """For messages about a table that begins at row `first` of the file."""
    return Origin(str(file), lambda row: f"line {line_of(file, dialect, first + row)}")


def _rows(table: pa.Table, text: TextFile) -> Rows:
    """The links of a table of the layout's needed columns."""
    return rows_of(table, text.layout.narrowed(), text_origin(text.file, text.dialect), text.reading)


def _parse(file: File, dialect: Dialect, layout: Layout) -> pa.Table:
    """The needed columns, in the layout's order. Names are integers only if all of them are."""
    texts = text_columns(layout)
    own = [f"{i}" for i in layout.needed if i < len(dialect.names)]
    table = _read_guessed(file, dialect, own, [name for name in texts if name in own], exact=f"{layout.time}")
    table = with_partitions(table, file, dialect, layout, texts)
    ends = [f"{i}" for i in (layout.src, layout.dst, layout.negative) if i is not None]
    for name, column in zip(ends, parse_ends([table.column(name) for name in ends]) or (), strict=False):
        table = table.set_column(table.column_names.index(name), name, column)
    return table.rename_columns([dialect.columns[i] for i in layout.needed])


def text_columns(layout: Layout) -> list[str]:
    """The columns whose type is not guessed, by position: names of nodes, categories and ids."""
    ends = (layout.src, layout.dst, layout.negative)
    return [f"{i}" for i in dict.fromkeys((*ends, *layout.categorical, layout.link_id)) if i is not None]


def with_partitions(table: pa.Table, file: File, dialect: Dialect, layout: Layout, texts: Sequence[str]) -> pa.Table:
    """A table of columns of the file, with those of its folders; all in the layout's order."""
    values = dict(file.partitions)
    for i in layout.needed:
        if i >= len(dialect.names):
            value = values[dialect.columns[i]]
            column = files.constant("" if value is None else str(value), len(table)) if f"{i}" in texts else None
            table = table.append_column(f"{i}", files.constant(value, len(table)) if column is None else column)
    return table.select([f"{i}" for i in layout.needed])


def parse_ends(columns: Sequence[pa.ChunkedArray]) -> list[pa.ChunkedArray] | None:
    """Sources, destinations and perhaps negatives as integers, or None unless all names are."""
    integers = [*map(parse_integers, columns[:2]), *map(_parse_integers_or_null, columns[2:])]
    return None if any(column is None for column in integers) else integers


def _parse_integers_or_null(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """As `parse_integers`, null where the text is empty."""
    given = pc.not_equal(column, "")
    integers = parse_integers(column.filter(given))
    if integers is None:
        return None
    place = pc.subtract(pc.cumulative_sum(pc.cast(given, pa.int64())), 1)
    return integers.take(pc.if_else(given, place, None))


def _read_guessed(
    file: File, dialect: Dialect, needed: list[str], texts: list[str], exact: str | None = None
) -> pa.Table:
    """The needed columns, with types guessed but for `texts`; all as text where a guess fails or rounds `exact`."""
    try:
        try:
            table = _read_csv(file, dialect, needed, as_text=texts)
            guessed = exact not in table.column_names or not beyond_float64(table[exact])
        except pa.ArrowInvalid:
            guessed = False
        if not guessed:
            table = _read_slowly(file, dialect, needed)
    except (OSError, EOFError, UnicodeError) as error:
        raise DataError(f"{file}: is damaged ({reason(error)}); download or write the file again") from error
    if dialect.padded:
        for i, name in enumerate(table.column_names):
            if pa.types.is_string(table.column(i).type):
                table = table.set_column(i, name, pc.utf8_trim_whitespace(table.column(i)))
    return table


def beyond_float64(time: pa.ChunkedArray) -> bool:
    """Whether these are floating-point numbers, some so large that float64 may have rounded an integer."""
    if not pa.types.is_float64(time.type):
        return False
    bounds = pc.min_max(time)
    return bool(max(abs(bounds[end].as_py() or 0) for end in ("min", "max")) >= 2.0**53)


def _read_slowly(file: File, dialect: Dialect, needed: list[str]) -> pa.Table:
    """All as text, on one core; allows quoted line breaks and very long lines, and finds ragged rows."""
    check_utf8(file)  # else Arrow cannot say which row is ragged
    ragged: list[Any] = []

    def remember(row: Any) -> str:
        if not ragged:
            ragged.append(row)
        return "skip"

    try:
        table = _read_csv(file, dialect, needed, as_text=needed, on_ragged=remember)
    except pa.ArrowInvalid as error:
        why = reason(error)
        if "straddl" in why:
            raise DataError(f"{file}: {TOO_LONG}") from error
        if "skip initial" in why or "Empty CSV" in why:
            raise DataError(f"{file}: no rows; expected at least one link") from error
        raise DataError(f"{file}: cannot be read as text ({why[:100]}); is it UTF-8?") from error
    if ragged:
        row = ragged[0]
        line = line_of(file, dialect, row.number - 1 - dialect.skip)
        fields = f"found {row.actual_columns} fields, expected {row.expected_columns}"
        raise DataError(f"{file}, line {line}: {fields}: {brief(row.text[:60])}")
    return table


def _read_csv(
    file: File, dialect: Dialect, needed: list[str], *, as_text: list[str], on_ragged: Any = None
) -> pa.Table:
    options = csv_options(dialect, needed, as_text, on_ragged, slow=on_ragged is not None)
    with file.open() as raw:
        return csv.read_csv(spaced(raw, file, dialect), **options)


def spaced(raw: Any, file: File, dialect: Dialect) -> Any:
    """The stream, with runs of blanks as one space where these separate fields."""
    return SingleSpaces(raw, str(file)) if dialect.delimiter == " +" else raw


def csv_options(
    dialect: Dialect,
    needed: list[str] | None = None,
    as_text: list[str] | None = None,
    on_ragged: Any = None,
    *,
    slow: bool,
) -> dict[str, Any]:
    """Arguments of Arrow's CSV readers. Columns are called "0", "1", ...; by default, all are read as text."""
    names = [f"{i}" for i in range(len(dialect.names))]
    text = dict.fromkeys(names if as_text is None else as_text, pa.string())
    delimiter = " " if dialect.delimiter == " +" else dialect.delimiter
    size = LONGEST_LINE if slow else None
    return {
        "read_options": csv.ReadOptions(
            skip_rows=dialect.skip, column_names=names, use_threads=not slow, block_size=size
        ),
        "parse_options": csv.ParseOptions(delimiter=delimiter, invalid_row_handler=on_ragged, newlines_in_values=slow),
        "convert_options": csv.ConvertOptions(
            include_columns=needed, column_types=text, strings_can_be_null=False, null_values=[""]
        ),
    }


# The files of the CAW authors' preprocessing: ml_NAME.csv, ml_NAME.npy (links) and ml_NAME_node.npy (nodes).


def _authors_rows(text: TextFile) -> Rows:
    """Links with the features of the other two files: of a link by its `idx`, of a node by its number."""
    file, at = text.file, text.dialect.names.index("idx")
    with_index = replace(text.layout, msg=(at,))
    table, position = _parse(file, text.dialect, with_index), with_index.needed.index
    rows = _rows(table.select([position(i) for i in text.layout.needed]), text)
    index = TableColumn.at(table, position(at), rows.origin)
    base = file.path[: file.path.rindex(".csv")] if ".csv" in os.path.basename(file.path) else file.path
    rule = "expected a row number of the feature file"
    msg = _feature_rows(f"{base}.npy", "idx", index.integers(rule))
    return replace(rows, msg=msg, node_attributes=partial(_feature_rows, f"{base}_node.npy", "node number"))


def _feature_rows(path: str, what: str, index: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    """Rows of a feature file. None if there is no such file, or if it is all zeros, which means no features."""
    if not os.path.exists(path):
        return None
    try:
        features = np.load(path, allow_pickle=False)
    except Exception as error:  # a damaged header can raise almost anything
        raise DataError(f"{path}: not a NumPy array file, or a damaged one; write it again") from error
    if not isinstance(features, np.ndarray) or features.dtype.kind not in "iuf":
        raise DataError(f"{path}: expected one array of numbers")
    if not features.any():
        return None
    if features.ndim != 2 or index.dtype.kind != "i" or index.max() >= len(features) or index.min() < 0:
        raise DataError(f"{path}: has shape {features.shape}, but the links refer to {what} {index.max()}")
    return np.asarray(features[index])
