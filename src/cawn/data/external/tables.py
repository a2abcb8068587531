"""Parquet, Arrow IPC and JSON Lines in pieces of bounded size."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from cawn.data.readers import files
from cawn.data.readers.files import File
from cawn.errors import DataError

_BUFFER = 1 << 20  # bytes that are read ahead of each column of a Parquet file
_LEAST_ROW = 16  # bytes of a value, at least, when the size of a piece is estimated
_LARGEST_BATCH = 1 << 24  # bytes of a record batch that is read whatever the limit


def whole_schema(file: File) -> pa.Schema:
    """The columns of a table, as `read_table` would give them; a JSON file is read for that."""
    with files.damage_reported(file):
        if file.kind == "parquet":
            import pyarrow.parquet as pq

            return pq.read_schema(file.path)
        if file.kind == "json":
            return _json_schema(file)
        with files.open_ipc(file) as reader:
            return reader.schema


def read_pieces(file: File, columns: Sequence[int], schema: pa.Schema, size: int) -> Iterator[tuple[pa.Table, float]]:
    """These columns of a table in pieces of about `size` bytes, and how many bytes of the file are read so far."""
    read = {"parquet": _parquet_pieces, "json": _json_pieces}.get(file.kind, _ipc_pieces)
    with files.damage_reported(file):
        for table, done in read(file, columns, schema, size):
            table.validate(full=True)
            yield table, done


def _parquet_pieces(
    file: File, columns: Sequence[int], schema: pa.Schema, size: int
) -> Iterator[tuple[pa.Table, float]]:
    import pyarrow.parquet as pq

    names = [schema.names[i] for i in columns]
    unique = len(set(schema.names)) == len(schema.names)
    with pq.ParquetFile(file.path, buffer_size=_BUFFER, pre_buffer=False) as parquet:
        total, whole = max(parquet.metadata.num_rows, 1), os.path.getsize(file.path)
        groups = (parquet.metadata.row_group(i) for i in range(parquet.metadata.num_row_groups))
        per_row = max(sum(group.total_byte_size for group in groups) // total, _LEAST_ROW * len(columns))
        rows = min(max(size // per_row, 1), total)
        done = 0
        for batch in parquet.iter_batches(batch_size=rows, columns=names if unique else None):
            done += len(batch)
            table = pa.Table.from_batches([batch])
            yield table.select(names if unique else list(columns)), whole * done / total


def _ipc_pieces(file: File, columns: Sequence[int], schema: pa.Schema, size: int) -> Iterator[tuple[pa.Table, float]]:
    with files.open_ipc(file) as reader, open(file.path, "rb") as raw:
        whole = os.fstat(raw.fileno()).st_size
        count = reader.num_record_batches if file.kind == "ipc file" else None
        batches = reader if count is None else map(reader.get_batch, range(count))
        for i, batch in enumerate(batches):
            done = whole * (i + 1) / count if count else 0
            if batch.nbytes > max(8 * size, _LARGEST_BATCH):
                found = f"a record batch of {batch.nbytes >> 20:,} MiB"
                raise DataError(f"{file}: {found} is too large for this limit of memory; write smaller batches")
            rows = max(size * len(batch) // max(batch.nbytes, 1), 1)
            table = pa.Table.from_batches([batch]).select(list(columns))
            for first in range(0, len(table), rows):
                yield table.slice(first, rows), done


def _json_pieces(file: File, columns: Sequence[int], schema: pa.Schema, size: int) -> Iterator[tuple[pa.Table, float]]:
    kinds = pa.schema([schema.field(i) for i in columns])
    for block, done in _json_blocks(file, size):
        yield _parse_json(block, explicit_schema=kinds, unexpected_field_behavior="ignore").select(kinds.names), done


def _json_schema(file: File) -> pa.Schema:
    """The columns of all lines, with the types that fit all of them; what looks like dates is text."""
    kinds: dict[str, pa.DataType] = {}
    for block, _ in _json_blocks(file, files.LONGEST_LINE):
        for column in _parse_json(block).schema:
            kind = pa.string() if pa.types.is_timestamp(column.type) else column.type
            kinds[column.name] = _common_kind(column.name, kinds.get(column.name, pa.null()), kind)
    return pa.schema(list(kinds.items()))


def _common_kind(name: str, one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """A type for the values of both, as Arrow's reader of JSON would choose it."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_nested(one) and pa.types.is_nested(other):
        return one
    raise pa.ArrowInvalid(f"JSON parse error: Column(/{name}) changed from {one} to {other}")


def _json_blocks(file: File, size: int) -> Iterator[tuple[bytes, float]]:
    """Whole lines, and how many bytes of the file are read so far."""
    with open(file.path, "rb") as raw:
        unpacked = pa.CompressedInputStream(raw, file.compression) if file.compression else raw
        lines = files.JsonLines(unpacked, file.name)
        while block := lines.read(size):
            if block.strip():
                yield block, raw.tell()


def _parse_json(block: bytes, **options: Any) -> pa.Table:
    from pyarrow import json

    return json.read_json(
        pa.BufferReader(block),
        read_options=json.ReadOptions(block_size=len(block) + 1),
        parse_options=json.ParseOptions(newlines_in_values=False, **options),
    )
