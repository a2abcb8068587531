"""Explanations: how fast they are, and whether the walks they name are those the score rests on."""

import tempfile
import time
from pathlib import Path

import numpy as np

import cawn
from benchmarks.engine import uci
from benchmarks.report import Row
from cawn.data import laws
from cawn.learn.metrics import mean_and_interval
from cawn.learn.splits import split

DELETED = 3  # links taken out of the history of each link that is scored


def deletion(predictor: cawn.LinkPredictor, links: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """How much more the logit of each link falls without the links of its strongest walks than without random ones.

    Both are taken from the links that its walks used, as many of each, out of the history itself: walks, relative
    identities and exact features are all computed again.
    """
    rng, events, differences = np.random.default_rng(seed), predictor._events, []
    names = predictor._names.all()
    for link in links:
        u, v, t = events.src[[link]], events.dst[[link]], events.t[[link]]
        try:
            why = predictor.explain(names[u[0]], names[v[0]], t[0].item(), draws=2)
        except cawn.QueryError:
            continue  # nothing to explain it by
        used = list(dict.fromkeys(step.event for walk in why.walks for step in walk.links))
        strongest = list(dict.fromkeys(step.event for walk in why.raised for step in walk.links))[:DELETED]
        if len(strongest) < DELETED or len(used) < 2 * DELETED:
            continue

        def without(gone: list[int], ends: tuple[np.ndarray, ...] = (u, v, t)) -> float:
            kept = np.ones(len(events), bool)
            kept[gone] = False
            past = events[kept & (events.t < ends[2][0])]  # what comes later changes no score
            return float(predictor._system.scorer(past)(*ends)[0])

        at_random = rng.choice(used, DELETED, replace=False).tolist()
        differences.append(without(at_random) - without(strongest))
    return np.array(differences)


def explaining(scale: float = 1.0) -> list[Row]:
    """The deletion test on a law and on UCI, and the time of explanations on UCI."""
    rows = []
    count = max(int(200 * scale), 5)
    networks = {
        "triadic closure": laws.triadic_closure(300, 12_000, seed=1, noise=0.1).events,
        "feed-forward": laws.feed_forward(300, 12_000, seed=1, noise=0.1).events,
        "UCI": uci(),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, events in networks.items():
            run = Path(folder) / name.replace(" ", "-")
            config = cawn.Config(alpha="ladder", num_walks=32, dim=32, epochs=3, lr=3e-3)
            cawn.train(events[-int(len(events) * max(scale, 0.05)) :], config, out=run, quiet=True, kinds=("random",))
            predictor = cawn.LinkPredictor.load(run)
            test = split(predictor._events, "transductive", seed=0).test["all"]
            some = test[np.linspace(0, len(test) - 1, 2 * count).astype(int)]
            found = deletion(predictor, some)[:count].tolist()
            mean, half = mean_and_interval(found)
            words = f"{name}: log-odds that strongest walks' links carry beyond random ones, lower end"
            rows.append(
                Row(words, mean - half, 0.0, unit="", detail=f"{mean:.2f} ± {half:.2f} (95 %), {len(found)} links")
            )
        events, names = predictor._events, predictor._names.all()
        start = time.perf_counter()
        for link in some[:20]:
            predictor.explain(names[events.src[link]], names[events.dst[link]], events.t[link].item())
        rows.append(Row("UCI: one link explained", (time.perf_counter() - start) / 20, 1.0, "<=", "s"))
        start = time.perf_counter()
        predictor.law(max(int(5_000 * scale), 50))
        rows.append(Row("UCI: the law, 5,000 links", time.perf_counter() - start, 300.0, "<=", "s"))
    return rows
