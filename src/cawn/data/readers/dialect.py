"""The layout of a text file: comments, delimiter, header. Guessed from its first lines."""

from __future__ import annotations

import csv
import io
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from cawn.data.readers.files import LONGEST_LINE, File, damaged
from cawn.data.reading import has_usual_ends
from cawn.errors import DataError, brief

_SAMPLE_BYTES = 1 << 16
_LONGEST_SAMPLE = 1 << 26
_LONGEST_NUMBER = 100  # characters
_CSV_LIMIT = threading.RLock()
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
_COMMENTS = ("#", "%", "//")
_JODIE = ["user_id", "item_id", "timestamp", "state_label"]
_LOOKS_LIKE_DATA = re.compile(
    r"\s*([+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|\d{4}-\d\d?-\d\d?([T ].*)?|nan|[+-]?inf)\s*", re.I
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The layout of a text file."""

    delimiter: str  # one character, or " +" for runs of blanks
    skip: int  # lines before the first row: comments and the header
    names: list[str]
    has_header: bool
    padded: bool  # whether fields are padded with blanks, which do not belong to them

    @property
    def is_jodie(self) -> bool:
        return self.has_header and self.names[:4] == _JODIE


def sniff(file: File, delimiter: str | None = None, header: bool | None = None, *, columns: int = 3) -> Dialect:
    """Guess the layout, of at least so many columns, from the first lines, as far as it is not given."""
    if delimiter is not None and not (isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii()):
        raise DataError(f"delimiter={brief(delimiter)}: give a single character")
    if header is not None and not isinstance(header, bool):
        raise DataError(f"header={brief(header)}: give True or False")
    lines = _first_lines(file)
    skip = next((i for i, line in enumerate(lines) if _is_row(line)), len(lines))
    rows = [line for line in lines[skip:] if line.strip()]
    if not rows:
        raise DataError(f"{file}: no rows; expected at least one link")
    with _fields_of_any_size():
        delimiter = delimiter or _guess_delimiter(rows, columns)
        first = split(rows[0], delimiter)
        if header is None:
            header = has_usual_ends(first) or not any(
                len(field) <= _LONGEST_NUMBER and _LOOKS_LIKE_DATA.fullmatch(field) for field in first
            )
        if header and len(rows) == 1:
            raise DataError(f"{file}: no rows; expected at least one link below the header")
        names = first if header else [f"column {i}" for i in range(len(first))]
        if header and names[:4] == _JODIE:
            names = [*_JODIE, *(f"feature {i}" for i in range(len(split(rows[1], delimiter)) - 4))]
        padded = any(_padded(split(row, delimiter)) for row in rows[:50])
    return Dialect(delimiter, skip + header, [name.strip() for name in names], header, padded)


def _is_row(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith(_COMMENTS)


def _first_lines(file: File) -> list[str]:
    """Whole lines from the start of the file: those of the first 64 KiB, and at least three rows.

    The sample is doubled until that holds, so that the time is linear in what is read.
    """
    raw = b""
    try:
        with file.open() as stream:
            while len(raw) < _LONGEST_SAMPLE:
                block = stream.read(max(_SAMPLE_BYTES, len(raw)))
                raw += block
                if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise DataError(f"{file}: is UTF-16 text; convert the file to UTF-8")
                if b"\0" in raw:
                    raise DataError(f"{file}: is a binary file of an unknown kind; expected text, Parquet or Arrow IPC")
                lines = re.split(r"\r\n|\r|\n", raw.decode("utf-8-sig", "surrogateescape"))
                whole = lines if not block else lines[:-1]
                _refuse_bytes(file, whole)
                if not block or sum(map(_is_row, whole)) > 2:
                    return whole
    except (OSError, EOFError, pa.ArrowException) as error:
        if file.compression:
            raise damaged(file, file.compression, error) from error
        raise DataError(f"{file}: cannot be read ({error})") from error
    sample = f"the first {_LONGEST_SAMPLE >> 20} MiB"
    raise DataError(f"{file}: {sample} hold fewer than three rows; lines may have up to {LONGEST_LINE >> 20} MiB")


def check_utf8(file: File) -> None:
    """Refuse a file that is not UTF-8 throughout."""
    with file.open() as stream, io.TextIOWrapper(stream, "utf-8", "surrogateescape") as lines:
        _refuse_bytes(file, lines)


def _refuse_bytes(file: File, lines: Iterable[str]) -> None:
    """Refuse lines in which a byte that is not UTF-8 is escaped."""
    for number, line in enumerate(lines, 1):
        if found := _ESCAPED_BYTE.search(line):
            what = f"byte {ord(found.group()) & 0xFF:#04x} is not UTF-8 text"
            raise DataError(f"{file}, line {number}: {what}; convert the file to UTF-8")


def _padded(fields: list[str]) -> bool:
    """Whether a field begins or ends with blanks."""
    return any(field != field.strip() for field in fields)


def split(line: str, delimiter: str) -> list[str]:
    """The fields of one line."""
    if delimiter == " +":
        return line.split()
    return next(csv.reader([line], delimiter=delimiter), [""])


@contextmanager
def _fields_of_any_size() -> Iterator[None]:
    """Lifts the csv module's limit on the size of a field, which is a global of the process."""
    with _CSV_LIMIT:
        limit = csv.field_size_limit(2**31 - 1)
        try:
            yield
        finally:
            csv.field_size_limit(limit)


def _guess_delimiter(rows: list[str], columns: int) -> str:
    """The character that splits the first rows into the most fields, at least `columns`, equally many in each row.

    Where no character does: runs of blanks and tabs, if these do, else the most frequent candidate.
    """
    rows = rows[:50]
    body = rows[1:] or rows  # the header of a JODIE file is shorter than its rows

    @cache
    def even_width(delimiter: str) -> int:
        widths = {len(split(row, delimiter)) for row in body}
        return widths.pop() if len(widths) == 1 else 0

    best = max((",", "\t", ";", "|"), key=even_width)
    if even_width(best) >= columns:
        in_blanks = best == "\t" and any(_padded(split(row, best)) for row in rows)
        return " +" if in_blanks and {len(row.split()) for row in body} == {even_width(best)} else best
    if len({len(row.split()) for row in body}) == 1 and len(body[0].split()) >= columns:
        single = even_width(" ") == len(body[0].split())
        return " " if single else " +"
    return max((",", "\t", ";", "|", " "), key=lambda delimiter: sum(row.count(delimiter) for row in rows))


def line_of(file: File, dialect: Dialect, row: int) -> int:
    """The line, from 1, on which a row, from 0, begins. Blank lines are not rows; quoted fields may span lines."""
    blanks = dialect.delimiter == " +"
    begin = dialect.skip + 1
    with (
        _fields_of_any_size(),
        suppress(csv.Error),
        file.open() as stream,
        io.TextIOWrapper(stream, errors="replace", newline="") as lines,
    ):
        for _ in range(dialect.skip):
            next(lines, None)
        reader = csv.reader(lines, delimiter=" " if blanks else dialect.delimiter)
        for fields in reader:
            if any(fields) if blanks else fields:
                if row == 0:
                    return begin
                row -= 1
            begin = dialect.skip + reader.line_num + 1
    return begin
