"""The files of an input and their kinds; tables of Parquet, Arrow IPC and JSON Lines."""

from __future__ import annotations

import glob
import os
import re
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import IO, Any, Literal
from urllib.parse import unquote

import pyarrow as pa

from cawn.errors import DataError, brief, reason

Kind = Literal["text", "json", "parquet", "ipc file", "ipc stream"]
Input = str | os.PathLike[str]
Value = int | str | None

LONGEST_LINE = 1 << 24  # bytes
TOO_LONG = f"a line is longer than {LONGEST_LINE >> 20} MiB, the limit, or a quote is not closed"
_BLOCK = 1 << 20
_MOST_FILES = 1_000_000
_PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
_AS_CSV = "save the sheet or table as CSV"
_NO_PICKLES = "write CSV or Parquet; pickles are not supported, since they can run any code"
_OTHER_KINDS = {
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": ("an Excel workbook (XLS)", _AS_CSV),
    b"SQLite format 3\0": ("an SQLite database", "export the table as CSV"),
    b"%PDF-": ("a PDF document", _AS_CSV),
    b"\x89HDF": ("an HDF5 file", "write CSV or Parquet"),
    b"\x93NUMPY": ("a NumPy array", "load it and use cawn.Events(src, dst, t)"),
    b"\x80\x04": ("a Python pickle", _NO_PICKLES),
    b"\x80\x05": ("a Python pickle", _NO_PICKLES),
    b"Obj\x01": ("an Avro file", "write CSV or Parquet"),
    b"\xfd7zXZ\0": ("compressed with xz", "unpack it, or use gzip, bzip2, zstd or lz4"),
    b"7z\xbc\xaf\x27\x1c": ("a 7-Zip archive", "unpack it first"),
    **dict.fromkeys((b"<!doctype", b"<html", b"<?xml", b"<table", b"<svg"), ("a web page or XML", _AS_CSV)),
}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class File:
    """A readable file; `name` is what messages call it."""

    path: str
    name: str
    kind: Kind
    compression: str | None
    partitions: tuple[tuple[str, Value], ...] = ()  # columns with one value for the whole file, from folders KEY=VALUE

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.name

    @contextmanager
    def open(self) -> Iterator[Any]:
        """The content as a binary stream, decompressed."""
        with open(self.path, "rb") as file:
            yield pa.CompressedInputStream(file, self.compression) if self.compression else file


# Finding and identifying files.


def find_files(source: Any) -> Any:
    """The files that a path, a folder, a pattern such as logs/*.csv or a list of these stands for; anything else
    unchanged."""
    if isinstance(source, str | os.PathLike):
        return _matching(source)
    if isinstance(source, list | tuple) and source and all(isinstance(each, str | os.PathLike) for each in source):
        return [file for each in source for file in _matching(each)]
    return source


def _matching(source: Input) -> list[File]:
    path = os.fspath(source)
    if isinstance(source, File) or not isinstance(path, str):
        return [find_file(source)]
    if os.path.isdir(path) and path.isprintable():
        files = _partitioned(_files_in(path), path)
        if other := next((file for file in files if file.kind != files[0].kind), None):
            kinds = f"{files[0]} ({files[0].kind}) and {other} ({other.kind})"
            raise DataError(f"{path}: holds files of several kinds, {kinds}; give a pattern such as '*.csv'")
        return files
    if not glob.has_magic(path) or os.path.exists(path):
        return [find_file(source)]
    found = sorted(each for each in glob.glob(path, recursive=True) if not os.path.isdir(each))
    if not found:
        raise DataError(f"{brief(path)}: no file matches this pattern")
    parts = path.split(os.sep)
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    return _partitioned(found, os.sep.join(parts[:fixed]))


def _files_in(folder: str) -> list[str]:
    """All files in a folder and the folders in it, in the order of their paths; names with . or _ first are skipped."""
    if os.path.exists(os.path.join(folder, "run.json")):
        raise DataError(f"{folder}: is the folder of a run; name the file or folder with the links")
    found = []
    for parent, folders, names in os.walk(folder, onerror=_refuse_folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        found += [os.path.join(parent, name) for name in names if not name.startswith((".", "_"))]
        if len(found) > _MOST_FILES:
            raise DataError(f"{folder}: more than {_MOST_FILES:,} files; name the folder with the links, or join files")
    if not found:
        raise DataError(f"{folder}: no files in this folder; expected at least one with links")
    return sorted(found, key=lambda path: path.split(os.sep))


def _refuse_folder(error: OSError) -> None:
    raise DataError(f"{error.filename}: cannot be read ({reason(error)})") from error


def _partitioned(paths: list[str], root: str) -> list[File]:
    """Files below a folder; folders named KEY=VALUE on the way become columns, of integers if all values are."""
    given = [_partitions(os.path.relpath(path, root or ".")) for path in paths]
    values = [pair for pairs in given for pair in pairs.items()]
    words = {key for key, value in values if value is not None and not _PLAIN_INTEGER.fullmatch(value)}
    found = []
    for path, pairs in zip(paths, given, strict=True):
        file = find_file(path)
        columns = ((key, value if value is None or key in words else int(value)) for key, value in pairs.items())
        found.append(replace(file, partitions=tuple(columns)) if pairs else file)
    return found


def _partitions(path: str) -> dict[str, str | None]:
    pairs = (part.split("=", 1) for part in path.split(os.sep)[:-1] if "=" in part)
    return {key: None if value == _HIVE_NULL else unquote(value) for key, value in pairs if key}


def find_file(source: Input) -> File:
    """The file at a path; "-" is standard input. A pipe, which can be read only once, is copied to a temporary file."""
    if isinstance(source, File):
        return source
    path = os.fspath(source)
    if not isinstance(path, str) or not path.isprintable():
        raise DataError(f"{brief(path)}: not a path; give the name of a file")
    if path == "-":
        return _spooled(sys.stdin.buffer, "standard input")
    if not os.path.exists(path):
        raise DataError(f"{path}: no such file")
    if os.path.isdir(path):
        raise DataError(f"{path}: is a directory; name the file with the links")
    if not os.access(path, os.R_OK):
        raise DataError(f"{path}: is not readable; check its permissions")
    if os.path.isfile(path):
        return _identified(path, path)
    mode = os.stat(path).st_mode
    terminal = stat.S_ISCHR(mode) and os.path.realpath(path).startswith(("/dev/pts", "/dev/tty"))
    if not stat.S_ISFIFO(mode) and not terminal:
        raise DataError(f"{path}: is neither a file nor a pipe; name the file with the links")
    try:
        with open(path, "rb") as pipe:
            return _spooled(pipe, path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({reason(error)})") from error


def _spooled(stream: IO[bytes], name: str) -> File:
    """A temporary copy, removed once nothing refers to it."""
    path = ""
    try:
        handle, path = tempfile.mkstemp(prefix="cawn-")
        with open(handle, "wb") as copy:
            shutil.copyfileobj(stream, copy, _BLOCK)
        file = _identified(path, name)
    except BaseException as error:
        _remove(path)
        if isinstance(error, OSError):
            raise DataError(f"{name}: cannot be copied to {tempfile.gettempdir()} ({reason(error)})") from error
        raise
    weakref.finalize(file, _remove, path)
    return file


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _identified(path: str, name: str) -> File:
    """By the first bytes, whatever the file is called; DataError for kinds that are not supported."""
    with open(path, "rb") as raw:
        start = raw.read(512)
    if not start:
        raise DataError(f"{name}: is empty; expected at least one link")
    arrow: dict[bytes, Kind] = {b"PAR1": "parquet", b"ARROW1": "ipc file", b"\xff\xff\xff\xff": "ipc stream"}
    for magic, kind in arrow.items():
        if start.startswith(magic):
            return File(path, name, kind, None)
    if start.startswith(b"PK\x03\x04"):
        raise DataError(f"{name}: is {_kind_of_zip(path)}")
    compression = next((codec for magic, codec in _COMPRESSIONS.items() if start.startswith(magic)), None)
    file = File(path, name, "text", compression)
    if compression:
        try:
            with file.open() as unpacked:
                start = unpacked.read(512)
        except (OSError, EOFError, pa.ArrowException) as error:
            raise damaged(file, compression, error) from error
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    for magic, (what, advice) in _OTHER_KINDS.items():
        if start.startswith(magic) or text.lower().startswith(magic):
            raise DataError(f"{name}: is {what}, which is not supported; {advice}")
    if text.startswith((b"[{", b"[\n", b"[\r", b"[ ")):
        raise DataError(f"{name}: is one JSON array; write JSON Lines instead, one object on each line")
    return File(path, name, "json", compression) if text.startswith(b"{") else file


def _kind_of_zip(path: str) -> str:
    """What a zip archive holds; office documents are such archives."""
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(path) as archive:
            names = archive.namelist()[:1_000]
    except (BadZipFile, OSError, ValueError, NotImplementedError):
        names = []
    if any(name.startswith("xl/") for name in names):
        return f"an Excel workbook (XLSX), which is not supported; {_AS_CSV}"
    if "content.xml" in names:
        return f"an OpenDocument spreadsheet (ODS), which is not supported; {_AS_CSV}"
    return "a zip archive, which is not supported; unpack it first"


# Reading files of any kind but text.


def damaged(file: File, kind: str, error: BaseException) -> DataError:
    why = reason(error)
    if kind == "json":
        why = TOO_LONG if "straddl" in why else why.removeprefix("JSON parse error: ")
        return DataError(f"{file}: cannot be read as JSON Lines ({why}); write one flat object on each line, as UTF-8")
    return DataError(f"{file}: a damaged {kind.split()[0]} file ({why}); write it again")


@contextmanager
def damage_reported(file: File) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # a damaged file can raise almost anything
        raise damaged(file, file.kind, error) from error


@contextmanager
def open_ipc(file: File) -> Iterator[Any]:
    with pa.OSFile(file.path) as raw:
        yield pa.ipc.open_file(raw) if file.kind == "ipc file" else pa.ipc.open_stream(raw)
