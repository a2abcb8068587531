"""CSV, TSV and whitespace-separated text, with the conventions of JODIE, SNAP and the CAW authors' files.

The fast path lets Arrow parse and guess types on all cores. Only if that fails is the text read again, slowly and as
strings, to find the value that is wrong, or to see that nothing is (a column whose first names are all digits).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from cawn.errors import DataError
from cawn.events import Events
from cawn.names import integers_in
from cawn.readers.authors import authors_features, is_authors_file
from cawn.readers.columns import Layout, Roles, find_layout
from cawn.readers.dialect import Dialect, SingleBlanks, line_of, opened, sniff
from cawn.readers.tables import Source, as_integers, attributes_of, links_of

_LONGEST_LINE = 1 << 26


def read_text(path: str, roles: Roles, *, bipartite: bool | None, delimiter: str | None, header: bool | None) -> Events:
    """Events of a text file; `delimiter` and `header` overrule the guess of its layout."""
    dialect = sniff(path, delimiter, header)
    layout = find_layout(dialect.names, roles, path, has_names=dialect.has_header)
    authors = not roles.msg and is_authors_file(path, dialect.names)
    if not roles.msg and dialect.is_jodie:
        layout = replace(layout, msg=tuple(range(4, len(dialect.names))))
    elif authors:
        layout = replace(layout, msg=(dialect.names.index("idx"),))
    source = Source(path, lambda row: f"line {line_of(path, dialect, row)}")
    table = _parse(path, dialect, layout)
    layout = layout.narrowed()
    links = links_of(table, layout, source, bipartite)
    if authors:
        index = as_integers(table.column(layout.msg[0]), "idx", source, "expected a row number of the feature file")
        msg, x = authors_features(path, index, links.labels)
        return links.events(msg, x)
    msg = attributes_of(table, layout, source)
    if not roles.msg and msg is not None and not msg.any():
        msg = None  # JODIE asks networks without features for a column of zeros
    return links.events(msg)


def _parse(path: str, dialect: Dialect, layout: Layout) -> pa.Table:
    """A table of the needed columns only, in the layout's order; names are integers only if all of them are."""
    needed = [f"{i}" for i in layout.needed]
    ends = [f"{i}" for i in (layout.src, layout.dst, layout.negative) if i is not None]
    texts = ends if layout.link_id is None else [*ends, f"{layout.link_id}"]
    try:
        table = _read_csv(path, dialect, needed, as_text=texts)
        time = table.column(f"{layout.time}")
        if pa.types.is_float64(time.type) and _beyond_float64(time):
            table = _read_slowly(path, dialect, needed)
    except pa.ArrowInvalid:
        table = _read_slowly(path, dialect, needed)
    except (OSError, EOFError, UnicodeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: the data are damaged ({reason}); fetch or write the file again") from error
    if dialect.padded:
        for name in texts:
            trimmed = pc.utf8_trim_whitespace(table.column(name))
            table = table.set_column(table.column_names.index(name), name, trimmed)
    integers = [integers_in(table.column(name)) for name in ends[:2]]
    if layout.negative is not None:
        integers.append(_integers_or_nothing(table.column(ends[2])))
    if all(column is not None for column in integers):
        for name, column in zip(ends, integers, strict=True):
            table = table.set_column(table.column_names.index(name), name, column)
    return table.select(needed).rename_columns([dialect.names[i] for i in layout.needed])


def _integers_or_nothing(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """As `integers_in`, null where the text is empty."""
    there = pc.not_equal(column, "")
    given = integers_in(column.filter(there))
    if given is None:
        return None
    place = pc.subtract(pc.cumulative_sum(pc.cast(there, pa.int64())), 1)
    return given.take(pc.if_else(there, place, None))


def _beyond_float64(time: pa.ChunkedArray) -> bool:
    """Whether some of these numbers are so large that float64 may have rounded an integer."""
    bounds = pc.min_max(time)
    return bool(max(abs(bounds[end].as_py() or 0) for end in ("min", "max")) >= 2.0**53)


def _read_slowly(path: str, dialect: Dialect, needed: list[str]) -> pa.Table:
    """Everything as text, on one core, quoted line breaks and very long lines allowed, ragged rows found."""
    ragged: list[Any] = []

    def remember(row: Any) -> str:
        ragged.append(row)
        return "skip"

    try:
        table = _read_csv(path, dialect, needed, as_text=needed, on_ragged=remember)
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0]
        if "skip initial" in reason or "Empty CSV" in reason:
            raise DataError(f"{path}: no rows; expected at least one link") from error
        raise DataError(f"{path}: cannot be read as text ({reason[:100]}); is it UTF-8?") from error
    if ragged:
        row = ragged[0]
        place = f"line {line_of(path, dialect, row.number - 1 - dialect.skip)}"
        fields = f"found {row.actual_columns} fields, expected {row.expected_columns}"
        raise DataError(f"{path}, {place}: {fields}: {row.text[:60]!r}")
    return table


def _read_csv(path: str, dialect: Dialect, needed: list[str], *, as_text: list[str], on_ragged: Any = None) -> pa.Table:
    slowly = on_ragged is not None
    read = csv.ReadOptions(
        skip_rows=dialect.skip,
        column_names=[f"{i}" for i in range(len(dialect.names))],
        use_threads=not slowly,
        block_size=_LONGEST_LINE if slowly else None,
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
        source = SingleBlanks(file) if blanks else file
        return csv.read_csv(source, read_options=read, parse_options=parse, convert_options=convert)
