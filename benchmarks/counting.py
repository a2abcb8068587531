"""Scoring by exact decayed counts alone, on all cores: the system `rates` on UCI, untrained, beside CAW-N.

Its preset "fast" reads six lists per pair; the default reads up to 60 more for the features from sequences of links.
"""

from typing import Any

import numpy as np

import cawn
from benchmarks.engine import uci
from benchmarks.report import Row, best_time
from cawn.learn.trainer import Trainer
from cawn.systems.rates import RatesSettings

CANDIDATES = 256  # of each source in the rankings
CAWN_PAIRS, PIECE = 2_048, 8_192

Pairs = tuple[Any, Any, Any]  # src, dst, t


def counting(scale: float = 1.0) -> list[Row]:
    events, size = uci(), max(int((1 << 18) * scale), CAWN_PAIRS)
    configs = RatesSettings.preset("fast"), RatesSettings(), cawn.Config()
    trainers = [Trainer(events, config, quiet=True, device="cpu") for config in configs]
    rates, sequences, walks = (trainer.system.scorer(trainer.visible) for trainer in trainers)
    system, scattered, ranked = trainers[0].system, *queries(events, size)
    few = tuple(values[:CAWN_PAIRS] for values in ranked)
    piece = tuple(values[:PIECE] for values in ranked)
    features = best_time(lambda: rates.inputs(*piece), 20) / len(piece[0])
    ranking, scattering = (best_time(lambda pairs=pairs: rates(*pairs)) / size for pairs in (ranked, scattered))
    by_sequences = best_time(lambda: sequences(*piece)) / len(piece[0])
    by_walks = best_time(lambda: walks(*few), 3) / CAWN_PAIRS
    weights = sum(weight.numel() for weight in system.module.parameters())
    return [
        Row(f"scoring by counts, {CANDIDATES} destinations of a source", 1 / ranking, 1e6, unit="pairs/s"),
        Row("scoring by counts, unrelated pairs", 1 / scattering, 5e5, unit="pairs/s"),
        Row("scoring by counts against CAW-N, the same rankings", by_walks / ranking, 50),
        Row("the same with features from sequences of links", 1 / by_sequences, None, unit="pairs/s"),
        Row("share of the time in which the MLP is applied", 1 - features / ranking, None, unit=""),
        Row("arithmetic of the MLP", 2 * weights / (ranking - features) / 1e9, None, unit="Gflop/s"),
    ]


def queries(events: cawn.Events, size: int) -> tuple[Pairs, Pairs]:
    """Pairs of sources of late links and random destinations: unrelated ones, and some with equal sources and times."""
    rng = np.random.default_rng(0)
    links = rng.integers(int(0.7 * len(events)), len(events), size)
    dst = events.dst[rng.integers(0, len(events), size)]
    shared = np.repeat(links[: -(-size // CANDIDATES)], CANDIDATES)[:size]
    return (events.src[links], dst, events.t[links]), (events.src[shared], dst, events.t[shared])
