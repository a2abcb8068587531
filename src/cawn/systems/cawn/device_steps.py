"""The updates of one epoch on a GPU: shuffling, negatives, walks, network, loss and optimizer, all there.

Batches have one shape, so an update is recorded once as a CUDA graph and replayed; nothing waits for the host within
an epoch. The last batch is filled up with links that do not count.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from cawn.data.events import NO_NEGATIVE
from cawn.kernels.cuda.launch import USE_CPU, current, memory_for, ran_out
from cawn.kernels.rng import bernoulli, order
from cawn.learn.device_negatives import DeviceChoices
from cawn.systems.cawn import fused
from cawn.systems.cawn.config import Config
from cawn.systems.cawn.device_batches import DeviceBatcher, contrast_rows
from cawn.systems.cawn.model import CAWN
from cawn.systems.cawn.steps import HARD_SHARE, Plan, losses

_LINKS = 128  # of one program
_WARM_UPS = 3  # updates before the recording, as CUDA graphs need them; they are undone


class DeviceSteps:
    """See above; `epoch` and `loss` as in `Steps`."""

    def __init__(self, plan: Plan, batcher: DeviceBatcher) -> None:
        self.plan, self._batcher, device = plan, batcher, batcher.device
        self._graph: torch.cuda.CUDAGraph | None = None
        with memory_for("the training links"):
            self._place(device)

    def _place(self, device: torch.device) -> None:
        """All that an update reads, and the recording finds at the same place whenever it is replayed."""
        plan = self.plan
        links, events = plan.links, plan.events
        self._size = min(plan.config.batch_size, len(links))
        self._links = [
            torch.from_numpy(array[links]).to(device).to(torch.int64 if array.dtype.kind == "i" else torch.float64)
            for array in (events.src, events.dst, events.t)
        ]
        self._random = DeviceChoices(plan.random_choices, device)
        historical = plan.historical_choices
        self._historical = None if historical is None else DeviceChoices(historical, device)
        n = len(links)
        self._own = torch.from_numpy(plan.own_negatives(links)).to(device).to(torch.int64)
        self._weights = torch.ones(n, device=device)
        if plan.weights is not None:
            self._weights.copy_(torch.from_numpy(plan.weights))
        self._order = torch.arange(n, device=device)
        self._false = torch.zeros(n, dtype=torch.int64, device=device)
        self._rows = contrast_rows(self._size, device)
        self._lr = torch.zeros(plan.steps_per_epoch, device=device)
        self._step = torch.zeros(1, dtype=torch.int64, device=device)
        self._seed = torch.zeros(1, dtype=torch.int64, device=device)
        self._loss = torch.zeros((), device=device)

    def epoch(self, epoch: int, first: int) -> Iterator[None]:
        plan, device = self.plan, self._batcher.device
        remedy = f"choose a batch_size below {self._size}, and another folder" if self._size > 1 else USE_CPU
        with current(device), memory_for(f"batches of {self._size:,} links", remedy):
            self._shuffle(epoch)
            self._rewind(first)
            if device.type == "cuda" and self._graph is None:
                self._record()
                self._rewind(first)
            for step in range(first, plan.steps_per_epoch):
                _seed_dropout(plan.number("dropout", epoch, step), device)
                if self._graph is None:
                    self._update()
                else:
                    self._graph.replay()
                yield

    def loss(self) -> float:
        return float(self._loss)

    def _rewind(self, first: int) -> None:
        self._step.fill_(first)
        self._loss.zero_()

    def _shuffle(self, epoch: int) -> None:
        """Order, negatives and learning rates of an epoch, in place: the recorded update reads them there."""
        plan, device = self.plan, self._batcher.device
        seed = plan.number("epoch", epoch)
        self._seed.fill_(seed)
        false = self._random.draw(self._seed)
        if self._historical is not None:
            historical = self._historical.draw(self._seed, fallback=false)
            false = torch.where(bernoulli(seed, len(false), HARD_SHARE, device), historical, false)
        self._false.copy_(torch.where(self._own == NO_NEGATIVE, false, self._own))
        self._order.copy_(order(seed, len(false), device))
        self._lr.copy_(torch.tensor([plan.learning_rate(epoch, step) for step in range(len(self._lr))]))

    def _update(self) -> None:
        """One update, as the device's own counter says which."""
        plan = self.plan
        plan.model.train()
        ends, t, weights, present = self._take()
        each = losses(fused.logits(plan.model, self._batcher.paired(ends, t, self._rows, self._seed)))
        loss = (each * weights).sum() / present.sum()
        for group in plan.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].copy_(self._lr.gather(0, self._step)[0])
            else:
                group["lr"] = float(self._lr[self._step])
        plan.optimizer.zero_grad(set_to_none=True)
        plan.apply(loss)
        self._loss += loss.detach()
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
        plan, device = self.plan, self._batcher.device
        weights = [weight.detach().clone() for weight in plan.model.parameters()]
        moments = {
            weight: {name: value.clone() for name, value in held.items()}
            for weight, held in plan.optimizer.state.items()
        }
        stream, graph = torch.cuda.Stream(device), torch.cuda.CUDAGraph()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(device))
        try:
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UPS):
                    self._rewind(0)
                    self._update()
            torch.cuda.current_stream(device).wait_stream(stream)
            plan.optimizer.zero_grad(set_to_none=True)
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
                for weight, before in zip(plan.model.parameters(), weights, strict=True):
                    weight.copy_(before)
                    for name, value in plan.optimizer.state[weight].items():
                        value.copy_(moments[weight][name]) if weight in moments else value.zero_()


def optimizer_of(model: CAWN, config: Config) -> torch.optim.Optimizer:
    """Adam with decoupled weight decay; on a GPU in one kernel whose learning rate is a tensor there."""
    settings: dict[str, Any] = {"lr": config.lr, "weight_decay": config.weight_decay}
    device = next(model.parameters()).device
    if device.type == "cuda":
        settings |= {"lr": torch.tensor(config.lr, device=device), "fused": True, "capturable": True}
    return torch.optim.AdamW(model.parameters(), **settings)


def _seed_dropout(seed: int, device: torch.device) -> None:
    """Of this device alone, which is quicker than of all."""
    if device.type == "cuda":
        _generator(device).manual_seed(seed)
    else:
        torch.manual_seed(seed)


def _generator(device: torch.device) -> torch.Generator:
    return torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]


def _renew_generator(device: torch.device) -> None:
    """A recording that failed leaves PyTorch's random numbers in a state that refuses all that follow."""
    _generator(device).graphsafe_set_state(torch.Generator(device).graphsafe_get_state())
