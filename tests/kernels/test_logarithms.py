"""The vectorized functions against those of NumPy, which are exact to the last bits."""

import numpy as np

from cawn.kernels.cpu.logarithms import exp, log1p


def test_exp() -> None:
    x = np.concatenate([np.linspace(-700, 100, 2_001), -np.geomspace(1e-300, 1, 50), [0.0, 1e-17]])
    np.testing.assert_allclose([exp(value) for value in x], np.exp(x), rtol=2e-11)
    x = np.linspace(-760, -700, 200)  # too small for a normal number, at last for any
    np.testing.assert_allclose([exp(value) for value in x], np.exp(x), rtol=2e-11, atol=1e-323)
    assert exp(-746.0) == exp(-1e300) == exp(-np.inf) == 0.0


def test_log1p() -> None:
    x = np.concatenate([np.geomspace(1e-300, 1e300, 2_001), np.linspace(0, 4, 1_001)])
    np.testing.assert_allclose([log1p(value) for value in x], np.log1p(x), rtol=2e-11)
    assert log1p(0.0) == 0.0
