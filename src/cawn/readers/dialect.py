"""How a text file is laid out: compression, comments, delimiter, header. Guessed from its first lines."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa

from cawn.errors import DataError, brief
from cawn.readers.columns import recognised

_SAMPLE_BYTES = 1 << 16
_LONGEST_SAMPLE = 1 << 26
_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
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


def sniff(path: str, delimiter: str | None = None, header: bool | None = None, *, columns: int = 3) -> Dialect:
    """Guess the layout from the first lines; there should be as many columns or more."""
    if delimiter is not None and not (isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii()):
        raise DataError(f"delimiter={brief(delimiter)}: give a single character")
    if header is not None and not isinstance(header, bool):
        raise DataError(f"header={brief(header)}: give True or False")
    compression = compression_of(path)
    lines = _first_lines(path, compression)
    skip = next(
        (i for i, line in enumerate(lines) if line.strip() and not line.lstrip().startswith(_COMMENTS)), len(lines)
    )
    rows = [line for line in lines[skip:] if line.strip()]
    if not rows:
        raise DataError(f"{path}: no rows; expected at least one link")
    delimiter = delimiter or _guess_delimiter(rows, columns)
    first = split(rows[0], delimiter)
    has_header = header
    if has_header is None:
        has_header = recognised(first) or not any(_LOOKS_LIKE_DATA.fullmatch(field) for field in first)
    if has_header and len(rows) == 1:
        raise DataError(f"{path}: no rows; expected at least one link below the header")
    names = first if has_header else [f"column {i}" for i in range(len(first))]
    if has_header and names[:4] == _JODIE:
        names = [*_JODIE, *(f"feature {i}" for i in range(len(split(rows[1], delimiter)) - 4))]
    padded = any(_padded(split(row, delimiter)) for row in rows[:50])
    return Dialect(compression, delimiter, skip + has_header, [name.strip() for name in names], has_header, padded)


def _first_lines(path: str, compression: str | None) -> list[str]:
    """Whole lines from the start of the file: those of the first 64 KiB, and at least two rows of data."""
    raw = b""
    try:
        with opened(path, compression) as file:
            while len(raw) < _LONGEST_SAMPLE:
                block = file.read(_SAMPLE_BYTES)
                raw += block
                lines = re.split(r"\r\n|\r|\n", _decoded(raw, path, at_end=not block))
                whole = lines if not block else lines[:-1]
                if not block or len([line for line in whole if not line.lstrip().startswith(_COMMENTS)]) > 2:
                    break
    except (OSError, EOFError, pa.ArrowException) as error:
        reason = f"the {compression or ''} data are damaged ({error}); fetch or write the file again"
        raise DataError(f"{path}: {reason}") from error
    return whole


def _padded(fields: list[str]) -> bool:
    """Whether blanks stand around a field."""
    return any(field != field.strip() for field in fields)


def split(line: str, delimiter: str) -> list[str]:
    """The fields of one line."""
    if delimiter == " +":
        return line.split()
    return next(csv.reader([line], delimiter=delimiter), [""])


def _guess_delimiter(rows: list[str], columns: int) -> str:
    """The character that cuts the first rows into the most fields, at least `columns`, as many in each row.

    Runs of blanks and tabs, where no single character does that.
    """
    rows = rows[:50]
    body = rows[1:] or rows  # the header of a JODIE file is shorter than its rows

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


def compression_of(path: str) -> str | None:
    with open(path, "rb") as file:
        magic = file.read(4)
    return next((name for start, name in _COMPRESSIONS.items() if magic.startswith(start)), None)


@contextmanager
def opened(path: str, compression: str | None) -> Iterator[Any]:
    with open(path, "rb") as file:
        yield pa.CompressedInputStream(file, compression) if compression else file


def _decoded(raw: bytes, path: str, *, at_end: bool) -> str:
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
        line = raw[: error.start].count(b"\n") + 1
        found = f"byte {raw[error.start]:#04x} is not UTF-8 text"
        raise DataError(f"{path}, line {line}: {found}; convert the file to UTF-8") from error


def line_of(path: str, dialect: Dialect, row: int) -> int:
    """The line, from 1, on which a row counted from 0 begins; blank lines are no rows, quoted line breaks no ends."""
    blanks = dialect.delimiter == " +"
    with opened(path, dialect.compression) as file, io.TextIOWrapper(file, errors="replace", newline="") as lines:
        for _ in range(dialect.skip):
            next(lines, None)
        reader = csv.reader(lines, delimiter=" " if blanks else dialect.delimiter)
        begin = dialect.skip + 1
        for fields in reader:
            if any(fields) if blanks else fields:
                if row == 0:
                    return begin
                row -= 1
            begin = dialect.skip + reader.line_num + 1
    return begin


class SingleBlanks(io.RawIOBase):
    """A view of a text in which fields are separated by one space, whatever runs of blanks and tabs there were."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """At least one whole line, or nothing at the end."""
        while True:
            block = self._file.read(max(size, 1 << 20))
            text = self._rest + block
            cut = text.rfind(b"\n") + 1 if block else len(text)
            self._rest = text[cut:]
            if cut or not block:
                return re.sub(rb"(?m)^ | (?=\r?$)", b"", re.sub(rb"[ \t]+", b" ", text[:cut]))
