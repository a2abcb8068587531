"""Decayed counts of lists, by hand; the features are tested in tests/walks/test_sequences.py."""

import math

import numpy as np
import pytest

from cawn.kernels.cpu.sequences import decayed_counts


def test_decayed_counts() -> None:
    """Two lists: links at 0, 10 and 10, and one at 3; a link counts 1 / e after 10 units of time."""
    found = decayed_counts(np.array([0, 3, 3, 4]), np.array([0, 10, 10, 3]), 10.0)
    assert found == pytest.approx([1, 1 + 1 / math.e, 2 + 1 / math.e, 1])
