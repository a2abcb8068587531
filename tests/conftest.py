"""What several tests share: the real networks, where they are present."""

import os
from pathlib import Path

import pytest

import cawn


@pytest.fixture(scope="session")
def network():
    """network("uci") reads a real network from $CAWN_DATA, or skips the test where there is none."""

    def load(name: str) -> cawn.Events:
        folder = os.environ.get("CAWN_DATA")
        path = Path(folder or ".") / name / "edges.csv.gz"
        if not folder or not path.exists():
            pytest.skip(f"needs the network {name!r} in $CAWN_DATA")
        return cawn.read(path)

    return load


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = os.environ.get("CAWN_DATA")
    if not folder:
        pytest.skip("needs $CAWN_DATA")
    return Path(folder)
