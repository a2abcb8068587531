"""Smoothed counts (Qarkaxhija and Scholtes, 2026): a log-linear model of decayed counts with a dozen weights.

The model predicts the destination z of a source u at time t. Counts of past links estimate P(z), P(z | u) and P(z | v),
where v is one of the last K destinations of u, and destinations after v are counted over all sources. Every count is
decayed: a link contributes exp(-age / decay). Estimates from few links are smoothed. There are no node embeddings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from cawn.data.events import Events
from cawn.data.ties import in_canonical_order
from cawn.index.tallies import Tally, first_occurrences
from cawn.kernels.keys import pair_key
from cawn.systems.base import Context
from cawn.systems.settings import Settings, setting
from cawn.systems.training import Optimizer, mean_loss

Array = npt.NDArray[Any]

DECAY = 0.15 / 0.70  # of counts, relative to the training period: the length of the usual validation period
RECENCY = (0.001, 0.01, 0.1)  # scales of recency, relative to the training period
_PAIRS = 1 << 15  # scored at once


@dataclass(frozen=True)
class CountsSettings(Settings):
    """Settings of the smoothed-count model."""

    batch_size: int = 256
    lr: float = 1e-2
    epochs: int = 100
    patience: int = 10
    schedule: Literal["constant", "one-cycle"] = "constant"
    weight_decay: float = 0.0
    negatives: Literal["random", "mixed", "hard"] = "random"
    pool: Literal["period", "training"] = "training"
    attributes: ClassVar[bool] = False  # type: ignore[misc]  # no setting: they are not used
    standardise: ClassVar[bool] = False  # type: ignore[misc]
    depth: int = setting(5, "K, the number of last destinations of the source that are used", 1, 100)
    smoothing: float = setting(1.0, "pseudo-counts of each estimate", 1e-6, 1e6)
    backoff: Literal["marginal", "continuation"] = setting("marginal", "smooth to popularity or to Kneser-Ney counts")

    MEMORY: ClassVar[tuple[str, ...]] = ("batch_size", "depth")
    SEARCHED: ClassVar[dict[str, Any]] = {
        "lr": {"low": 1e-3, "high": 1e-1, "log": True},
        "depth": [1, 2, 5, 10],
        "smoothing": {"low": 0.01, "high": 100.0, "log": True},
        "backoff": ["marginal", "continuation"],
    }


class DecayedTally:
    """Decayed counts of keys, and the time since each key last occurred."""

    def __init__(self, keys: Array, links: Array, t: Array, scale: float) -> None:
        self.tally = Tally.of(keys, links)
        self._t, self._scale, self._sums = t, scale, self.tally.decayed(t, scale)

    def before(self, keys: Array, t: Array, visible: Array) -> tuple[Array, Array]:
        """Decayed count and age of each key at t, from the first `visible` links; 0 and infinity if it has none."""
        _, newest = self.tally.before(keys, visible)
        if len(self._sums) == 0:
            return np.zeros(len(keys)), np.full(len(keys), np.inf)
        age = np.where(newest >= 0, t - self._t[self.tally.links[newest]], np.inf)
        return self._sums[newest] * np.exp(-age / self._scale), age

    def count(self, keys: Array, t: Array, visible: Array) -> Array:
        """Decayed counts alone."""
        return self.before(keys, t, visible)[0]


class CountTables:
    """All counts of a network, as of any number of links; simultaneous links are in canonical order.

    Args:
        period: The length of the training period.
    """

    def __init__(self, events: Events, config: CountsSettings, period: float) -> None:
        events = in_canonical_order(events)
        self.config, self.period, self.t = config, period, events.t
        src, self._dst, links = events.src.astype(np.int64), events.dst.astype(np.int64), np.arange(len(events))

        def decayed(keys: Array, at: Array) -> DecayedTally:
            return DecayedTally(keys, at, events.t, DECAY * period)

        self._destinations, self._sources = decayed(self._dst, links), decayed(src, links)
        self._pairs, self._all = decayed(pair_key(src, self._dst), links), decayed(np.zeros(len(events), int), links)
        self._vocabulary = np.flatnonzero(first_occurrences(self._dst))  # links to new destinations

        previous = self.recent(src, links)  # [E, K]
        follows = np.flatnonzero(previous[:, 0] >= 0)  # links of sources that have linked before
        transitions = pair_key(previous[follows, 0], self._dst[follows])
        self._transitions = decayed(transitions, follows)
        self._transitions_from = decayed(previous[follows, 0], follows)
        new = follows[first_occurrences(transitions)]  # links whose transition occurs for the first time
        self._continuations, self._num_continuations = Tally.of(self._dst[new], new), new

        link, place = np.nonzero(previous >= 0)
        together = pair_key(previous[link, place], self._dst[link])
        self._windows, self._windows_from = decayed(together, link), decayed(previous[link, place], link)

    def before(self, t: Array) -> Array:
        """The number of links strictly before each time."""
        return np.searchsorted(self.t, t)

    def recent(self, src: Array, visible: Array) -> Array:
        """The last K destinations of each source among the first `visible` links, newest first; -1 for none: [B, K]."""
        if len(self.t) == 0:
            return np.full((len(src), self.config.depth), -1)
        count, newest = self._sources.tally.before(src, visible)
        steps = np.arange(self.config.depth)
        exists = steps < count[:, None]
        at = np.where(exists, newest[:, None] - steps, 0)
        return np.where(exists, self._dst[self._sources.tally.links[at]], -1)

    def features(self, src: Array, dst: Array, t: Array, visible: Array) -> npt.NDArray[np.float32]:
        """log P(z), log P(z | u), log P(z | v_k) for each k, log P_co(z); recency of the pair and of z: [B, K + 7].

        Estimates conditional on a v that does not exist are 0.
        """
        src, dst = src.astype(np.int64), dst.astype(np.int64)
        smoothing, depth = self.config.smoothing, self.config.depth
        popularity, idle = self._destinations.before(dst, t, visible)
        vocabulary = np.maximum(np.searchsorted(self._vocabulary, visible), 1)  # destinations so far
        total = self._all.count(np.zeros(len(src), int), t, visible)
        marginal = (popularity + smoothing) / (total + smoothing * vocabulary)  # P(z)
        if self.config.backoff == "continuation":
            predecessors, _ = self._continuations.before(dst, visible)
            total = np.searchsorted(self._num_continuations, visible)
            base = (predecessors + smoothing) / (total + smoothing * vocabulary)
        else:
            base = marginal

        pair, age = self._pairs.before(pair_key(src, dst), t, visible)
        given_source = (pair + smoothing * base) / (self._sources.count(src, t, visible) + smoothing)  # P(z | u)

        last = self.recent(src, visible)  # [B, K]
        keys = pair_key(last, np.broadcast_to(dst[:, None], last.shape)).ravel(), last.ravel()
        asked = np.repeat(t, depth), np.repeat(visible, depth)
        tables = (self._transitions, self._transitions_from, self._windows, self._windows_from)
        found = [table.count(keys[i % 2], *asked).reshape(last.shape) for i, table in enumerate(tables)]
        follows, follows_any, together, together_any = found  # [B, K] each
        given_last = (follows + smoothing * base[:, None]) / (follows_any + smoothing)  # P(z | v_k)
        given_window = (together.sum(axis=1) + smoothing * base) / (together_any.sum(axis=1) + smoothing)

        columns = [np.log(column) for column in (marginal, given_source, given_window)]
        columns += list(np.where(last >= 0, np.log(given_last), 0.0).T)
        columns += [np.exp(-age / (scale * self.period)) for scale in RECENCY]
        columns.append(np.exp(-idle / (RECENCY[1] * self.period)))
        return np.stack(columns, axis=1).astype(np.float32)


class CountsSystem:
    """A weighted sum of `CountTables.features`, trained to rank each link above one random destination."""

    same_dropout = True  # there is none

    def __init__(self, context: Context) -> None:
        self.context, self.config = context, context.config
        self.period = float(context.fact("period", lambda: _period(context.train.known)))
        self.module = nn.Linear(self.config.depth + 7, 1, bias=False).to(context.device)
        nn.init.zeros_(self.module.weight)
        self._tables: tuple[Events, CountTables] | None = None  # of the most recent events

    @cached_property
    def _examples(self) -> tuple[Tensor, Tensor]:
        """Features of the training links and of their negatives, which are drawn once: [n, K + 7] each."""
        train, scorer = self.context.train, self.scorer(self.context.events)
        src, dst, t = (column[train.positions] for column in (train.events.src, train.events.dst, train.events.t))
        true, false = (scorer.features(src, ends, t) for ends in (dst, train.negatives(0)))
        return true.to(self.context.device), false.to(self.context.device)

    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        train, (true, false) = self.context.train, self._examples
        for links in train.batches(epoch, first):
            some = torch.from_numpy(np.searchsorted(train.positions, links.position)).to(true.device)
            losses = softplus(self.module(false[some]) - self.module(true[some])).squeeze(-1)  # [B]
            yield mean_loss(losses, links.weight, links.rows)

    def scorer(self, events: Events) -> CountsScorer:
        if self._tables is None or self._tables[0] is not events:
            self._tables = events, CountTables(events, self.config, self.period)
        return CountsScorer(self, self._tables[1])


class CountsScorer:
    """Scores pairs by the counts of a history."""

    def __init__(self, system: CountsSystem, tables: CountTables) -> None:
        self._system, self._tables = system, tables

    def features(self, src: Array, dst: Array, t: Array, visible: Array | None = None) -> Tensor:
        """Features of pairs at t, given the first `visible` links: [B, K + 7]."""
        known = self._tables.before(t) if visible is None else visible
        parts = [slice(i, i + _PAIRS) for i in range(0, len(src), _PAIRS)] or [slice(0, 0)]
        found = [self._tables.features(src[part], dst[part], t[part], known[part]) for part in parts]
        return torch.from_numpy(np.concatenate(found))

    def __call__(self, src: Array, dst: Array, t: Array) -> Array:
        return self._logits(self.features(src, dst, t))

    def score_after(self, src: Array, dst: Array, t: Array, visible: Array) -> Array:
        """See `PrefixScorer`."""
        return self._logits(self.features(src, dst, t, visible))

    @torch.no_grad()
    def _logits(self, features: Tensor) -> Array:
        logits: Array = (features.double() @ self._system.module.weight[0].double().cpu()).numpy()
        return logits


def _period(train: Events) -> float:
    """The length of the training period, above 0."""
    span = float(train.t[-1] - train.t[0])
    return span if span > 0 else 1.0
