"""From pairs to what the network reads, without leaving the device: walks, relative identities, features, rates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cawn.kernels.cuda.launch import Aside, Pieces, block_of, current, memory_for
from cawn.systems.cawn.dense import Dense, orders
from cawn.systems.cawn.features import Batcher, columns, input_widths, pairs_within
from cawn.walks.device_history import DeviceHistory, Paths
from cawn.walks.device_identities import count_hits
from cawn.walks.device_rates import DeviceRates

Array = np.ndarray[Any, Any]

_ROOM_FOR_PAIRS = 16 << 30  # bytes that pairs which are scored together may take, where the device has them
_SHARE_OF_MEMORY = 0.25  # of what is free: for such pairs, and for attributes, which else stay in the host's memory


class DeviceBatcher:
    """Makes the same batches as a `Batcher`, on a device and in fixed shapes. Queries are arrays, or tensors there."""

    def __init__(self, host: Batcher, device: torch.device) -> None:
        config = host.config
        self.config, self.events, self.device = config, host.events, device
        self.history, self._aside = DeviceHistory(host.history, device), Aside(device)
        self.rates = None if host.rates is None else DeviceRates(host.rates, device)
        self.x_width, self.rates_width = input_widths(config, host.events, len(host.history.alpha))
        self.widths = torch.full((config.length,), config.num_walks, device=device)
        self.unit = torch.tensor([host.unit], dtype=torch.float64, device=device)
        room = int(min(_ROOM_FOR_PAIRS, _SHARE_OF_MEMORY * _free(device)))
        self.pieces = Pieces(max(pairs_within(room, config, self.x_width) // 16 * 16, 2))
        used = columns(config, host.events)
        self.tables = [_on(device, getattr(host.events, name)) if name in used else None for name in ("msg", "x")]

    def placed(self, *nodes: Any, t: Any) -> tuple[Tensor, ...]:
        """Nodes and times on the device, taken there at once rather than piece by piece."""
        return *map(self._nodes, nodes), self._times(t)

    def pairs(self, src: Any, dst: Any, t: Any, *, seed: int | Tensor, repeats: Array | None = None) -> Dense:
        """The pairs (src, dst) at times t; `repeats` marks those with the source and time of the pair before them."""
        u, v, now = self._nodes(src), self._nodes(dst), self._times(t)
        each = torch.arange(len(u), device=self.device)
        if repeats is None or not repeats[1:].any():
            nodes, times = torch.cat([u, v]), torch.cat([now, now])
            rows = torch.stack([each, each + len(u)], dim=1)
        else:
            is_new = np.append(True, ~repeats[1:])
            first, sources = (
                torch.from_numpy(found).to(self.device) for found in (np.flatnonzero(is_new), np.cumsum(is_new) - 1)
            )
            nodes, times = torch.cat([u[first], v]), torch.cat([now[first], now])
            rows = torch.stack([sources, each + len(first)], dim=1)
        with current(self.device), self._rates(u, v, now) as rates:
            return self._dense(self._walk(nodes, times, self._seed(seed)), rows, rates)

    def contrast(self, src: Any, dst: Any, false: Any, t: Any, *, seed: int | Tensor) -> Dense:
        """The pairs (src, dst), then (src, false), at the same times; the walks of the sources are sampled once."""
        u, v, w, now = self._nodes(src), self._nodes(dst), self._nodes(false), self._times(t)
        rows = contrast_rows(len(u), self.device)
        return self.paired(torch.cat([u, u, v, w]), torch.cat([now, now, now]), rows, seed)

    def paired(self, ends: Tensor, t: Tensor, rows: Tensor, seed: int | Tensor) -> Dense:
        """B pairs of ends [2B], sources before destinations; pair b has the walk sets rows[b] and the time t[b].

        Walks go from as many of the last ends as there are times: sources that come again need not be walked again.
        """
        B = len(rows)
        with current(self.device), self._rates(ends[:B], ends[B:], t[:B]) as rates:
            return self._dense(self._walk(ends[2 * B - len(t) :], t, self._seed(seed)), rows, rates)

    def _nodes(self, nodes: Any) -> Tensor:
        if isinstance(nodes, Tensor):
            return nodes
        return torch.from_numpy(np.asarray(nodes, np.int64)).to(self.device)

    def _times(self, t: Any) -> Tensor:
        if isinstance(t, Tensor):
            return t
        return torch.from_numpy(np.ascontiguousarray(t, self.events.t.dtype)).to(self.device)

    def _seed(self, seed: int | Tensor) -> Tensor:
        return seed if isinstance(seed, Tensor) else self.history.seed(seed)

    def _walk(self, nodes: Tensor, t: Tensor, seed: Tensor) -> Paths:
        return self.history.walk(nodes, t, self.widths, seed, self.config.num_walks)

    @contextmanager
    def _rates(self, src: Tensor, dst: Tensor, t: Tensor) -> Iterator[Tensor]:
        """[B, R]; found beside what is done in this context, and there when it ends."""
        rates = torch.empty(len(src), self.rates_width, device=self.device)
        if self.rates is None:
            yield rates
            return
        try:
            with self._aside():
                self.rates.features(src, dst, t, self.unit, rates)
            yield rates
        finally:
            self._aside.join()

    def _dense(self, paths: Paths, rows: Tensor, rates: Tensor) -> Dense:
        """Everything about every position of the walks of B pairs; rows [B, 2] says which two walk sets a pair has."""
        from cawn.kernels.cuda.features import describe_positions, gather_rows

        config, B = self.config, len(rows)
        M, L = paths.nodes.shape[1:]
        counts = count_hits(paths.nodes, rows).flatten(0, 1)
        elapsed = torch.empty(2 * B, M, L, device=self.device)
        x = torch.empty(2 * B, M, L, self.x_width, device=self.device)
        alive = torch.empty(2 * B, M, L, dtype=torch.uint8, device=self.device)
        sets = rows.flatten()
        if B == 0:
            return Dense(counts, elapsed, x, alive, rates, counts[..., 0, 0].long())
        block = block_of(M * L, 256)
        logarithms = config.time and config.logarithms
        describe_positions[(2 * B, -(-M * L // block))](
            *(paths.t, paths.links, paths.seen, paths.nodes, sets, elapsed, x, alive, self.unit, M * L, self.x_width),
            L=L,
            LOGARITHMS=logarithms,
            DIRECTED=config.directed,
            DEGREE=config.degree,
            BLOCK=block,
        )
        column = 2 * logarithms + 2 * config.directed
        for table, ids, shift in zip(self.tables, (paths.links, paths.nodes), (1, 0), strict=True):
            if table is not None:
                n, width = table.shape
                gather_rows[(2 * B, -(-M * L // 32), -(-width // 64))](
                    *(table, ids, sets, x, n, M * L, shift, width, self.x_width, column), BLOCK=32, COLUMNS=64
                )
                column += width
        identities = None
        if config.identity != "caw":
            identities = orders(paths.nodes[sets]) if config.identity == "aw" else torch.zeros_like(alive)
        return Dense(counts, elapsed, x, alive, rates, identities)


def contrast_rows(size: int, device: torch.device) -> Tensor:
    """The walk sets of pairs (u, v), then (u, w), where those of u, of v and of w follow each other: [2 * size, 2]."""
    one = torch.arange(size, device=device)
    return torch.stack([torch.cat([one, one]), torch.cat([one + size, one + 2 * size])], dim=1)


def on_device(batcher: Batcher, device: torch.device) -> Batcher | DeviceBatcher:
    """The batcher for a network there."""
    return batcher if device.type == "cpu" else DeviceBatcher(batcher, device)


def _on(device: torch.device, table: Array) -> Tensor:
    """Attributes on the device; in pinned memory of the host, which kernels can read, where they are too large."""
    held = torch.from_numpy(np.array(table, np.float32))
    with memory_for(f"the attributes ({held.nbytes / 2**30:,.1f} GiB)"):
        return held.to(device) if held.nbytes <= _SHARE_OF_MEMORY * _free(device) else held.pin_memory()


def _free(device: torch.device) -> float:
    """Bytes of memory, with those that PyTorch holds for what comes."""
    if device.type != "cuda":
        return math.inf
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + held
