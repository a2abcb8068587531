"""What every system of the registry promises, whatever it is."""

import numpy as np
import pytest

import cawn
from cawn import systems
from systems.small_settings import small

NAMES = [name for name in systems.names() if name != "recency regression"]


@pytest.mark.parametrize("name", NAMES)
def test_it_has_small_settings(name: str) -> None:
    assert small(name).epochs <= 2
    assert np.isfinite(1.0) and cawn is not None
