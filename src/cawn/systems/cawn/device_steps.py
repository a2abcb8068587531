"""The updates of one epoch on a GPU: shuffling, negatives, walks, network, loss and optimizer, all there.

Batches have one shape, so an update is recorded once as a CUDA graph and replayed; nothing waits for the host within
an epoch. The last batch is filled up with links that do not count.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cawn.data.events import NO_NEGATIVE
from cawn.kernels.cuda.launch import USE_CPU, current, memory_for, ran_out
from cawn.kernels.rng import bernoulli, order
from cawn.learn.device_negatives import DeviceChoices
from cawn.systems.base import (
    HISTORICAL_SHARE,
    Optimizer,
    TrainingLinks,
    contrast_losses,
    seed_step,
)
from cawn.systems.cawn import fused
from cawn.systems.cawn.device_batches import DeviceBatcher, contrast_rows
from cawn.systems.cawn.device_scoring import of_pairs
from cawn.systems.cawn.features import Batcher
from cawn.systems.cawn.model import CAWN

Array = npt.NDArray[Any]

_LINKS = 128  # of one program
_WARM_UPS = 3  # updates before the recording, as CUDA graphs need them; they are undone


class DeviceEngine:
    """CAW-N on a GPU, where the index of a batcher is placed: training and scoring do not leave it."""

    def __init__(self, module: CAWN, host: Batcher, device: torch.device) -> None:
        self.host, self._module = host, module
        self.batcher = DeviceBatcher(host, device)
        self._steps: DeviceSteps | None = None

    def updates(self, training: TrainingLinks, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        """The loss of each step, which has been made already; see `System.updates`."""
        if self._steps is None:
            self._steps = DeviceSteps(self._module, training, optimizer, self.batcher)
        return self._steps.epoch(epoch, first)

    def forward(self, src: Array, dst: Array, t: Array, *, seed: int, embed: bool = False) -> Array:
        """Logits [B] of pairs, or embeddings [B, width]."""
        self._module.eval()
        if len(src) == 0:
            return np.empty((0, self._module.width) if embed else 0, np.float32)
        network = partial(fused.embed if embed else fused.logits, self._module)
        return of_pairs(network, self.batcher, src, dst, t, seed=seed)


class DeviceSteps:
    """The steps of an epoch on a device."""

    def __init__(self, module: CAWN, training: TrainingLinks, optimizer: Optimizer, batcher: DeviceBatcher) -> None:
        self._module, self._training, self._optimizer, self._batcher = module, training, optimizer, batcher
        self._graph: torch.cuda.CUDAGraph | None = None
        with memory_for("the training links"):
            self._place(batcher.device)

    def _place(self, device: torch.device) -> None:
        """All that an update reads, and the recording finds at the same place whenever it is replayed."""
        training = self._training
        links, events = training.positions, training.events
        self._size = min(training.batch_size, len(links))
        self._links = [
            torch.from_numpy(array[links]).to(device).to(torch.int64 if array.dtype.kind == "i" else torch.float64)
            for array in (events.src, events.dst, events.t)
        ]
        self._random = DeviceChoices(training.random, device)
        historical = training.historical
        self._historical = None if historical is None else DeviceChoices(historical, device)
        n = len(links)
        self._own = torch.from_numpy(training.own_negatives).to(device).to(torch.int64)
        self._weights = torch.ones(n, device=device)
        if training.weights is not None:
            self._weights.copy_(torch.from_numpy(training.weights))
        self._order = torch.arange(n, device=device)
        self._false = torch.zeros(n, dtype=torch.int64, device=device)
        self._rows = contrast_rows(self._size, device)
        self._lr = torch.zeros(training.steps_per_epoch, device=device)
        self._step = torch.zeros(1, dtype=torch.int64, device=device)
        self._seed = torch.zeros(1, dtype=torch.int64, device=device)
        self._loss = torch.zeros((), device=device)

    def epoch(self, epoch: int, first: int) -> Iterator[Tensor]:
        """The loss of each step, which has been made already."""
        training, device = self._training, self._batcher.device
        remedy = f"choose a batch_size below {self._size}, and another folder" if self._size > 1 else USE_CPU
        with current(device), memory_for(f"batches of {self._size:,} links", remedy):
            self._shuffle(epoch)
            self._step.fill_(first)
            if device.type == "cuda" and self._graph is None:
                self._record()
                self._step.fill_(first)
                seed_step(device, training.seed_for("dropout", epoch, first))  # the recording drew numbers
            for _ in range(first, training.steps_per_epoch):
                if self._graph is None:
                    self._update()
                else:
                    self._graph.replay()
                yield self._loss

    def _shuffle(self, epoch: int) -> None:
        """Order, negatives and learning rates of an epoch, in place: the recorded update reads them there."""
        training, device = self._training, self._batcher.device
        seed = training.seed_for("epoch", epoch)
        self._seed.fill_(seed)
        false = self._random.draw(self._seed)
        if self._historical is not None:
            historical = self._historical.draw(self._seed, fallback=false)
            false = torch.where(bernoulli(seed, len(false), HISTORICAL_SHARE, device), historical, false)
        self._false.copy_(torch.where(self._own == NO_NEGATIVE, false, self._own))
        self._order.copy_(order(seed, len(false), device))
        rates = [self._optimizer.learning_rate(epoch, step) for step in range(len(self._lr))]
        self._lr.copy_(torch.tensor(rates))

    def _update(self) -> None:
        """One step; the device's own counter says which."""
        self._module.train()
        ends, t, weights, present = self._take()
        losses = contrast_losses(fused.logits(self._module, self._batcher.paired(ends, t, self._rows, self._seed)))
        loss = (losses * weights).sum() / present.sum()
        self._optimizer.set_learning_rate(self._lr.gather(0, self._step)[0])
        self._optimizer.minimise(loss)
        self._loss.copy_(loss.detach())
        self._step += 1

    def _take(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Ends and times of the next links, see `DeviceBatcher.paired`, their weights, and 1 for each that is there."""
        from cawn.kernels.cuda.links import take_links

        size, (src, dst, t) = self._size, self._links
        ends, times = src.new_empty(4 * size), t.new_empty(3 * size)
        weights, present = torch.empty(2, size, device=src.device)
        take_links[(-(-size // _LINKS),)](
            *(self._order, src, dst, self._false, t, self._weights, self._step),
            *(ends, times, weights, present, len(src), size),
            BLOCK=_LINKS,
        )
        return ends, times, weights, present

    def _record(self) -> None:
        """Warm up, undo that, and record one update."""
        device, adam = self._batcher.device, self._optimizer.adam
        weights = [weight.detach().clone() for weight in self._module.parameters()]
        moments = {weight: {name: value.clone() for name, value in held.items()} for weight, held in adam.state.items()}
        stream, graph = torch.cuda.Stream(device), torch.cuda.CUDAGraph()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(device))
        try:
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UPS):
                    self._step.zero_()
                    self._update()
            torch.cuda.current_stream(device).wait_stream(stream)
            adam.zero_grad(set_to_none=True)
            gc.collect()  # nothing of an earlier graph may go while this one is recorded
            with torch.cuda.graph(graph, stream=stream):
                self._update()
            self._graph = graph
        except RuntimeError as error:
            _renew_generator(device)
            if error.__context__ is not None and ran_out(error.__context__):  # which ended the recording
                raise error.__context__ from None
            raise
        finally:
            with torch.no_grad():
                for weight, before in zip(self._module.parameters(), weights, strict=True):
                    weight.copy_(before)
                    for name, value in adam.state[weight].items():
                        value.copy_(moments[weight][name]) if weight in moments else value.zero_()


def _renew_generator(device: torch.device) -> None:
    """A failed graph capture leaves the CUDA generator unusable; reset it."""
    index = torch.cuda.current_device() if device.index is None else device.index
    torch.cuda.default_generators[index].graphsafe_set_state(torch.Generator(device).graphsafe_get_state())
