"""A run of a small network that services are tried on."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cawn
from cawn.data import laws
from cawn.serve.service import Service, ServiceSettings
from cawn.serve.store import LiveStore
from cawn.systems.rates import RatesSettings
from small_stream import train_on_cycles

SMALL = cawn.Config(alpha=0.01, num_walks=4, length=1, dim=4, frequencies=2, epochs=1)


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """A run of 400 links between nodes n0 to n29, at whole times."""
    folder = tmp_path_factory.mktemp("served") / "run"
    links = laws.triadic_closure(30, 400, seed=0).events
    rows = [f"n{u},n{v},{t}" for u, v, t in zip(links.src, links.dst, links.t, strict=True)]
    (folder.parent / "links.csv").write_text("src,dst,t\n" + "\n".join(rows) + "\n")
    events = cawn.read(folder.parent / "links.csv")
    cawn.train(
        events, SMALL, out=folder, quiet=True, task=cawn.Task(negatives=("random",), baselines=False), device="cpu"
    )
    return folder


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> dict[str, Path]:
    """Runs with 120 links at times below 900: one whose names are integers, one with text names and attributes."""
    folder, rng = tmp_path_factory.mktemp("live"), np.random.default_rng(0)
    src, dst, t = rng.integers(0, 8, 120), rng.integers(4, 12, 120), np.sort(rng.integers(0, 900, 120))
    plain = cawn.Events(src, dst, t, labels=np.arange(12) + 1)
    rows = [f"n{u},n{v},{when},{u * 1.5},{'EUR' if v % 2 else 'USD'}" for u, v, when in zip(src, dst, t, strict=True)]
    (folder / "paid.csv").write_text("src,dst,time,amount,currency\n" + "\n".join(rows) + "\n")
    paid = cawn.read(folder / "paid.csv", msg=["amount", "currency"])
    options: dict[str, Any] = {
        "quiet": True,
        "task": cawn.Task(negatives=("random",), baselines=False),
        "device": "cpu",
    }
    for name, events in (("integers", plain), ("text", paid)):
        cawn.train(events, RatesSettings(epochs=1), out=folder / name, **options)
    return {name: folder / name for name in ("integers", "text")}


@pytest.fixture(scope="session")
def cycles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on links to the next destination in a cycle; see `small_stream`."""
    folder = tmp_path_factory.mktemp("cycles") / "run"
    train_on_cycles(folder)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LiveStore]:
    """An empty store."""
    opened = LiveStore(tmp_path / "state")
    yield opened
    opened.close()


@pytest.fixture
def served(trained: Path, tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Starts services of a copy of that run, and stops them."""
    started: list[Service] = []

    def start(**settings: Any) -> Service:
        run = tmp_path / "run"
        if not run.exists():
            shutil.copytree(trained, run)
        service = Service(ServiceSettings(run, device="cpu", threads=1, **settings))
        started.append(service)
        service.start()
        return service

    yield start
    for service in started:
        service.stop()


@pytest.fixture(scope="module")
def shared_service(trained: Path, tmp_path_factory) -> Iterator[Service]:
    """A service for tests that do not mind links others have added."""
    run = shutil.copytree(trained, tmp_path_factory.mktemp("shared") / "run")
    service = Service(ServiceSettings(Path(run), device="cpu", threads=1, max_ahead=2.0**62))
    service.start()
    yield service
    service.stop()


@pytest.fixture
def served_copy(trained: Path, tmp_path: Path) -> Path:
    """A copy of that run, to be served by another process."""
    return Path(shutil.copytree(trained, tmp_path / "run"))
