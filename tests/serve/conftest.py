"""A run of a small network that services are tried on."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import cawn
from cawn.data import laws
from cawn.serve.service import Service, ServiceSettings
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
    cawn.train(events, SMALL, out=folder, quiet=True, kinds=("random",), device="cpu", baselines=False)
    return folder


@pytest.fixture(scope="session")
def cycles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on links to the next destination in a cycle; see `small_stream`."""
    folder = tmp_path_factory.mktemp("cycles") / "run"
    train_on_cycles(folder)
    return folder


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
    service = Service(ServiceSettings(Path(run), device="cpu", threads=1))
    service.start()
    yield service
    service.stop()


@pytest.fixture
def served_copy(trained: Path, tmp_path: Path) -> Path:
    """A copy of that run, to be served by another process."""
    return Path(shutil.copytree(trained, tmp_path / "run"))
