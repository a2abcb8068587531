"""Which device is used, and what the message says where it cannot be. Nothing is faked but the GPU itself."""

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import cawn
from cawn.devices import may_have_cuda, named_device, peak_memory, pick_device, reset_peak_memory

CUDA = torch.cuda.is_available()  # before the tests of the CPU hide the GPU
NO_GPU = r"device is .cuda(:1)?., but (this build of PyTorch is for the CPU|no CUDA driver|CUDA does not start|no CUDA)"


@pytest.mark.parametrize("name", ["auto", "cpu"])
def test_without_a_gpu_the_cpu_is_used(name: str) -> None:
    device = pick_device(name)
    assert device == torch.device("cpu")
    assert torch.ones(3, device=device).sum().item() == 3


@pytest.mark.parametrize("pick", [pick_device, named_device])
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_without_a_gpu_it_is_refused_with_the_reason(pick, name: str) -> None:
    with pytest.raises(cawn.DeviceError, match=NO_GPU):
        pick(name)


def test_a_hidden_gpu_is_refused_in_one_line() -> None:
    """A fresh process, which finds whatever driver and PyTorch this machine has."""
    code = "from cawn.devices import pick_device; pick_device('cuda')"
    hidden = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", code], env=hidden, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "DeviceError: device is 'cuda', but " in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].endswith("; give cpu")


@pytest.mark.gpu
@pytest.mark.skipif(not CUDA, reason="needs a GPU")
def test_on_a_gpu() -> None:
    assert may_have_cuda()
    device = pick_device("auto")
    assert device.type == pick_device("cuda").type == "cuda"
    assert torch.ones(3, device=device).sum().item() == 3
    assert pick_device("cuda:0") == torch.device("cuda:0")
    with pytest.raises(cawn.DeviceError, match=r"device is 'cuda:99', but there are \d+ CUDA devices"):
        named_device("cuda:99")


@pytest.fixture
def a_gpu(monkeypatch, tmp_path: Path) -> None:
    """PyTorch reports one of compute capability 9.0; the only C compiler is a file called gcc."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Some GPU")
    (tmp_path / "gcc").write_text("#!/bin/sh\n")
    (tmp_path / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    pytest.importorskip("triton")


def test_a_gpu_that_can_be_used_is_taken(a_gpu) -> None:
    assert pick_device("auto").type == pick_device("cuda").type == "cuda"
    assert pick_device("cpu").type == "cpu"
    assert pick_device("cuda:0") == torch.device("cuda:0")
    with pytest.raises(cawn.DeviceError, match="device is 'cuda:1', but there are 1 CUDA devices"):
        pick_device("cuda:1")


def without_triton(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)


def without_a_compiler(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")


def with_an_old_gpu(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (without_triton, "Triton is missing"),
        (without_a_compiler, "Triton needs a C compiler"),
        (with_an_old_gpu, "Some GPU has compute capability 7.5, and 8.0 is"),
    ],
)
def test_one_that_cannot_is_named_and_auto_says_why_not(a_gpu, monkeypatch, change, why: str) -> None:
    change(monkeypatch)
    with pytest.warns(UserWarning, match=f"there is a GPU, but {why}"):
        assert pick_device("auto").type == "cpu"
    with pytest.raises(cawn.DeviceError, match=f"device is 'cuda', but {why}"):
        pick_device("cuda")


def test_the_compiler_may_be_named_instead(a_gpu, monkeypatch) -> None:
    without_a_compiler(monkeypatch)
    monkeypatch.setenv("CC", "/opt/compiler")
    assert pick_device("auto").type == "cuda"


@pytest.mark.parametrize("name", ["tpu", "", "cuda:", "cuda:-1", "cuda:x", "cpu:0", None])
def test_what_is_no_device(name) -> None:
    with pytest.raises(cawn.QueryError, match="give auto, cpu, cuda, or cuda:1"):
        pick_device(name)


@pytest.mark.parametrize("name", ["tpu", "mps", 3])
def test_what_is_no_device_of_pytorch(name) -> None:
    with pytest.raises(cawn.QueryError, match="give cpu or cuda"):
        named_device(name)


def test_peak_memory_is_measured_from_the_reset() -> None:
    cpu = torch.device("cpu")
    reset_peak_memory(cpu)
    before = peak_memory(cpu)
    with mmap.mmap(-1, 40_000_000) as held:  # pages of its own, never those that an allocator kept
        held.write(b"1" * 1_000_000 * 40)
        during = peak_memory(cpu)
    assert before is not None
    assert during is not None
    assert 30e6 < during - before < 120e6
    assert peak_memory(cpu) == pytest.approx(during, abs=2e6)  # it stays at the peak; the system counts in batches
    if sys.platform == "linux":
        reset_peak_memory(cpu)
        assert peak_memory(cpu) < during - 20e6
