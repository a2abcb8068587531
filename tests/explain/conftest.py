"""Models of networks whose law is known, trained once for all tests here."""

from pathlib import Path

import pytest

import cawn
from cawn.data import laws

CONFIG = cawn.Config(num_walks=32, dim=32, epochs=4, lr=3e-3)
NETWORKS = {
    "triadic closure": lambda: laws.triadic_closure(300, 12_000, seed=1, noise=0.1),
    "feed-forward": lambda: laws.feed_forward(300, 12_000, seed=1, noise=0.1),
    "two pairs": lambda: laws.two_pairs(50, 80),
    "null": lambda: laws.null(300, 6_000, seed=1),
}


@pytest.fixture(scope="session")
def law_run(tmp_path_factory: pytest.TempPathFactory):
    """law_run("null") is the folder of a model trained on that law."""
    made: dict[str, Path] = {}

    def train(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp("law") / "run"
            cawn.train(
                NETWORKS[name]().events,
                CONFIG,
                out=made[name],
                quiet=True,
                task=cawn.Task(negatives=("random",)),
                device="cpu",
            )
        return made[name]

    return train
