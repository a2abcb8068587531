"""Blocks of records in files: whole, damaged or incomplete."""

from pathlib import Path

import pytest

import cawn
from cawn.serve.segments import (
    HEADER_BYTES,
    Damage,
    blocks,
    encode_block,
    has_block_after,
    read_header,
    read_segment,
    segment_header,
    segment_name,
)

LOG = bytes(range(16))
CONTENT = segment_header(LOG, 5) + encode_block(5, 3, [b"one", b"two"]) + encode_block(7, 0, [b"three"])


def test_blocks_are_read_back() -> None:
    assert read_header(Path("x.log"), CONTENT) == (LOG, 5)
    found = list(blocks(CONTENT))
    assert [(b.first, b.records, b.links, b.lines) for b in found] == [(5, 2, 3, b"one\ntwo"), (7, 1, 0, b"three")]
    assert (found[0].offset, found[0].end, found[1].end) == (HEADER_BYTES, found[1].offset, len(CONTENT))
    assert segment_name(5) == "00000000000000000005.log"


def test_every_incomplete_end_is_noticed() -> None:
    first = next(blocks(CONTENT))
    for end in range(first.end + 1, len(CONTENT)):
        cut, found = CONTENT[:end], []
        with pytest.raises(Damage) as caught:
            found.extend(blocks(cut))
        assert caught.value.offset == first.end
        assert not has_block_after(cut, first.end)


def test_every_changed_byte_is_noticed() -> None:
    for offset in range(len(CONTENT)):
        changed = bytearray(CONTENT)
        changed[offset] ^= 0x20
        if offset < HEADER_BYTES - 4:  # the rest is padding
            with pytest.raises(cawn.StorageError, match=r"x\.log: damaged at offset 0"):
                read_header(Path("x.log"), bytes(changed))
        elif offset >= HEADER_BYTES:
            with pytest.raises(Damage) as caught:
                list(blocks(bytes(changed)))
            first = next(blocks(CONTENT))
            assert has_block_after(bytes(changed), caught.value.offset) == (offset < first.end)


def test_a_missing_segment_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(cawn.StorageError, match="cannot be read"):
        read_segment(tmp_path / "none.log")
