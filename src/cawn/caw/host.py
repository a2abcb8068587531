"""CAW-N on the CPU: one thread builds the next batch while the network computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import islice
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cawn.caw.features import PAIRS_PER_BATCH, Batch, Batcher
from cawn.caw.model import CAWN
from cawn.data.events import by_first_appearance
from cawn.systems.ranks import dropout_of
from cawn.systems.training import LinkBatch, Optimizer, TrainingLinks, contrast_loss

Array = npt.NDArray[Any]
Result = TypeVar("Result")

_FEW_PAIRS = 32  # are scored on one thread


class HostEngine:
    """Trains and evaluates a network on the batches of a batcher."""

    def __init__(self, module: CAWN, batcher: Batcher) -> None:
        self._module, self._batcher = module, batcher

    def updates(self, training: TrainingLinks, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        """The loss of each step; the batch of the next one is made by another thread meanwhile."""
        batcher, seed = self._batcher, training.seed_for("epoch", epoch)

        def task(links: LinkBatch) -> Callable[[], tuple[Batch, LinkBatch]]:
            ends = links.src, links.dst, links.negative, links.t
            return lambda: (batcher.contrast(*ends, seed=seed, negative_src=links.negative_src), links)

        for batch, links in prefetch(map(task, training.batches(epoch, first))):
            with dropout_of(links.rows):
                logits = self._module(batch)
            yield contrast_loss(logits, links.weight, training.num_negatives, links.rows)

    def forward(self, src: Array, dst: Array, t: Array, *, seed: int, embed: bool = False) -> Array:
        """Logits [B] of pairs, or embeddings [B, width]."""
        # Pairs with equal (dst, t) become adjacent, independently of node ids: a batch encodes their walks once.
        order = np.lexsort((by_first_appearance(dst), t))
        distinct = np.count_nonzero((np.diff(t[order]) != 0) | (np.diff(dst[order]) != 0))
        size = PAIRS_PER_BATCH if distinct > len(src) / 2 else 2 * PAIRS_PER_BATCH

        def task(part: Array) -> Callable[[], Batch]:
            return lambda: self._batcher.pairs(src[part], dst[part], t[part], seed=seed)

        parts = [order[i : i + size] for i in range(0, len(src), size)]
        found = np.empty((len(src), self._module.width) if embed else len(src), np.float32)
        tasks = map(task, parts)
        batches = prefetch(tasks) if len(parts) > 1 else (build() for build in tasks)  # starting a thread takes a while
        with single_thread() if len(src) <= _FEW_PAIRS else nullcontext():
            for part, batch in zip(parts, batches, strict=True):
                found[part] = output(self._module, batch, embed=embed)
        return found


def prefetch(tasks: Iterable[Callable[[], Result]]) -> Iterator[Result]:
    """The results of the tasks in order; a thread computes the next two in advance."""
    with ThreadPoolExecutor(1) as pool:
        waiting = iter(tasks)
        running = [pool.submit(task) for task in islice(waiting, 2)]
        try:
            while running:
                yield running.pop(0).result()
                running.extend(pool.submit(task) for task in islice(waiting, 1))
        finally:
            for future in running:
                future.cancel()


class _SingleThreads:
    """How many threads are in `single_thread`, and the number of PyTorch's threads before the first of them."""

    lock = Lock()
    inside = 0
    before = 1


@contextmanager
def single_thread() -> Iterator[None]:
    """Run operations of PyTorch on the calling thread alone: for small tensors, waiting for others takes longer.

    A thread that is new to PyTorch starts with the number that another one has set last: if that was 1, set here, it is
    not what is restored.
    """
    with _SingleThreads.lock:
        before = torch.get_num_threads()
        if _SingleThreads.inside == 0:
            _SingleThreads.before = before
        elif before == 1:
            before = _SingleThreads.before
        _SingleThreads.inside += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _SingleThreads.lock:
            _SingleThreads.inside -= 1
            torch.set_num_threads(before)


@torch.no_grad()
def output(module: CAWN, batch: Batch, *, embed: bool = False) -> npt.NDArray[np.float32]:
    """Logits or embeddings of one batch, in evaluation mode."""
    if module.training:
        module.eval()
    found: Tensor = module.embed(batch) if embed else module(batch)
    return np.asarray(found.float().cpu().numpy())
