"""Explanations: whether they add up, whether scores depend on what they name, and how fast they are."""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import cawn
from benchmarks.engine import uci
from benchmarks.report import Row
from cawn.caw.features import WALK_SEED
from cawn.caw.system import WalkScorer
from cawn.data import laws
from cawn.explain.game import Game
from cawn.explain.law import LawLinks, explain_law
from cawn.explain.link import walk_scorer
from cawn.learn.metrics import mean_and_interval
from cawn.learn.splits import split

WALKS = 3  # whose links are taken out of the history of each link that is scored


@dataclass(frozen=True)
class Deletion:
    """Log-odds that scores lose without the links of their strongest walks, and without as many others."""

    strongest: list[float]
    others: list[float]

    @property
    def ratio(self) -> float:
        return float(np.mean(self.strongest) / max(np.mean(self.others), 1e-9))

    @property
    def apart(self) -> bool:
        """Whether the 95 % intervals of the two means do not overlap."""
        (high, above), (low, below) = (mean_and_interval(values) for values in (self.strongest, self.others))
        return high - above > low + below

    def __str__(self) -> str:
        means = ["{:.2f} ± {:.2f}".format(*mean_and_interval(values)) for values in (self.strongest, self.others)]
        return f"{means[0]} against {means[1]} (95 %), {len(self.strongest)} links"


def deletion(predictor: cawn.LinkPredictor, links: np.ndarray, *, draws: int = 4, seed: int = 0) -> Deletion:
    """How much the logit of each link falls without the links of its strongest walks, and without random ones.

    Both are taken from the links that its walks used, as many of each, out of the history itself: walks, relative
    identities and exact features are all computed again. Random links, which may include the others, are drawn several
    times for each link.
    """
    rng, events, scorer = (
        np.random.default_rng(seed),
        predictor.snapshot().events,
        walk_scorer(predictor.snapshot().scorer),
    )
    strongest, others = [], []
    for link in links:
        ends = events.src[[link]].astype(np.int64), events.dst[[link]].astype(np.int64), events.t[[link]]
        past = events[: int(np.searchsorted(events.t, ends[2][0]))]
        game = Game(scorer, *ends)
        found, walks = game.contributions(), game.walks
        raising = [i for i in np.argsort(-found.walks, kind="stable") if found.walks[i] > 0 and walks.level[i] > 0]
        used = np.unique(walks.events[walks.events >= 0])
        top = walks.events[raising[:WALKS]]
        top = np.unique(top[top >= 0])
        if len(top) == 0 or len(used) < 2 * len(top):
            continue

        def lost(gone: np.ndarray, ends=ends, past=past, logit=found.table[0, -1]) -> float:
            kept = np.ones(len(past), bool)
            kept[gone] = False
            return float(logit - _logit(scorer.on(past[kept]), ends))

        strongest.append(lost(top))
        others.append(float(np.mean([lost(rng.choice(used, len(top), replace=False)) for _ in range(draws)])))
    return Deletion(strongest, others)


def _logit(scorer: WalkScorer, ends: tuple[np.ndarray, ...]) -> float:
    return float(scorer.logits_of(scorer.batcher.pairs(*ends, seed=WALK_SEED))[0])


def adds_up(predictor: cawn.LinkPredictor, count: int) -> float:
    """The largest difference between a logit and the sum of base and parts, over test links and random negatives."""
    events, scorer = predictor.snapshot().events, predictor.snapshot().scorer
    test = split(events, "transductive", seed=0).test["all"]
    some = test[np.linspace(0, len(test) - 1, count).astype(int)]
    src, t = events.src[some].astype(np.int64), events.t[some]
    dst = np.where(np.arange(count) % 2 == 0, events.dst[some], np.roll(events.dst[some], 7)).astype(np.int64)
    found = Game(walk_scorer(scorer), src, dst, t).contributions()
    return float(np.abs(found.table[:, 0] + found.parts.sum(axis=1) - scorer(src, dst, t)).max())


def caused_law(predictor: cawn.LinkPredictor, caused: np.ndarray, *, seed: int = 0):
    """The law of a model over the test links that a planted law causes."""
    events = predictor.snapshot().events
    test = split(events, "transductive", seed=0).test["all"]
    links = test[caused[test]]
    negative = np.random.default_rng(seed).permutation(events.dst)[: len(links)]
    old = np.ones(events.num_nodes, bool)
    kept = negative != events.src[links]
    ends = LawLinks(events.src[links][kept], events.dst[links][kept], negative[kept], events.t[links][kept], old)
    return explain_law(walk_scorer(predictor.snapshot().scorer), ends)


def explaining(scale: float = 1.0) -> list[Row]:
    """Additivity, planted laws, the deletion test on laws and on UCI, and the time of explanations on UCI."""
    rows = []
    count = max(int(200 * scale), 5)
    networks = {
        "triadic closure": laws.triadic_closure(300, 12_000, seed=1, noise=0.1),
        "feed-forward": laws.feed_forward(300, 12_000, seed=1, noise=0.1),
        "two pairs": laws.two_pairs(50, 80),
        "null": laws.null(300, 6_000, seed=1),
        "UCI": uci(),
    }
    holding = {"triadic closure": ("common",), "feed-forward": ("common",), "two pairs": ("pair", "repeated")}
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for name, network in networks.items():
            run = Path(folder) / name.replace(" ", "-")
            small = {"alpha": "ladder", "num_walks": 32, "dim": 32, "epochs": 4, "lr": 3e-3}
            config = cawn.Config(epochs=4) if name == "UCI" else cawn.Config(**small)
            if scale < 1:
                config = config.with_(num_walks=8, dim=8, epochs=1)
            events = network if name == "UCI" else network.events
            first = max(len(events) - max(int(len(events) * scale), 1_000), 0)
            cawn.train(
                events[first:], config, out=run, quiet=True, task=cawn.Task(negatives=("random",), baselines=False)
            )
            predictor = cawn.LinkPredictor.load(run)
            worst = max(worst, adds_up(predictor, max(int(1000 * scale), 10)))
            if name in holding:
                rows.append(_planted(name, predictor, network.caused[first:], holding[name]))
            elif name == "null":
                law = predictor.law(max(int(5000 * scale), 50))
                beyond = [part.title for part in law.parts if part.significant]
                detail = f"{law.links} links, " + (", ".join(beyond) or "none")
                rows.append(Row("null network: parts beyond their interval", len(beyond), 0.0, "<=", "", detail=detail))
            if name in ("triadic closure", "feed-forward", "UCI"):
                test = split(predictor.snapshot().events, "transductive", seed=0).test["all"]
                some = test[np.linspace(0, len(test) - 1, int(1.3 * count)).astype(int)]
                found = deletion(predictor, some)
                kept = np.linspace(0, len(found.strongest) - 1, min(count, len(found.strongest))).astype(int).tolist()
                found = Deletion([found.strongest[i] for i in kept], [found.others[i] for i in kept])
                words = f"{name}: log-odds lost without the links of the top {WALKS} walks, against random links"
                aim = 3.0 if name == "UCI" else 5.0
                rows.append(Row(words, found.ratio if found.apart else 0.0, aim, unit="x", detail=str(found)))
        rows.append(Row("largest error of the sum of parts, all networks", worst, 1e-4, "<=", "log-odds"))
        rows += _times(predictor, some, scale)
    return rows


def _planted(name: str, predictor: cawn.LinkPredictor, caused: np.ndarray, holding: tuple[str, ...]) -> Row:
    """By how much the evidence of the part that holds the law exceeds the largest of all others."""
    law = caused_law(predictor, caused)
    best = max(part.evidence for part in law.parts if part.name in holding)
    other = max((part for part in law.parts if part.name not in holding), key=lambda part: part.evidence)
    share = next(part.share for part in law.parts if part.evidence == best)
    detail = f"{100 * share:.0f} % of the evidence; next: {other.title}, {100 * other.share:.0f} %; {law.links} links"
    return Row(
        f"{name}: evidence of the part that holds the law, less that of the next",
        best - other.evidence,
        0.0,
        unit="log-odds",
        detail=detail,
    )


def _times(predictor: cawn.LinkPredictor, some: np.ndarray, scale: float) -> list[Row]:
    events, names = predictor.snapshot().events, predictor.snapshot().names.all()
    times = []
    for link in some[:40]:
        start = time.perf_counter()
        predictor.explain(names[events.src[link]], names[events.dst[link]], events.t[link].item())
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    law = predictor.law(max(int(5_000 * scale), 50))
    detail = f"median; longest of {len(times)}: {1e3 * max(times):.0f} ms"
    return [
        Row("UCI: one link explained, after loading", 1e3 * float(np.median(times)), 50.0, "<=", "ms", detail=detail),
        Row(f"UCI: the law, {law.links:,} links", time.perf_counter() - start, 60.0, "<=", "s"),
    ]
