"""Segments: the files of the log.

A segment begins with a header: the id of its log and the position of its first record. Blocks follow, each written and
synced before the next, and holding the records of one group commit: lines of JSON, in ASCII. A block has a checksum
over its contents, the position of its first record, and the number of its records and of their links.

Only the last block of the last segment can be incomplete, because each block is on disk before the next is begun: a
damaged block that an intact one follows was damaged later.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cawn.errors import StorageError, reason
from cawn.files import read_file

_MAGIC = b"cawnlog1"
_BLOCK_MAGIC = b"\xca\x57\x0e\xb1"  # not ASCII: it never occurs within records
_HEADER = struct.Struct("<8s16sQI4x")  # magic, id of the log, first position, checksum of these
_BLOCK = struct.Struct(
    "<4sIIIQQ"
)  # magic, checksum of what follows, bytes and number of records, links, first position
_CHECKED = 8  # where the part of a block begins that its checksum covers
HEADER_BYTES = _HEADER.size


class Block(NamedTuple):
    """The records of one group commit.

    Attributes:
        offset: In the file.
        end: The offset after it.
        first: The position of its first record.
        records: Their number.
        links: The number of their links.
        lines: Their JSON, one record on each line.
    """

    offset: int
    end: int
    first: int
    records: int
    links: int
    lines: bytes


class Damage(Exception):  # noqa: N818
    """No valid block begins at this offset of a file."""

    def __init__(self, offset: int, problem: str) -> None:
        super().__init__(problem)
        self.offset = offset


def segment_name(first: int) -> str:
    """The name of the segment whose first record has this position."""
    return f"{first:020d}.log"


def segment_header(log_id: bytes, first: int) -> bytes:
    """The beginning of a segment."""
    fields = _MAGIC, log_id, first
    return _HEADER.pack(*fields, zlib.crc32(_HEADER.pack(*fields, 0)))


def read_header(path: Path, content: bytes) -> tuple[bytes, int]:
    """The id of the log and the position of the first record of a segment."""
    if len(content) >= HEADER_BYTES:
        magic, log_id, first, checksum = _HEADER.unpack_from(content)
        if magic == _MAGIC and checksum == zlib.crc32(_HEADER.pack(magic, log_id, first, 0)):
            return log_id, first
    raise StorageError(f"{path}: damaged at offset 0 (no header of a log); restore it from a backup")


def encode_block(first: int, links: int, records: list[bytes]) -> bytes:
    """A block with these records, lines of JSON without their ends."""
    lines = b"\n".join(records)
    checked = _BLOCK.pack(b"", 0, len(lines), len(records), links, first)[_CHECKED:] + lines
    return _BLOCK_MAGIC + struct.pack("<I", zlib.crc32(checked)) + checked


def read_segment(path: Path) -> bytes:
    """The content of a segment."""
    try:
        return read_file(path)
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({reason(error)}); restore it from a backup") from error


def blocks(content: bytes, offset: int = HEADER_BYTES) -> Iterator[Block]:
    """The blocks of a segment from an offset on; raises Damage where none begins before the end."""
    while offset < len(content):
        block = _block_at(content, offset)
        yield block
        offset = block.end


def has_block_after(content: bytes, offset: int) -> bool:
    """Whether an intact block begins after this offset."""
    while (offset := content.find(_BLOCK_MAGIC, offset + 1)) >= 0:
        try:
            _block_at(content, offset)
        except Damage:
            continue
        return True
    return False


def _block_at(content: bytes, offset: int) -> Block:
    start = offset + _BLOCK.size
    if start > len(content):
        raise Damage(offset, "incomplete")
    magic, checksum, size, records, links, first = _BLOCK.unpack_from(content, offset)
    end = start + size
    if magic != _BLOCK_MAGIC:
        raise Damage(offset, "no block begins here")
    if end > len(content):
        raise Damage(offset, "incomplete")
    if zlib.crc32(memoryview(content)[offset + _CHECKED : end]) != checksum:
        raise Damage(offset, "wrong checksum")
    return Block(offset, end, first, records, links, content[start:end])
