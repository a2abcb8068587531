"""An array that grows: views of it never change."""

import numpy as np
import pytest

from cawn.data.growing import GrowingArray


def test_views_never_change() -> None:
    array, expected, views = GrowingArray(np.arange(3)), [0, 1, 2], []
    rng = np.random.default_rng(0)
    for step in range(300):
        kept = len(expected) if rng.random() < 0.7 else int(rng.integers(0, len(expected) + 1))
        rows = np.full(rng.integers(0, 30), step)
        array.append(rows, kept)
        expected = [*expected[:kept], *rows.tolist()]
        views.append((array.view(), expected))
    assert len(array) == len(expected)
    for view, rows in views:
        assert view.tolist() == rows


def test_views_are_read_only() -> None:
    view = GrowingArray(np.zeros((2, 3), np.float32)).view()
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
