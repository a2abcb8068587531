"""Errors of probabilities, and their diagram."""

import numpy as np
import pytest

from cawn.learn.plots import can_draw
from cawn.learn.reliability import diagram, reliability


def test_errors_by_hand() -> None:
    found = reliability(np.array([0.9, 0.6]), np.array([0.1, 0.6]))
    assert found["brier"] == pytest.approx((0.01 + 0.16 + 0.01 + 0.36) / 4)
    assert found["ece"] == pytest.approx((0.1 + 0.1 + 0.2) / 4)
    np.testing.assert_allclose(found["bins"], [[0.1, 0.0, 1], [0.6, 0.5, 2], [0.9, 1.0, 1]])


def test_probabilities_of_zero_and_one_have_a_bin() -> None:
    found = reliability(np.ones(3), np.zeros(2))
    assert (found["ece"], found["brier"]) == (0.0, 0.0)
    assert found["bins"] == [[0.0, 0.0, 2], [1.0, 1.0, 3]]


@pytest.mark.skipif(not can_draw(), reason="matplotlib is not installed")
def test_the_diagram_names_each_error() -> None:
    one = reliability(np.array([0.9, 0.6]), np.array([0.1, 0.6]))
    svg = diagram({"rolling": one, "calibrated": one | {"ece": 0.25}, "raw": {"ece": 0.5, "brier": 0.5}})
    assert "refitted as links arrive: ECE 0.100" in svg
    assert "fitted on validation links: ECE 0.250" in svg
    assert "not calibrated" not in svg  # results of earlier versions have no bins
