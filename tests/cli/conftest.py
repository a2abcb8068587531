"""Runs that the commands are tried on."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.data import laws
from command_line import call_cawn

SMALL = cawn.Config(alpha=0.01, num_walks=4, length=1, dim=4, frequencies=2, epochs=1)


@pytest.fixture(scope="session")
def workshop(tmp_path_factory) -> Path:
    """A folder with an edge log of string names and ISO dates, a run trained on it, and pairs to score."""
    folder = tmp_path_factory.mktemp("workshop")
    rng = np.random.default_rng(0)
    days = np.datetime64("2024-01-01T00:00:00") + np.sort(rng.integers(0, 10**7, 1_200))
    people = [f"person {i}" for i in range(30)]
    ends = [rng.choice(30, 2, replace=False) for _ in days]
    rows = [f"{people[u]},{people[v]},{day}" for (u, v), day in zip(ends, days, strict=True)]
    (folder / "edges.csv").write_text("sender,receiver,date\n" + "\n".join(rows) + "\n")
    (folder / "pairs.csv").write_text(
        "sender,receiver,date\n" + "\n".join(rows[-50:]) + "\nnobody,person 3,2024-05-01\n"
    )
    (folder / "two.csv").write_text("src,dst\n1,2\n")
    settings = [word for s in ("alpha=ladder", "epochs=1", "num_walks=8", "dim=8") for word in ("--set", s)]
    trained = call_cawn("train", folder / "edges.csv", "-o", folder / "run", "--device", "cpu", *settings)
    assert trained.code == 0, trained.err
    (folder / "trained.txt").write_text(trained.out + trained.err)
    return folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """A folder with a run whose links had unusual columns."""
    folder = tmp_path_factory.mktemp("trained")
    links = laws.triadic_closure(30, 400, seed=0).events
    rows = [f"{i},n{u},n{v},{t}" for i, (u, v, t) in enumerate(zip(links.src, links.dst, links.t, strict=True))]
    (folder / "links.csv").write_text("number,rater,ratee,when\n" + "\n".join(rows) + "\n")
    events = cawn.read(folder / "links.csv", src="rater", dst="ratee", time="when", link_id="number")
    cawn.train(events, SMALL, out=folder / "run", quiet=True, task=cawn.Task(negatives=("random",)), device="cpu")
    (folder / "now").write_text(str(int(links.t[-1]) + 1))
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of that run, to be changed."""
    return Path(shutil.copytree(trained / "run", tmp_path / "run"))


@pytest.fixture
def now(trained: Path) -> int:
    """A time after its last link."""
    return int((trained / "now").read_text())
