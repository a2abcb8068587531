"""Arrays in files that are written and read in blocks."""

from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.data.array_files import ArrayFile, blocks


def test_a_file_written_in_blocks_is_that_of_numpy(tmp_path: Path) -> None:
    array = np.arange(24, dtype=np.int32).reshape(8, 3)
    np.save(tmp_path / "whole.npy", array)
    with ArrayFile(tmp_path / "blocks.npy", array.shape, array.dtype) as file:
        file.write(array[4:], 12)
        file.write(array[:4])
        np.testing.assert_array_equal(file.read(10, 5), np.arange(10, 15))
        with pytest.raises(cawn.StorageError, match=r"blocks\.npy: ended early"):
            file.read(20, 5)
    assert (tmp_path / "blocks.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


def test_blocks_of_a_mapped_array_can_be_read_twice(tmp_path: Path) -> None:
    array = np.arange(10_000)
    np.save(tmp_path / "array.npy", array)
    mapped = np.load(tmp_path / "array.npy", mmap_mode="c")
    for _ in range(2):
        found = [(first, part.copy()) for first, (part, none) in blocks(3_000, mapped, None) if none is None]
        assert [first for first, _ in found] == [0, 3_000, 6_000, 9_000]
        np.testing.assert_array_equal(np.concatenate([part for _, part in found]), array)
