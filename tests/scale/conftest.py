"""The run that scoring and ranking at scale are tried on."""

from pathlib import Path

import pytest

from cawn.predictor import LinkPredictor
from cawn.scale import jobs, plans
from small_jobs import small_run


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("scale") / "run"
    small_run(folder)
    return folder


@pytest.fixture(scope="session")
def predictor(run: Path) -> LinkPredictor:
    return LinkPredictor.load(run, device="cpu", threads=1)


@pytest.fixture
def small_partitions(monkeypatch) -> None:
    """Partitions of 128 pairs or 16 nodes."""
    monkeypatch.setattr(jobs, "ROWS", 64)
    monkeypatch.setattr(jobs, "NODES", 8)
    monkeypatch.setattr(plans, "PARTITION_CHUNKS", 2)
