"""Which device is taken, and what is said where it cannot be."""

import pytest
import torch

import cawn
from cawn import devices


def test_on_this_machine() -> None:
    """Nothing is pretended: what is picked computes, and a GPU is refused only where there is a reason."""
    device = devices.pick_device("auto")
    assert torch.ones(3, device=device).sum().item() == 3
    assert device.type == "cuda" or not torch.cuda.is_available()
    if not torch.cuda.is_available():
        assert device.type == "cpu"
        with pytest.raises(cawn.DeviceError, match=r"for the CPU alone|no CUDA driver|does not start|no CUDA device"):
            devices.pick_device("cuda")


@pytest.fixture
def a_gpu(monkeypatch) -> None:
    """PyTorch says there is one of compute capability 9.0; Triton and a compiler are there too."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Some GPU")
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(devices.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.delenv("CC", raising=False)


def test_a_gpu_that_can_be_used_is_taken(a_gpu) -> None:
    assert devices.pick_device("auto").type == devices.pick_device("cuda").type == "cuda"
    assert devices.pick_device("cpu").type == "cpu"


@pytest.mark.parametrize(
    ("where", "name", "found", "why"),
    [
        (devices.importlib.util, "find_spec", lambda name: None, "Triton is missing"),
        (devices.shutil, "which", lambda name: None, "Triton needs a C compiler"),
        (torch.cuda, "get_device_capability", lambda device: (7, 5), "Some GPU has compute capability 7.5, and 8.0 is"),
    ],
)
def test_one_that_cannot_is_named_and_auto_says_why_not(a_gpu, monkeypatch, where, name, found, why: str) -> None:
    monkeypatch.setattr(where, name, found)
    with pytest.warns(UserWarning, match=f"there is a GPU, but {why}"):
        assert devices.pick_device("auto").type == "cpu"
    with pytest.raises(cawn.DeviceError, match=f"device is 'cuda', but {why}"):
        devices.pick_device("cuda")


def test_what_is_no_device() -> None:
    with pytest.raises(cawn.QueryError, match="give one of auto, cpu, cuda"):
        devices.pick_device("tpu")  # type: ignore[arg-type]
