"""What ranks exchange, and dropout that does not depend on their number."""

import numpy as np
import pytest
import torch

from cawn.systems.ranks import SINGLE, BatchRows, Ranks, RowDropout, dropout_of


@pytest.mark.parametrize(("count", "size"), [(10, 3), (64, 4), (2, 4), (0, 2)])
def test_rows_of_all_ranks_are_the_batch(count: int, size: int) -> None:
    rows = [Ranks(rank, size).rows(count) for rank in range(size)]
    assert np.concatenate([np.arange(count)[some.part] for some in rows]).tolist() == list(range(count))
    assert max(some.size for some in rows) - min(some.size for some in rows) <= 1
    assert SINGLE.rows(count) == BatchRows(0, count, count)


def test_rows_of_blocks() -> None:
    assert BatchRows(1, 2, 3).of(torch.arange(6)).tolist() == [1, 2, 4, 5]


@pytest.mark.parametrize("size", [2, 3])
def test_dropout_does_not_depend_on_the_number_of_ranks(size: int) -> None:
    layer, x = RowDropout(0.4), torch.rand(2 * 5, 7)

    def dropped(rows: BatchRows | None) -> torch.Tensor:
        torch.manual_seed(1)
        with dropout_of(rows):
            return layer(x if rows is None else rows.of(x))

    whole = dropped(None)
    assert 0 < (whole == 0).float().mean() < 1
    for rank in range(size):
        rows = Ranks(rank, size).rows(5)
        assert torch.equal(dropped(rows), rows.of(whole))
    assert torch.equal(layer.eval()(x), x)


def test_one_process_exchanges_nothing() -> None:
    assert SINGLE.all_gather_objects(3) == [3]
    assert SINGLE.broadcast("x") == SINGLE.broadcast_on_host("x") == "x"
    assert [part.tolist() for part in SINGLE.all_gather(np.arange(2.0))] == [[0.0, 1.0]]
