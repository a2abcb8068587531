"""CSV, TSV and whitespace-separated text, with the conventions of JODIE, SNAP and the CAW authors' files.

The fast path lets Arrow parse and guess types on all cores. Only if that fails is the text read again, slowly and as
strings, to find the value that is wrong, or to see that nothing is (a column whose first names are all digits).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from cawn.data.names import parse_integers
from cawn.data.readers.authors import is_authors_file, link_features, node_features
from cawn.data.readers.columns import Layout, Roles, find_layout, reading_of
from cawn.data.readers.dialect import Dialect, line_of, refuse_other_encodings, sniff
from cawn.data.readers.files import File, first_line, opened
from cawn.data.readers.lines import LONGEST_LINE, TOO_LONG, SingleBlanks
from cawn.data.readers.tables import Origin, Rows, integer_column, rows_of
from cawn.errors import DataError, brief


def read_text(path: File, roles: Roles, *, bipartite: bool | None, delimiter: str | None, header: bool | None) -> Rows:
    """The links of a text file; `delimiter` and `header` overrule the guess of its layout."""
    dialect = sniff(path, delimiter, header)
    layout = find_layout(dialect.names, roles, str(path), has_names=dialect.has_header)
    if not roles.msg and is_authors_file(path.path, dialect.names):
        return _authors_rows(path, dialect, layout, bipartite)
    if not roles.msg and dialect.is_jodie:
        layout = replace(layout, msg=tuple(range(4, len(dialect.names))))
    rows = _rows(path, dialect, layout, bipartite)
    if not roles.msg and rows.msg is not None and not rows.msg.any():
        return replace(rows, msg=None, reading=replace(rows.reading, msg=()))  # JODIE writes no features as zeros
    return rows


def _rows(path: File, dialect: Dialect, layout: Layout, bipartite: bool | None) -> Rows:
    source = Origin(str(path), lambda row: f"line {line_of(path, dialect, row)}")
    reading = reading_of(layout, dialect.names, has_names=dialect.has_header, bipartite=bipartite)
    return rows_of(_parse(path, dialect, layout), layout.narrowed(), source, reading)


def _authors_rows(path: File, dialect: Dialect, layout: Layout, bipartite: bool | None) -> Rows:
    """Links with the features that stand in other files, by the column idx."""
    rows = _rows(path, dialect, layout, bipartite)
    table = _parse(path, dialect, replace(layout, msg=(dialect.names.index("idx"),)))
    index = integer_column(table.column("idx"), "idx", rows.source, "expected a row number of the feature file")
    return replace(rows, msg=link_features(path.path, index), node_attributes=partial(node_features, path.path))


def _parse(path: File, dialect: Dialect, layout: Layout) -> pa.Table:
    """A table of the needed columns only, in the layout's order; names are integers only if all of them are."""
    needed = [f"{i}" for i in layout.needed]
    ends = [f"{i}" for i in (layout.src, layout.dst, layout.negative) if i is not None]
    texts = [*ends, *(f"{i}" for i in layout.categorical if f"{i}" not in ends)]
    if layout.link_id is not None:
        texts.append(f"{layout.link_id}")
    table = _read_guessed(path, dialect, needed, texts, exact=f"{layout.time}")
    integers = [parse_integers(table.column(name)) for name in ends[:2]]
    if layout.negative is not None:
        integers.append(_parse_integers_or_null(table.column(ends[2])))
    if all(column is not None for column in integers):
        for name, column in zip(ends, integers, strict=True):
            table = table.set_column(table.column_names.index(name), name, column)
    return table.select(needed).rename_columns([dialect.names[i] for i in layout.needed])


def _parse_integers_or_null(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """As `parse_integers`, null where the text is empty."""
    there = pc.not_equal(column, "")
    given = parse_integers(column.filter(there))
    if given is None:
        return None
    place = pc.subtract(pc.cumulative_sum(pc.cast(there, pa.int64())), 1)
    return given.take(pc.if_else(there, place, None))


def read_columns(
    path: File, names_at: Callable[[list[str]], list[int]], categorical: Sequence[str | int]
) -> tuple[pa.Table, Origin]:
    """All columns of a text file; those at `names_at` (of the header) and the categorical ones stay text."""
    dialect = sniff(path, columns=2)
    named = names_at(dialect.names)
    texts = [f"{i}" for i, name in enumerate(dialect.names) if i in named or name in categorical]
    table = _read_guessed(path, dialect, [f"{i}" for i in range(len(dialect.names))], texts)
    return table.rename_columns(dialect.names), Origin(str(path), lambda row: f"line {line_of(path, dialect, row)}")


def _read_guessed(
    path: File, dialect: Dialect, needed: list[str], texts: list[str], exact: str | None = None
) -> pa.Table:
    """The needed columns, with types guessed but for `texts`; all as text where a guess fails or rounds `exact`."""
    try:
        try:
            table = _read_csv(path, dialect, needed, as_text=texts)
            is_wrong = exact is not None and pa.types.is_float64(table[exact].type) and _beyond_float64(table[exact])
        except pa.ArrowInvalid:
            is_wrong = True
        if is_wrong:
            table = _read_slowly(path, dialect, needed)
    except (OSError, EOFError, UnicodeError) as error:
        reason = first_line(error)
        raise DataError(f"{path}: the data are damaged ({reason}); fetch or write the file again") from error
    if dialect.padded:
        for i, name in enumerate(table.column_names):
            if pa.types.is_string(table.column(i).type):
                table = table.set_column(i, name, pc.utf8_trim_whitespace(table.column(i)))
    return table


def _beyond_float64(time: pa.ChunkedArray) -> bool:
    """Whether some of these numbers are so large that float64 may have rounded an integer."""
    bounds = pc.min_max(time)
    return bool(max(abs(bounds[end].as_py() or 0) for end in ("min", "max")) >= 2.0**53)


def _read_slowly(path: File, dialect: Dialect, needed: list[str]) -> pa.Table:
    """Everything as text, on one core, quoted line breaks and very long lines allowed, ragged rows found."""
    refuse_other_encodings(path, dialect.compression)  # Arrow cannot say which row is ragged if that is not UTF-8
    ragged: list[Any] = []

    def remember(row: Any) -> str:
        if not ragged:
            ragged.append(row)
        return "skip"

    try:
        table = _read_csv(path, dialect, needed, as_text=needed, on_ragged=remember)
    except pa.ArrowInvalid as error:
        reason = first_line(error)
        if "straddl" in reason:
            raise DataError(f"{path}: {TOO_LONG}") from error
        if "skip initial" in reason or "Empty CSV" in reason:
            raise DataError(f"{path}: no rows; expected at least one link") from error
        raise DataError(f"{path}: cannot be read as text ({reason[:100]}); is it UTF-8?") from error
    if ragged:
        row = ragged[0]
        place = f"line {line_of(path, dialect, row.number - 1 - dialect.skip)}"
        fields = f"found {row.actual_columns} fields, expected {row.expected_columns}"
        raise DataError(f"{path}, {place}: {fields}: {brief(row.text[:60])}")
    return table


def _read_csv(
    path: File, dialect: Dialect, needed: list[str], *, as_text: list[str], on_ragged: Any = None
) -> pa.Table:
    slowly = on_ragged is not None
    read = csv.ReadOptions(
        skip_rows=dialect.skip,
        column_names=[f"{i}" for i in range(len(dialect.names))],
        use_threads=not slowly,
        block_size=LONGEST_LINE if slowly else None,
    )
    blanks = dialect.delimiter == " +"
    parse = csv.ParseOptions(
        delimiter=" " if blanks else dialect.delimiter, invalid_row_handler=on_ragged, newlines_in_values=slowly
    )
    convert = csv.ConvertOptions(
        include_columns=needed,
        column_types=dict.fromkeys(as_text, pa.string()),
        strings_can_be_null=False,
        null_values=[""],
    )
    with opened(path, dialect.compression) as file:
        source = SingleBlanks(file, str(path)) if blanks else file
        return csv.read_csv(source, read_options=read, parse_options=parse, convert_options=convert)
