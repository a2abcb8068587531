"""What several tests share: real networks and a browser, where they are present; settings that hold on any machine."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import cawn

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a background job; tests send Ctrl-C to processes they start
    signal.signal(signal.SIGINT, signal.default_int_handler)


def has_cuda() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


# What follows is read when Triton, NumPy and PyTorch load, which is why nothing above imports them.

# The GPU's kernels run on a GPU where there is one, else in Triton's interpreter.
if not has_cuda():
    os.environ["TRITON_INTERPRET"] = "1"

# Triton is missing on some platforms; these files import modules that need it.
collect_ignore_glob = [] if find_spec("triton") else ["*/test_cuda*.py", "*/test_fused.py"]

# Workers of pytest-xdist share the cores: one thread each, and one for each process they start.
if "PYTEST_XDIST_WORKER" in os.environ:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")

# The same examples everywhere and always, and none too slow for a busy machine.
settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("suite")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Contents of files are not part of the names of tests: archives hold the time at which they were made."""
    return argname if isinstance(val, bytes) else None


def hide_the_gpu(patch: pytest.MonkeyPatch) -> None:
    import torch

    patch.setattr(torch.cuda, "is_available", lambda: False)
    patch.setenv("CUDA_VISIBLE_DEVICES", "")  # of the processes that tests start


@pytest.fixture(scope="module", autouse=True)
def _on_the_cpu(request):
    """All tests but those of the GPU run on the CPU, also where there is a GPU: they compare exact numbers."""
    with pytest.MonkeyPatch.context() as patch:
        if has_cuda() and not request.node.get_closest_marker("gpu"):
            hide_the_gpu(patch)
        yield patch


@pytest.fixture(autouse=True)
def _on_the_gpu(request, _on_the_cpu):
    """A single test of the GPU among tests of the CPU."""
    marked = request.node.get_closest_marker("gpu") and not request.node.parent.get_closest_marker("gpu")
    if has_cuda() and marked:
        _on_the_cpu.undo()
    yield
    if has_cuda() and marked:
        hide_the_gpu(_on_the_cpu)


@pytest.fixture(scope="session", autouse=True)
def few_links_are_ranked():
    """Of the time of a small training, most would go into ranking 200 of its links."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cawn.learn.evaluation.RANKED_LINKS", 20)
        yield


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
        import cawn

        return cawn.read(path)

    return load


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = os.environ.get("CAWN_DATA")
    if not folder:
        pytest.skip("needs $CAWN_DATA")
    return Path(folder)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A real browser, or the test is skipped."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("needs chromium and chromedriver")
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={tmp_path_factory.mktemp('browser')}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = Chrome(options=options, service=Service(driver))
    yield started
    started.quit()
