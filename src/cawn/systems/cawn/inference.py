"""The network of `model` with NumPy alone: scores without the seconds it takes to load PyTorch.

For models with an LSTM and mean pooling, as the default and paper-mean have. Same weights, same numbers to float32.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.kernels.cpu import lstm as cpu_lstm
from cawn.kernels.cpu import merge as cpu_merge
from cawn.kernels.jit import in_parallel
from cawn.systems.cawn.batches import Batch, Level
from cawn.systems.cawn.config import Config
from cawn.walks.rates import pair_width

Array = npt.NDArray[Any]
Weights = dict[str, npt.NDArray[np.float32]]

_ROWS_PER_TASK = 4096


def supports(config: Config) -> bool:
    """Whether a model of this config can be computed here."""
    return config.rnn == "lstm" and config.pooling == "mean"


class Inference:
    """A trained network; `weights` as in weights.safetensors."""

    def __init__(self, config: Config, weights: Weights, threads: int | None = None) -> None:
        self.config, self.threads, self.weights = config, threads, weights

    @property
    def width(self) -> int:
        """Of an embedding."""
        return self.config.dim * ((1 if self.config.sides == "together" else 2) + self.config.rates)

    def fits(self, x_width: int, rates_width: int) -> bool:
        """Whether there are all the weights, and of the right sizes."""
        config, d, sides = self.config, self.config.dim, 1 if self.config.sides == "together" else 2
        inputs = max((2 * config.frequencies if config.time else 0) + x_width, 1)
        expected: dict[str, tuple[int, ...]] = {
            "walks.position.from_features.weight": (4 * d, inputs),
            "walks.position.bias": (1, 4 * d),
        }
        expected |= {"walks.from_state.weight": (4 * d, d)}
        if config.identity == "caw":
            counts = (config.length + 1) * (3 if config.logarithms else 1)
            for mlp in (f"walks.position.f1.mlps.{i}" for i in range(sides)):
                expected |= {f"{mlp}.0.weight": (d, counts), f"{mlp}.0.bias": (d,)}
                expected |= {f"{mlp}.3.weight": (d, d), f"{mlp}.3.bias": (d,)}
            expected["walks.position.f1.project.weight"] = (4 * d, d)
        elif config.identity == "aw":
            expected["walks.position.one_hot.weight"] = (config.length + 2, 4 * d)
        if config.time:
            expected["walks.position.f2.omega"] = (config.frequencies,)
        if config.head == "linear":
            expected |= {"head.weight": (1, self.width), "head.bias": (1,)}
        else:
            expected |= {"head.0.weight": (d, self.width), "head.0.bias": (d,)}
            expected |= {"head.3.weight": (1, d), "head.3.bias": (1,)}
        if config.rates:
            expected |= {"from_rates.0.weight": (d, rates_width), "from_rates.0.bias": (d,)}
        return {name: values.shape for name, values in self.weights.items()} == expected

    def logits(self, batch: Batch) -> npt.NDArray[np.float64]:
        """[B]"""
        if self.config.head == "linear":
            return np.asarray(self._linear("head", self.embed(batch))[:, 0], np.float64)
        hidden = np.maximum(self._linear("head.0", self.embed(batch)), 0)
        return np.asarray(self._linear("head.3", hidden)[:, 0], np.float64)

    def embed(self, batch: Batch) -> npt.NDArray[np.float32]:
        """[B, width]"""
        apart = self.config.sides != "together"
        pooled = np.zeros((batch.num_pairs * (2 if apart else 1), self.config.dim), np.float32)
        for depth, (level, h) in enumerate(zip(batch.levels, self._states(batch), strict=True)):
            if len(h):
                owner, share = (level.owner, 1) if apart else (level.owner >> 1, 2)
                if batch.rows is not None:
                    cpu_merge.pool_rows(h, batch.rows[depth], owner, level.weight / np.float32(share), pooled)
                    continue
                first = np.flatnonzero(np.diff(owner, prepend=-1))  # owners come in order
                pooled[owner[first]] += np.add.reduceat(h * (level.weight / share)[:, None], first)
        pooled, rates = pooled.reshape(batch.num_pairs, -1), batch.rates
        if self.config.sides == "symmetric":
            pooled = _symmetric(pooled, 0)
            rates = _symmetric(rates, pair_width(rates.shape[1])) if self.config.rates else rates
        if not self.config.rates:
            return pooled
        return np.concatenate([pooled, np.maximum(self._linear("from_rates.0", rates), 0)], axis=1)

    def _states(self, batch: Batch) -> list[Array]:
        """h of the prefixes of each depth: [n_i, d]."""
        d = self.config.dim
        own, other = self._tables(batch)
        h = c = np.empty((0, d), np.float32)
        states = []
        for level in batch.levels:
            past, c_before = h @ self.weights["walks.from_state.weight"].T, c
            gates = self._features(level) @ self.weights["walks.position.from_features.weight"].T  # [n_i, 4d]
            h, c = np.empty((len(gates), d), np.float32), np.empty((len(gates), d), np.float32)
            arrays = (gates, level.own, own, level.other, other, level.parent, past, c_before, h, c)
            bounds = [*range(0, len(gates), _ROWS_PER_TASK), len(gates)]
            in_parallel(partial(cpu_lstm.forward, *arrays), bounds, self.threads)
            states.append(h)
        return states

    def _tables(self, batch: Batch) -> tuple[Array, Array]:
        bias = self.weights["walks.position.bias"]
        if self.config.identity != "caw":
            own = self.weights["walks.position.one_hot.weight"] + bias if self.config.identity == "aw" else bias
            return own, own[:0]
        tables = []
        for i in range(1 if self.config.sides == "together" else 2):
            hidden = np.maximum(self._linear(f"walks.position.f1.mlps.{i}.0", batch.g), 0)
            encoded = self._linear(f"walks.position.f1.mlps.{i}.3", hidden)
            tables.append(encoded @ self.weights["walks.position.f1.project.weight"].T)
        return tables[0] + bias, tables[-1]

    def _features(self, level: Level[Array]) -> Array:
        if not self.config.time:
            return level.x if level.x.shape[1] else np.zeros((len(level.own), 1), np.float32)
        phase = level.elapsed[:, None] * self.weights["walks.position.f2.omega"]
        return np.concatenate([np.cos(phase), np.sin(phase), level.x], axis=1)

    def _linear(self, name: str, x: Array) -> Array:
        return np.asarray(x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"])


def _symmetric(pairs: Array, shared: int) -> Array:
    """See `model.symmetric`."""
    u, v = np.split(pairs[:, shared:], 2, axis=1)
    return np.concatenate([pairs[:, :shared], (u + v) / 2, np.abs(u - v)], axis=1)
