"""How a text file is laid out: compression, comments, delimiter, header. Guessed from its first lines."""

from __future__ import annotations

import codecs
import csv
import io
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from cawn.data.readers.columns import recognised
from cawn.data.readers.files import File, compression_of, damaged, opened
from cawn.data.readers.lines import LONGEST_LINE
from cawn.errors import DataError, brief

_SAMPLE_BYTES = 1 << 16
_LONGEST_SAMPLE = 1 << 26
_LONGEST_NUMBER = 100  # characters
_CSV_LIMIT = threading.RLock()
_COMMENTS = ("#", "%", "//")
_JODIE = ["user_id", "item_id", "timestamp", "state_label"]
_LOOKS_LIKE_DATA = re.compile(
    r"\s*([+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|\d{4}-\d\d?-\d\d?([T ].*)?|nan|[+-]?inf)\s*", re.I
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a text file is laid out."""

    compression: str | None
    delimiter: str  # one character, or " +" for runs of blanks
    skip: int  # lines before the first row: comments and the header
    names: list[str]
    has_header: bool
    padded: bool  # blanks stand around fields and do not belong to them

    @property
    def is_jodie(self) -> bool:
        return self.has_header and self.names[:4] == _JODIE


def sniff(path: File, delimiter: str | None = None, header: bool | None = None, *, columns: int = 3) -> Dialect:
    """Guess the layout from the first lines; there should be as many columns or more."""
    if delimiter is not None and not (isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii()):
        raise DataError(f"delimiter={brief(delimiter)}: give a single character")
    if header is not None and not isinstance(header, bool):
        raise DataError(f"header={brief(header)}: give True or False")
    compression = compression_of(path)
    lines = _first_lines(path, compression)
    skip = next((i for i, line in enumerate(lines) if _is_row(line)), len(lines))
    rows = [line for line in lines[skip:] if line.strip()]
    if not rows:
        raise DataError(f"{path}: no rows; expected at least one link")
    with _fields_of_any_size():
        return _dialect(path, rows, skip, compression, delimiter or _guess_delimiter(rows, columns), header)


def _dialect(
    path: File, rows: list[str], skip: int, compression: str | None, delimiter: str, header: bool | None
) -> Dialect:
    """The layout of text whose first rows these are, below `skip` lines of comments."""
    first = split(rows[0], delimiter)
    has_header = header
    if has_header is None:
        has_header = recognised(first) or not any(map(_looks_like_data, first))
    if has_header and len(rows) == 1:
        raise DataError(f"{path}: no rows; expected at least one link below the header")
    names = first if has_header else [f"column {i}" for i in range(len(first))]
    if has_header and names[:4] == _JODIE:
        names = [*_JODIE, *(f"feature {i}" for i in range(len(split(rows[1], delimiter)) - 4))]
    padded = any(_padded(split(row, delimiter)) for row in rows[:50])
    return Dialect(compression, delimiter, skip + has_header, [name.strip() for name in names], has_header, padded)


def _is_row(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith(_COMMENTS)


def _looks_like_data(field: str) -> bool:
    return len(field) <= _LONGEST_NUMBER and _LOOKS_LIKE_DATA.fullmatch(field) is not None


def _first_lines(path: File, compression: str | None) -> list[str]:
    """Whole lines from the start of the file: those of the first 64 KiB, and at least two rows of data.

    Each look is twice as long as the one before, so that the time is linear in what is read.
    """
    raw = b""
    try:
        with opened(path, compression) as file:
            while len(raw) < _LONGEST_SAMPLE:
                block = file.read(max(_SAMPLE_BYTES, len(raw)))
                raw += block
                lines = re.split(r"\r\n|\r|\n", _decoded(raw, path, at_end=not block))
                whole = lines if not block else lines[:-1]
                if not block or sum(map(_is_row, whole)) > 2:
                    return whole
    except (OSError, EOFError, pa.ArrowException) as error:
        if compression:
            raise damaged(path, compression, error) from error
        raise DataError(f"{path}: cannot be read ({error})") from error
    sample = f"the first {_LONGEST_SAMPLE >> 20} MiB"
    raise DataError(f"{path}: {sample} hold no three rows; lines may have up to {LONGEST_LINE >> 20} MiB each")


def _padded(fields: list[str]) -> bool:
    """Whether blanks stand around a field."""
    return any(field != field.strip() for field in fields)


def split(line: str, delimiter: str) -> list[str]:
    """The fields of one line."""
    if delimiter == " +":
        return line.split()
    return next(csv.reader([line], delimiter=delimiter), [""])


@contextmanager
def _fields_of_any_size() -> Iterator[None]:
    """Lifts the csv module's limit on the size of a field, which holds for the whole process."""
    with _CSV_LIMIT:
        limit = csv.field_size_limit(2**31 - 1)
        try:
            yield
        finally:
            csv.field_size_limit(limit)


def _guess_delimiter(rows: list[str], columns: int) -> str:
    """The character that cuts the first rows into the most fields, at least `columns`, as many in each row.

    Runs of blanks and tabs, where no single character does that.
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


def _decoded(raw: bytes, path: File, *, at_end: bool) -> str:
    """The text of the first bytes; a character cut in two at their end is left for later."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path}: is UTF-16 text; convert the file to UTF-8")
    if b"\0" in raw:
        raise DataError(f"{path}: is a binary file of no known kind; expected text, Parquet or Arrow IPC")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start > len(raw) - 4 and not at_end:
            return raw[: error.start].decode("utf-8-sig")
        raise _not_utf8(path, raw[: error.start].count(b"\n") + 1, error) from error


def refuse_other_encodings(path: File, compression: str | None) -> None:
    """Refuse text that is not UTF-8 anywhere in the file."""
    decoder, line = codecs.getincrementaldecoder("utf-8")(), 1
    with opened(path, compression) as file:
        block = b"\n"
        while block:
            block = file.read(1 << 20)
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                raise _not_utf8(path, line + error.object[: error.start].count(b"\n"), error) from error
            line += block.count(b"\n")


def _not_utf8(path: File, line: int, error: UnicodeDecodeError) -> DataError:
    found = f"byte {error.object[error.start]:#04x} is not UTF-8 text"
    return DataError(f"{path}, line {line}: {found}; convert the file to UTF-8")


def line_of(path: File, dialect: Dialect, row: int) -> int:
    """The line, from 1, on which a row counted from 0 begins; blank lines are no rows, quoted line breaks no ends."""
    blanks = dialect.delimiter == " +"
    begin = dialect.skip + 1
    with (
        _fields_of_any_size(),
        suppress(csv.Error),
        opened(path, dialect.compression) as file,
        io.TextIOWrapper(file, errors="replace", newline="") as lines,
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
