"""CSV, TSV and whitespace-separated text, with the conventions of JODIE, SNAP and the CAW authors' files.

The fast path lets Arrow parse and guess types on all cores. Only if that fails is the text read again, slowly and as
strings, to find the value that is wrong, or to see that nothing is (a column whose first names are all digits).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv

from cawn.errors import DataError
from cawn.events import Events
from cawn.readers.authors import authors_features, is_authors_file
from cawn.readers.columns import Layout, Roles, find_layout
from cawn.readers.dialect import Dialect, SingleBlanks, line_of, opened, sniff
from cawn.readers.tables import Source, attributes_of, links_of


def read_text(path: str, roles: Roles, *, bipartite: bool | None, delimiter: str | None, header: bool | None) -> Events:
    """Events of a text file; `delimiter` and `header` overrule the guess of its layout."""
    dialect = sniff(path, delimiter, header)
    layout = find_layout(dialect.names, roles, path, has_names=dialect.has_header)
    by_convention = not roles.msg
    authors = by_convention and is_authors_file(path, dialect.names)
    if by_convention and dialect.is_jodie:
        layout = replace(layout, msg=tuple(range(4, len(dialect.names))))
    elif authors:
        layout = replace(layout, msg=(dialect.names.index("idx"),))
    source = Source(path, lambda row: f"line {line_of(path, dialect, row)}")
    table = _parse(path, dialect, layout, source)
    layout = layout.narrowed()
    links = links_of(table, layout, source, bipartite)
    msg, x = attributes_of(table, layout, source), None
    if authors and msg is not None:
        msg, x = authors_features(path, msg[:, 0], links.labels)
    elif by_convention and msg is not None and not msg.any():
        msg = None  # JODIE asks networks without features for a column of zeros
    return Events(links.src, links.dst, links.t, msg, x=x, labels=links.labels)


def _parse(path: str, dialect: Dialect, layout: Layout, source: Source) -> pa.Table:
    """A table of the needed columns only, in the layout's order."""
    needed = [f"{i}" for i in layout.needed]
    try:
        table = _read_csv(
            path, dialect, csv.ConvertOptions(include_columns=needed, strings_can_be_null=False, null_values=[""])
        )
        ends = (table.column(f"{layout.src}").type, table.column(f"{layout.dst}").type)
        if all(pa.types.is_int64(kind) or pa.types.is_string(kind) for kind in ends) and ends[0] == ends[1]:
            return _named(table, dialect, layout)
    except pa.ArrowInvalid:
        pass
    except (OSError, EOFError, UnicodeError) as error:
        raise DataError(
            f"{path}: the data are damaged ({str(error).splitlines()[0]}); fetch or write the file again"
        ) from error
    ragged: list[Any] = []
    table = _read_as_text(path, dialect, needed, ragged)
    if ragged:
        row = ragged[0]
        place = f"line {line_of(path, dialect, row.number - 1 - dialect.skip)}"
        raise DataError(
            f"{path}, {place}: found {row.actual_columns} fields, expected {row.expected_columns}: {row.text[:60]!r}"
        )
    return _named(_integers_where_possible(table, layout), dialect, layout)


def _read_as_text(path: str, dialect: Dialect, needed: list[str], ragged: list[Any]) -> pa.Table:
    def remember(row: Any) -> str:
        ragged.append(row)
        return "skip"

    convert = csv.ConvertOptions(
        include_columns=needed, column_types={c: pa.string() for c in needed}, strings_can_be_null=False
    )
    try:
        return _read_csv(path, dialect, convert, on_ragged=remember)
    except pa.ArrowInvalid as error:
        raise DataError(f"{path}: cannot be read as text ({str(error).splitlines()[0]}); is it UTF-8?") from error


def _read_csv(path: str, dialect: Dialect, convert: csv.ConvertOptions, on_ragged: Any = None) -> pa.Table:
    read = csv.ReadOptions(
        skip_rows=dialect.skip,
        column_names=[f"{i}" for i in range(len(dialect.names))],
        use_threads=on_ragged is None,
    )
    blanks = dialect.delimiter == " +"
    parse = csv.ParseOptions(delimiter=" " if blanks else dialect.delimiter, invalid_row_handler=on_ragged)
    with opened(path, dialect.compression) as file:
        return csv.read_csv(
            SingleBlanks(file) if blanks else file,
            read_options=read,
            parse_options=parse,
            convert_options=convert,
        )


def _integers_where_possible(table: pa.Table, layout: Layout) -> pa.Table:
    """Turn the two columns of names read as text into integers, if every name of both is one."""
    ends = [f"{layout.src}", f"{layout.dst}"]
    try:
        integers = [table.column(name).cast(pa.int64()) for name in ends]
    except pa.ArrowInvalid:
        return table
    for name, column in zip(ends, integers, strict=True):
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def _named(table: pa.Table, dialect: Dialect, layout: Layout) -> pa.Table:
    return table.select([f"{i}" for i in layout.needed]).rename_columns([dialect.names[i] for i in layout.needed])
