"""What a change of structure must not change, on three networks: walks, identities, features, scores and rankings.

`python tests/test_goldens.py` writes the files anew; do that only where results are meant to change.
"""

import json
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cawn
from cawn.index.features import PairFeatures, PairParts
from cawn.index.index import Index
from cawn.systems.rates import RatesSettings
from small_cawn import random_scorer

FOLDER = Path(__file__).parent / "goldens"
ALPHAS = (0.0, 0.003, 0.05)
SEEDS = range(5)  # columns of random projections that stand for all features


def few_nodes_many_ties() -> cawn.Events:
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 25, (2, 900))
    return cawn.Events(src, dst, rng.integers(0, 150, 900), rng.normal(size=(900, 2)).round(1), num_nodes=26)


def two_sides() -> cawn.Events:
    """Fractional times, every node on one side only, a hub."""
    rng = np.random.default_rng(2)
    dst = np.minimum(40 + rng.geometric(0.1, 1200), 99)
    return cawn.Events(rng.integers(0, 40, 1200), dst, rng.uniform(0, 5e3, 1200).round(2))


NETWORKS = {
    "ties": few_nodes_many_ties,
    "sides": two_sides,
    "closure": lambda: cawn.laws.triadic_closure(60, 1500, seed=3).events,
}


def checksum(*arrays: Any) -> int:
    found = 0
    for array in arrays:
        found = zlib.crc32(np.ascontiguousarray(array).tobytes(), found)
    return found


def questions(events: cawn.Events, size: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    at = np.sort(rng.integers(len(events) // 3, len(events), size))
    dst = np.where(rng.random(size) < 0.5, events.dst[at], rng.integers(0, events.num_nodes, size))
    return events.src[at].astype(np.int64), dst, events.t[at]


def projected(features: np.ndarray) -> list[list[float]]:
    """Each row times fixed random vectors."""
    onto = np.stack([np.random.default_rng(seed).normal(size=features.shape[1]) for seed in SEEDS], axis=1)
    return np.round(features @ onto, 6).tolist()


def answers(events: cawn.Events) -> dict[str, Any]:
    src, dst, t = questions(events)
    history = cawn.History(events, ALPHAS)
    walks_u, walks_v = (history.sample(nodes, t, num_walks=12, length=3, seed=5) for nodes in (src, dst))
    tree = history.sample(src, t, fanouts=(6, 3, 1), seed=6)
    recent = history.recent(src, t, 4)
    found: dict[str, Any] = {
        "walks": checksum(walks_u.nodes, walks_u.t, walks_u.events, walks_v.nodes, tree.nodes, tree.events),
        "identities": checksum(cawn.anonymize(walks_u, walks_v)),
        "recent": checksum(recent.nodes, recent.t, recent.events, history.degree(dst, t)),
    }
    for name, parts in {"all": PairParts(), "undirected": PairParts(directed=False)}.items():
        index = Index.of(events, np.array(ALPHAS), parts.kinds, parts.decay(40.0))
        found[f"features, {name}"] = projected(PairFeatures(parts, index, 40.0).features(src, dst, t))
    network = random_scorer(cawn.Config(num_walks=12, length=2, dim=8, frequencies=4, alpha=ALPHAS), events, ALPHAS)
    found["logits, cawn"] = np.round(network(src, dst, t), 4).tolist()
    run = cawn.train(events, RatesSettings(epochs=1), seed=0, device="cpu", threads=1, quiet=True)
    predictor, later = cawn.LinkPredictor.of(run), events.t[-1] + 1
    found["scores, rates"] = np.round(predictor.score(src, dst, t), 4).tolist()
    ranking = predictor.rank(int(src[0]), later, k=5)
    found["ranking, rates"] = [round(float(one.probability), 4) for one in ranking]
    found["candidates"] = len(predictor.rank(int(src[0]), later, k=100))
    return found


@pytest.mark.parametrize("name", NETWORKS)
def test_results_are_as_before(name: str) -> None:
    expected, found = json.loads((FOLDER / f"{name}.json").read_text()), answers(NETWORKS[name]())
    assert list(found) == list(expected)
    for what, value in expected.items():
        tolerance = 5e-3 if what.startswith(("logits", "scores", "ranking")) else 2e-5
        np.testing.assert_allclose(found[what], value, rtol=0, atol=tolerance, err_msg=what)


if __name__ == "__main__":
    for name in sys.argv[1:] or NETWORKS:
        (FOLDER / f"{name}.json").write_text(json.dumps(answers(NETWORKS[name]())) + "\n")
