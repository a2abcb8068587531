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

from cawn.errors import DataError
from cawn.readers.columns import recognised

_SAMPLE_BYTES = 1 << 16
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

    @property
    def is_jodie(self) -> bool:
        return self.has_header and self.names[:4] == _JODIE


def sniff(path: str, delimiter: str | None = None, header: bool | None = None) -> Dialect:
    """Guess the layout from the first lines."""
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise DataError(f"delimiter={delimiter!r}: give a single character")
    compression = compression_of(path)
    try:
        with opened(path, compression) as file:
            raw = file.read(_SAMPLE_BYTES)
    except (OSError, EOFError, pa.ArrowException) as error:
        raise DataError(
            f"{path}: the {compression or ''} data are damaged ({error}); fetch or write the file again"
        ) from error
    sample = _decoded(raw, path)
    lines = sample.splitlines()
    if len(raw) == _SAMPLE_BYTES and len(lines) > 1:
        lines = lines[:-1]
    skip = next(
        (i for i, line in enumerate(lines) if line.strip() and not line.lstrip().startswith(_COMMENTS)),
        len(lines),
    )
    rows = [line for line in lines[skip:] if line.strip()]
    if not rows:
        raise DataError(f"{path}: no rows; expected at least one link")
    delimiter = delimiter or _guess_delimiter(rows)
    first = split(rows[0], delimiter)
    has_header = (
        header if header is not None else recognised(first) or not any(_LOOKS_LIKE_DATA.fullmatch(f) for f in first)
    )
    width = len(split(rows[1], delimiter)) if len(rows) > 1 else len(first)
    names = first if has_header else [f"column {i}" for i in range(len(first))]
    if has_header and names[:4] == _JODIE and width > len(names) - 1:
        names = [*_JODIE, *(f"feature {i}" for i in range(width - 4))]
    return Dialect(compression, delimiter, skip + has_header, names, has_header)


def split(line: str, delimiter: str) -> list[str]:
    """The fields of one line."""
    if delimiter == " +":
        return line.split()
    return next(csv.reader([line], delimiter=delimiter), [""])


def _guess_delimiter(rows: list[str]) -> str:
    """The character that cuts the first rows into the most fields, at least two, as many in each row."""
    rows = rows[:50]
    best, most = "", 1
    for delimiter in (",", "\t", ";", "|", " "):
        widths = {len(split(row, delimiter)) for row in rows[1:] or rows}
        if len(widths) == 1 and (width := widths.pop()) > most:
            best, most = delimiter, width
    blanks = {len(row.split()) for row in rows[1:] or rows}
    if (best in ("", " ", "\t") and any(re.search(r"^\s|[ \t]{2,}|\s$", row) for row in rows)) and len(blanks) == 1:
        return " +"
    if best:
        return best
    return max((",", "\t", ";", "|", " "), key=lambda d: sum(row.count(d) for row in rows))


def compression_of(path: str) -> str | None:
    with open(path, "rb") as file:
        magic = file.read(4)
    return next((name for start, name in _COMPRESSIONS.items() if magic.startswith(start)), None)


@contextmanager
def opened(path: str, compression: str | None) -> Iterator[Any]:
    with open(path, "rb") as file:
        yield pa.CompressedInputStream(file, compression) if compression else file


def _decoded(raw: bytes, path: str) -> str:
    if b"\0" in raw:
        raise DataError(f"{path}: is a binary file of no known kind; expected text, Parquet or Arrow IPC")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start > len(raw) - 4 and len(raw) == _SAMPLE_BYTES:
            return raw[: error.start].decode("utf-8-sig")
        line = raw[: error.start].count(b"\n") + 1
        raise DataError(
            f"{path}, line {line}: byte {raw[error.start]:#04x} is not UTF-8 text; convert the file to UTF-8"
        ) from error


def line_of(path: str, dialect: Dialect, row: int) -> int:
    """The line, from 1, of a row counted from 0; blank lines are no rows."""
    blank = None if dialect.delimiter == " +" else "\r\n"
    with opened(path, dialect.compression) as file, io.TextIOWrapper(file, errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            if number > dialect.skip and line.strip(blank):
                if row == 0:
                    return number
                row -= 1
    return dialect.skip + row + 1


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
