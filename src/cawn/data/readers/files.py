"""What kind of file this is, and the kinds that are not CSV: Parquet, Arrow IPC and JSON Lines."""

from __future__ import annotations

import glob
import os
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any, Literal

import pyarrow as pa

from cawn.data.readers.lines import LONGEST_LINE, TOO_LONG, JsonObjects
from cawn.errors import DataError, brief

Kind = Literal["text", "json", "parquet", "ipc file", "ipc stream"]

_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
_AS_CSV = "save the sheet or table as CSV"
_OTHER_KINDS = {
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": ("an Excel workbook (XLS)", _AS_CSV),
    b"SQLite format 3\0": ("an SQLite database", "export the table as CSV"),
    b"%PDF-": ("a PDF document", _AS_CSV),
    b"\x89HDF": ("an HDF5 file", "write CSV or Parquet"),
    b"\x93NUMPY": ("a NumPy array", "load it and use cawn.Events(src, dst, t)"),
    b"\x80\x04": ("a Python pickle", "write CSV or Parquet; pickles are not read, since they can run any code"),
    b"\x80\x05": ("a Python pickle", "write CSV or Parquet; pickles are not read, since they can run any code"),
    b"Obj\x01": ("an Avro file", "write CSV or Parquet"),
    b"\xfd7zXZ\0": ("compressed with xz", "unpack it, or use gzip, bzip2, zstd or lz4"),
    b"7z\xbc\xaf\x27\x1c": ("a 7-Zip archive", "unpack it first"),
}
_PAGES = (b"<!doctype", b"<html", b"<?xml", b"<table", b"<svg")


@dataclass(frozen=True, slots=True, weakref_slot=True)
class File:
    """A file on disk, and the name that messages call it by."""

    path: str
    name: str

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.name


Input = str | os.PathLike[str]


def resolved(source: Any) -> Any:
    """The files, in order, that a path, a pattern such as logs/*.csv or a list of these stands for; "-" is standard
    input. Anything else as it is."""
    if isinstance(source, str | os.PathLike):
        return _inputs(source)
    if isinstance(source, list | tuple) and source and all(isinstance(each, str | os.PathLike) for each in source):
        return [file for each in source for file in _inputs(each)]
    return source


def _inputs(source: Input) -> list[File]:
    path = os.fspath(source)
    if isinstance(source, File) or not isinstance(path, str) or not glob.has_magic(path) or os.path.exists(path):
        return [check(source)]
    found = sorted(each for each in glob.glob(path, recursive=True) if not os.path.isdir(each))
    if not found:
        raise DataError(f"{brief(path)}: no file matches this pattern")
    return [check(each) for each in found]


def check(source: Input) -> File:
    """The file at a path, if there is something to read. What cannot be read twice, such as a pipe, is copied."""
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
        raise DataError(f"{path}: may not be read; check its permissions")
    if not os.path.isfile(path):
        return _copy_of_special(path)
    if os.path.getsize(path) == 0:
        raise DataError(f"{path}: is empty; expected at least one link")
    return File(path, path)


def _copy_of_special(path: str) -> File:
    mode = os.stat(path).st_mode
    terminal = stat.S_ISCHR(mode) and os.path.realpath(path).startswith(("/dev/pts", "/dev/tty"))
    if not stat.S_ISFIFO(mode) and not terminal:
        raise DataError(f"{path}: is neither a file nor a pipe; name the file with the links")
    try:
        with open(path, "rb") as pipe:
            return _spooled(pipe, path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _spooled(stream: IO[bytes], name: str) -> File:
    """A copy in the temporary folder, removed when it is no longer referred to."""
    try:
        handle, path = tempfile.mkstemp(prefix="cawn-")
        file = File(path, name)
        weakref.finalize(file, _remove, path)
        with open(handle, "wb") as copy:
            shutil.copyfileobj(stream, copy, 1 << 20)
    except OSError as error:
        raise DataError(f"{name}: cannot be copied to {tempfile.gettempdir()} ({error.strerror or error})") from error
    if os.path.getsize(path) == 0:
        raise DataError(f"{name}: is empty; expected at least one link")
    return file


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def compression_of(path: Input) -> str | None:
    with open(path, "rb") as file:
        magic = file.read(4)
    return next((name for start, name in _COMPRESSIONS.items() if magic.startswith(start)), None)


@contextmanager
def opened(path: Input, compression: str | None) -> Iterator[Any]:
    with open(path, "rb") as file:
        yield pa.CompressedInputStream(file, compression) if compression else file


def kind_of(path: Input) -> Kind:
    """By the first bytes, whatever the file is called; raises DataError for kinds that are not read."""
    with open(path, "rb") as file:
        magic = file.read(512)
    if magic.startswith(b"PAR1"):
        return "parquet"
    if magic.startswith(b"ARROW1"):
        return "ipc file"
    if magic.startswith(b"\xff\xff\xff\xff"):
        return "ipc stream"
    if magic.startswith(b"PK\x03\x04"):
        raise DataError(f"{path}: is {_kind_of_zip(path)}")
    compression = compression_of(path)
    if compression:
        try:
            with opened(path, compression) as file:
                magic = file.read(512)
        except (OSError, EOFError, pa.ArrowException) as error:
            raise damaged(path, compression, error) from error
    for start, (what, advice) in _OTHER_KINDS.items():
        if magic.startswith(start):
            raise DataError(f"{path}: is {what}, which is not read; {advice}")
    begin = magic.removeprefix(b"\xef\xbb\xbf").lstrip()
    if begin.lower().startswith(_PAGES):
        raise DataError(f"{path}: is a web page or XML, which is not read; {_AS_CSV}")
    if begin.startswith((b"[{", b"[\n", b"[\r", b"[ ")):
        raise DataError(f"{path}: is one JSON array; write JSON Lines instead, one object on each line")
    return "json" if begin.startswith(b"{") else "text"


def _kind_of_zip(path: Input) -> str:
    """What a zip archive holds; office documents are such archives."""
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(path) as archive:
            names = archive.namelist()[:1_000]
    except (BadZipFile, OSError, ValueError, NotImplementedError):
        names = []
    if any(name.startswith("xl/") for name in names):
        return f"an Excel workbook (XLSX), which is not read; {_AS_CSV}"
    if "content.xml" in names:
        return f"an OpenDocument spreadsheet (ODS), which is not read; {_AS_CSV}"
    return "a zip archive, which is not read; unpack it first"


def read_table(path: File, kind: Kind) -> pa.Table:
    """The whole table of a Parquet, Arrow IPC or JSON Lines file, every value of it checked."""
    try:
        table = _READERS[kind](path)
        _ = table.column_names  # which a damaged file may not be able to say
        table.validate(full=True)
        return table
    except DataError:
        raise
    except Exception as error:  # a damaged file can raise almost anything
        raise damaged(path, kind, error) from error


def schema_of(path: File, kind: Kind) -> pa.Schema:
    """The names and types of the columns of such a file."""
    try:
        if kind == "parquet":
            import pyarrow.parquet as pq

            schema = pq.read_schema(path)
        elif kind == "json":
            with open_json(path) as reader:
                schema = reader.schema
        else:
            with pa.OSFile(os.fspath(path)) as file:
                schema = (pa.ipc.open_file(file) if kind == "ipc file" else pa.ipc.open_stream(file)).schema
        _ = schema.names
        return schema
    except DataError:
        raise
    except Exception as error:  # a damaged file can raise almost anything
        raise damaged(path, kind, error) from error


def batches_of(path: File, kind: Kind, rows: int) -> Iterator[pa.RecordBatch]:
    """Such a file a piece at a time, every value checked before it is given."""
    for batch in _BATCHES[kind](path, rows):
        batch.validate(full=True)
        yield batch


def import_stream(table: Any) -> pa.Table:
    """Any object that offers an Arrow stream."""
    try:
        imported = pa.table(table)
        imported.validate(full=True)
        return imported
    except Exception as error:  # whatever the other library raises
        raise DataError(f"table: cannot be read as Arrow ({first_line(error)})") from error


def damaged(path: Input, kind: str, error: BaseException) -> DataError:
    reason = first_line(error)
    if kind == "json":
        too_long = "straddl" in reason
        why = TOO_LONG if too_long else reason.removeprefix("JSON parse error: ")
        why = why.replace("unexpected field", "a field that the first lines lack")
        return DataError(f"{path}: cannot be read as JSON Lines ({why}); write one flat object on each line, as UTF-8")
    return DataError(f"{path}: a damaged {kind.split()[0]} file ({reason}); write it again")


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _read_parquet(path: File) -> pa.Table:
    import pyarrow.parquet as pq

    return pq.read_table(path.path, memory_map=True)


def _read_ipc(path: File) -> pa.Table:
    with pa.OSFile(path.path) as file:
        return pa.ipc.open_file(file).read_all()


def _read_ipc_stream(path: File) -> pa.Table:
    with pa.OSFile(path.path) as file:
        return pa.ipc.open_stream(file).read_all()


def _read_json(path: File) -> pa.Table:
    from pyarrow import json

    with opened(path, compression_of(path)) as file:
        table = json.read_json(JsonObjects(file, str(path)), **_json_options())
    if dates := [column.name for column in table.schema if pa.types.is_timestamp(column.type)]:
        with opened(path, compression_of(path)) as file:
            table = json.read_json(JsonObjects(file, str(path)), **_json_options(dates))
    return table


@contextmanager
def open_json(path: File) -> Iterator[Any]:
    """A reader of JSON Lines whose text stays text, also where it looks like dates."""
    from pyarrow import json

    with opened(path, compression_of(path)) as file:
        schema = json.open_json(JsonObjects(file, str(path)), **_json_options()).schema
    dates = [column.name for column in schema if pa.types.is_timestamp(column.type)]
    with opened(path, compression_of(path)) as file:
        yield json.open_json(JsonObjects(file, str(path)), **_json_options(dates))


def _json_options(as_text: Sequence[str] = ()) -> dict[str, Any]:
    from pyarrow import json

    schema = pa.schema([(name, pa.string()) for name in as_text]) if as_text else None
    return {
        "read_options": json.ReadOptions(block_size=LONGEST_LINE),
        "parse_options": json.ParseOptions(explicit_schema=schema, newlines_in_values=False),
    }


def _parquet_batches(path: File, rows: int) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path.path) as file:
        yield from file.iter_batches(batch_size=rows)


def _ipc_batches(path: File, rows: int) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(path.path) as raw:
        file = pa.ipc.open_file(raw)
        yield from (file.get_batch(i) for i in range(file.num_record_batches))


def _ipc_stream_batches(path: File, rows: int) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(path.path) as raw:
        yield from pa.ipc.open_stream(raw)


def _json_batches(path: File, rows: int) -> Iterator[pa.RecordBatch]:
    with open_json(path) as reader:
        yield from reader


_READERS = {"parquet": _read_parquet, "ipc file": _read_ipc, "ipc stream": _read_ipc_stream, "json": _read_json}
_BATCHES = {
    "parquet": _parquet_batches,
    "ipc file": _ipc_batches,
    "ipc stream": _ipc_stream_batches,
    "json": _json_batches,
}
