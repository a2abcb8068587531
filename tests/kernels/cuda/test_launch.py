"""Work in pieces that fit into the memory of the device."""

import pytest
import torch

import cawn
from cawn.kernels.cuda.launch import Pieces

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:overflow encountered")]


def test_pieces_shrink_when_memory_runs_out(gpu) -> None:
    asked: list[tuple[int, int]] = []

    def work(first: int, last: int) -> int:
        asked.append((first, last))
        if last - first > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return last - first

    pieces = Pieces(16)
    assert list(pieces(work, 10)) == [2, 2, 2, 2, 2]
    assert asked[:4] == [(0, 10), (0, 8), (0, 4), (0, 2)]
    asked.clear()
    assert list(pieces(work, 3)) == [2, 1]  # what was found to fit is remembered

    def never(first: int, last: int) -> int:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(cawn.DeviceError, match="a single pair"):
        list(Pieces(16)(never, 10))
