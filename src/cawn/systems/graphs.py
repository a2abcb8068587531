"""Optimizer steps as CUDA graphs: captured once, then replayed without launching every kernel from the host."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from weakref import WeakSet

import torch
from torch import Tensor, nn

from cawn.kernels.cuda.launch import current, memory_for, ran_out
from cawn.systems.training import LinkBatch, Optimizer, TrainingLinks, seed_step

_WARM_UPS = 3  # steps before a capture, as CUDA graphs require; they are undone
_STEPS: WeakSet[CapturedStep] = WeakSet()


def release_graphs() -> None:
    """Free all graphs: NCCL waits for those that contain its operations before it ends."""
    for step in _STEPS:
        for graph in step._graphs:
            graph.reset()
        step._graphs.clear()


class CapturedStep:
    """An optimizer step that reads its input from tensors at fixed addresses.

    It is one graph. If the gradients of several ranks cannot be added in a graph, there are two: one before and one
    after that.

    Args:
        backward: Computes the loss and calls `optimizer.backward`; all shapes are fixed.
        update: Calls `optimizer.update`.
        reset: Called before every warm-up step and before the capture, to reset what a step changes apart from the
            weights and the optimizer.
    """

    def __init__(
        self,
        backward: Callable[[], None],
        update: Callable[[], None],
        module: nn.Module,
        optimizer: Optimizer,
        device: torch.device,
        reset: Callable[[], object] = lambda: None,
    ) -> None:
        self._backward, self._update, self._reset = backward, update, reset
        self._module, self._optimizer, self._device = module, optimizer, device
        self._graphs: list[torch.cuda.CUDAGraph] = []
        _STEPS.add(self)

    @property
    def captured(self) -> bool:
        return len(self._graphs) > 0

    @property
    def _reduce(self) -> Callable[[], None]:
        return (lambda: None) if self._optimizer.bucket is None else self._optimizer.bucket.reduce

    def _parts(self) -> list[Callable[[], None]]:
        """The graphs to capture; `_reduce` is called between two."""
        bucket = self._optimizer.bucket
        if bucket is None or bucket.captured:
            return [self._step]
        return [self._backward, self._update]

    def _step(self) -> None:
        self._backward()
        self._reduce()
        self._update()

    def __call__(self) -> None:
        """Run the step. On CUDA it must have been captured; on other devices it runs directly."""
        if not self._graphs:
            self._step()
            return
        with current(self._device):
            self._graphs[0].replay()
            if len(self._graphs) > 1:
                self._reduce()
                self._graphs[1].replay()

    def capture(self) -> None:
        """Warm up, undo the warm-up, and capture the step. Draws random numbers, so seed the generator afterwards."""
        device, adam = self._device, self._optimizer.adam
        weights = [weight.detach().clone() for weight in self._module.parameters()]
        moments = {weight: {name: value.clone() for name, value in held.items()} for weight, held in adam.state.items()}
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        # Other threads, such as that of NCCL, may use CUDA meanwhile.
        mode = "global" if self._optimizer.bucket is None else "thread_local"
        stream.wait_stream(torch.cuda.current_stream(device))
        try:
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UPS):
                    self._reset()
                    self._step()
                self._reset()
            torch.cuda.current_stream(device).wait_stream(stream)
            adam.zero_grad(set_to_none=True)
            gc.collect()  # no tensor of an earlier graph may be freed during the capture
            graphs = []
            for part in self._parts():
                graphs.append(torch.cuda.CUDAGraph())
                with current(device), torch.cuda.graph(graphs[-1], stream=stream, capture_error_mode=mode):
                    part()
            self._graphs = graphs
        except RuntimeError as error:
            _reset_generator(device)
            if error.__context__ is not None and ran_out(error.__context__):  # the cause of the failed capture
                raise error.__context__ from None
            raise
        finally:
            with torch.no_grad():
                for weight, before in zip(self._module.parameters(), weights, strict=True):
                    weight.copy_(before)
                    for name, value in adam.state[weight].items():
                        value.copy_(moments[weight][name]) if weight in moments else value.zero_()


class CapturedEpochs:
    """Epochs of a stateless system on a GPU: the steps of full batches are replays of one graph.

    Args:
        loss: The loss of a batch; a function of tensors of fixed shapes, without random numbers except dropout.
    """

    def __init__(
        self, loss: Callable[[LinkBatch], Tensor], module: nn.Module, optimizer: Optimizer, device: torch.device
    ) -> None:
        self._loss_of, self.optimizer, self._device = loss, optimizer, device
        self._links: LinkBatch | None = None  # read by the graph
        self._loss = torch.zeros((), device=device)
        self._step = CapturedStep(self._backward, self._update, module, optimizer, device)

    def __call__(self, training: TrainingLinks, epoch: int, first: int) -> Iterator[Tensor]:
        """The loss of each step; the caller has to minimise only that of a last, smaller batch."""
        size = training.batch_size
        for step, links in enumerate(training.tensors(epoch, first, self._device), start=first):
            if _count(links) < size:
                yield self._loss_of(links)
                continue
            with memory_for(f"batches of {size:,} links", "lower batch_size"):
                if self._links is None:
                    self._links = links.map(Tensor.clone)
                    self._step.capture()
                    seed_step(self._device, training.seed_for("dropout", epoch, step))  # the capture drew numbers
                for held, column in zip(self._links, links, strict=True):
                    if isinstance(held, Tensor):
                        held.copy_(column)
                self.optimizer.set_learning_rate(self.optimizer.learning_rate(epoch, step))
                self._step()
            yield self._loss

    def _backward(self) -> None:
        assert self._links is not None
        loss = self._loss_of(self._links)
        self.optimizer.backward(loss)
        self._loss.copy_(loss.detach())

    def _update(self) -> None:
        self.optimizer.update()
        if self.optimizer.bucket is not None:
            self._loss.copy_(self.optimizer.bucket.loss)


def _count(links: LinkBatch) -> int:
    """The number of links of the whole batch."""
    return len(links.src) if links.rows is None else links.rows.whole


def _reset_generator(device: torch.device) -> None:
    """A failed graph capture leaves the CUDA generator unusable; reset it."""
    index = torch.cuda.current_device() if device.index is None else device.index
    torch.cuda.default_generators[index].graphsafe_set_state(torch.Generator(device).graphsafe_get_state())
