"""A baseline without walks: a small network on the counted past alone, `Rates.features`.

Trained in seconds on the same links and negatives as the model, it shows how much of an accuracy is owed to counting.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cawn.kernels.rng import order
from cawn.progress import Report
from cawn.systems.cawn.batches import Batcher
from cawn.systems.cawn.config import Config
from cawn.systems.cawn.model import symmetric
from cawn.systems.cawn.steps import TrainingLinks, losses
from cawn.walks.rates import Rates, pair_width

Array = npt.NDArray[Any]

EPOCHS, BATCH_SIZE, HIDDEN, LEARNING_RATE = 6, 256, 64, 3e-3
MOST_LINKS = 100_000  # of an epoch, spread over the training period
_PAIRS = 1 << 16  # described at once


class RatesOnly:
    """Logits of pairs from the rates of `batcher`: a function of (src, dst, t), as the untrained baselines are."""

    def __init__(self, network: nn.Module, batcher: Batcher, rates: Rates) -> None:
        self._network, self._rates, self._unit, self._config = network, rates, batcher.unit, batcher.config

    @torch.no_grad()
    def __call__(self, src: Array, dst: Array, t: Array) -> npt.NDArray[np.float64]:
        found = [np.empty(0)]
        for i in range(0, len(src), _PAIRS):
            part = slice(i, i + _PAIRS)
            features = _features(self._rates, src[part], dst[part], t[part], self._unit, self._config)
            found.append(self._network(features).squeeze(-1).double().numpy())
        return np.concatenate(found)


def train_rates_only(links: TrainingLinks, batcher: Batcher, report: Report = lambda _: None) -> RatesOnly:
    """Train it on `links`; `batcher` is on the whole network. `report` is told the share that is done."""
    events, config, visible = links.events, batcher.config, links.parts.visible
    full = _rates_of(batcher)
    known = (
        full if visible.all() else _rates_of(Batcher.of(config, events[visible], batcher.history.alpha, batcher.unit))
    )
    some = np.unique(np.linspace(0, len(links.links) - 1, min(MOST_LINKS, len(links.links))).astype(np.int64))
    at = links.links[some]
    src, t = events.src[at], events.t[at]
    true = _features(known, src, events.dst[at], t, batcher.unit, config)
    weights = torch.ones(len(at)) if links.weights is None else torch.from_numpy(links.weights[some])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums in one order, so that the same run gives the same figures again
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(links.number("rates only"))
            network = nn.Sequential(nn.Linear(true.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
            network.append(nn.Linear(HIDDEN, 1))
        optimizer = torch.optim.Adam(network.parameters(), LEARNING_RATE)
        steps = EPOCHS * -(-len(at) // BATCH_SIZE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for epoch in range(EPOCHS):
            seed = links.number("rates only", epoch)
            false = _features(known, src, links.negatives(seed)[some], t, batcher.unit, config)
            shuffled = torch.from_numpy(order(seed, len(at)))
            for first in range(0, len(at), BATCH_SIZE):
                batch = shuffled[first : first + BATCH_SIZE]
                _update(network, optimizer, true[batch], false[batch], weights[batch])
                schedule.step()
            report((epoch + 1) / EPOCHS)
    finally:
        torch.set_num_threads(threads)
    return RatesOnly(network, batcher, full)


def _update(network: nn.Module, optimizer: torch.optim.Optimizer, true: Tensor, false: Tensor, weights: Tensor) -> None:
    loss = (losses(network(torch.cat([true, false])).squeeze(-1)) * weights).mean()
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()


def _rates_of(batcher: Batcher) -> Rates:
    """The rates of a batcher, made where its config does without."""
    return batcher.rates or Rates(batcher.events, batcher.history, directed=batcher.config.directed)


def _features(rates: Rates, src: Array, dst: Array, t: Array, unit: float, config: Config) -> Tensor:
    features = torch.from_numpy(rates.features(src, dst, t, unit))
    return symmetric(features, pair_width(features.shape[1])) if config.sides == "symmetric" else features
