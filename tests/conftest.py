"""What several tests share: the real networks, where they are present."""

import ctypes
import os
from pathlib import Path

import pytest

import cawn


def has_cuda() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


# The GPU's kernels run on a GPU where there is one, else in Triton's interpreter; it is asked for before Triton loads.
if not has_cuda():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(scope="session")
def gpu():
    """The device for tests of the GPU's kernels: the CPU where they are interpreted."""
    import torch

    pytest.importorskip("triton")
    return torch.device("cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda")


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
