"""Distributed training as systems and the optimizer see it: one rank per process, and what ranks exchange.

A batch is cut into contiguous parts, one per rank. A rank's loss is the sum over its links, divided by the number of
links of the whole batch, so that the gradients of all ranks add up to those of one process. They are summed in one flat
tensor, together with the loss and a flag that asks all ranks to stop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import dropout

from cawn.errors import CawnError

Array = npt.NDArray[Any]

_LAG = 4  # steps on a GPU after which the host looks whether a rank has asked to stop
_POLL = 1e-4  # polling interval, seconds
_SETTLED = 1.0  # seconds after which a GPU that waits for no other rank has finished the steps that were started


class RankError(CawnError):
    """Another rank has ended, or cannot be reached."""

    printed = False  # whether a rank other than the first prints it, because that one has ended
    explained = False  # whether it says what became of the run


class BatchRows(NamedTuple):
    """The rows of a batch that a rank computes: rows `first` to `first + size` of a batch of `whole`."""

    first: int
    size: int
    whole: int

    @property
    def part(self) -> slice:
        return slice(self.first, self.first + self.size)

    def of(self, x: Tensor) -> Tensor:
        """This rank's rows of c * whole rows, which are c blocks of `whole`: c * size rows."""
        return x.view(-1, self.whole, *x.shape[1:])[:, self.part].flatten(0, 1)


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together. Without a group it is the only one."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # on this host
    local_size: int = 1
    group: Any = field(default=None, repr=False)  # a process group of torch.distributed
    store: Any = field(default=None, repr=False)
    nccl: Any = field(default=None, repr=False)  # the group of NCCL; it adds tensors on GPUs, also in a CUDA graph

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which writes files and prints."""
        return self.rank == 0

    @property
    def several(self) -> bool:
        return self.size > 1

    def rows(self, count: int) -> BatchRows:
        """This rank's part of so many rows; it may be empty."""
        first, end = (count * rank // self.size for rank in (self.rank, self.rank + 1))
        return BatchRows(first, end - first, count)

    def all_reduce(self, values: Tensor) -> None:
        """Sum a tensor over all ranks, in place."""
        import torch.distributed as dist

        with self.translating_failures():
            dist.all_reduce(values, group=self.nccl if values.device.type == "cuda" else self.group)

    def all_gather(self, values: Array) -> list[Array]:
        """The float64 values of each rank, of any lengths: [n] each."""
        import torch.distributed as dist

        if not self.several:
            return [values]
        with self.translating_failures():
            sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
            dist.all_gather(sizes, torch.tensor([len(values)]), group=self.group)
            most = int(max(sizes))
            held = torch.zeros(most, dtype=torch.float64)
            held[: len(values)] = torch.from_numpy(np.asarray(values, np.float64))
            found = [torch.empty_like(held) for _ in range(self.size)]
            dist.all_gather(found, held, group=self.group)
        return [part[: int(size)].numpy() for part, size in zip(found, sizes, strict=True)]

    def all_gather_objects(self, value: Any) -> list[Any]:
        """A small picklable value of each rank."""
        import torch.distributed as dist

        if not self.several:
            return [value]
        found: list[Any] = [None] * self.size
        with self.translating_failures():
            dist.all_gather_object(found, value, group=self.group)
        return found

    def broadcast(self, value: Any) -> Any:
        """Broadcast the value of rank 0 to all ranks; those of the others are ignored."""
        import torch.distributed as dist

        if not self.several:
            return value
        held = [value if self.first else None]
        with self.translating_failures():
            dist.broadcast_object_list(held, group=self.group, group_src=0)
        return held[0]

    def broadcast_on_host(self, value: Any) -> Any:
        """The value of the first rank of this host."""
        return self.all_gather_objects(value if self.local_rank == 0 else None)[self.rank - self.local_rank]

    @contextmanager
    def translating_failures(self) -> Iterator[None]:
        """Turns the failure of an exchange into a RankError that gives the reason, if the other rank has left one."""
        try:
            yield
        except (RuntimeError, ValueError) as error:  # torch.distributed raises both
            LOST.append(self.rank)
            raise RankError(self._reason_left() or "another rank has exited") from error

    def leave_reason(self, text: str) -> None:
        """Tell the other ranks why this one ends."""
        if self.store is not None:
            with suppress(RuntimeError):  # the process of the store may have exited
                self.store.set(_REASON, f"rank {self.rank}: {text}")

    def _reason_left(self) -> str | None:
        try:
            return str(self.store.get(_REASON).decode()) if self.store.check([_REASON]) else None
        except (RuntimeError, AttributeError):  # the store has ended as well
            return None


_REASON = "cawn/reason"
LOST: list[int] = []  # not empty once another rank could not be reached
SINGLE = Ranks()


class Bucket:
    """The gradients of all parameters, the loss and the flag to stop in one flat tensor, which is added over ranks."""

    def __init__(self, parameters: Sequence[Tensor], ranks: Ranks) -> None:
        self._parameters, self._ranks = list(parameters), ranks
        device = self._parameters[0].device
        sizes = [parameter.numel() for parameter in self._parameters]
        self.flat = torch.zeros(sum(sizes) + 2, device=device)
        parts: tuple[Tensor, ...] = self.flat.split([*sizes, 1, 1])  # type: ignore[no-untyped-call]
        self._views = [part.view_as(p) for part, p in zip(parts[:-2], self._parameters, strict=True)]
        self.loss: Tensor = parts[-2][0]  # of the whole batch, after `reduce`
        self._stop = parts[-1]
        self._asks = torch.zeros(1, device=device)  # 1 once this rank asks all to stop
        self.captured = device.type == "cuda" and ranks.nccl is not None  # whether `reduce` can be part of a graph
        by_host = device.type == "cuda" and not self.captured
        self._host = torch.zeros_like(self.flat, device="cpu", pin_memory=True) if by_host else None
        self._waiting: list[tuple[Any, Tensor]] = []  # flags on their way from a GPU, oldest first
        self._free: list[tuple[Any, Tensor]] = []  # events and pinned memory to use again

    def collect(self, loss: Tensor) -> None:
        """Copy the gradients and this rank's part of the loss; parameters then refer to the bucket."""
        used = [(p, p.grad, view) for p, view in zip(self._parameters, self._views, strict=True) if p.grad is not None]
        torch._foreach_copy_([view for *_, view in used], [gradient for _, gradient, _ in used])
        for parameter, _, view in used:
            parameter.grad = view
        self.loss.copy_(loss.detach())
        self._stop.copy_(self._asks)

    def reduce(self) -> None:
        """Sum the bucket over all ranks."""
        if self._host is None:
            self._ranks.all_reduce(self.flat)
        else:
            self._host.copy_(self.flat)
            self._ranks.all_reduce(self._host)
            self.flat.copy_(self._host)

    def ask_to_stop(self) -> None:
        """Ask all ranks to stop; they agree on it in the next step."""
        self._asks.fill_(1)

    def asked(self, *, patience: float = float("inf"), hurried: Callable[[], bool] = lambda: False) -> bool:
        """Whether a rank has asked to stop. To be called after each step; all ranks get the same answer.

        On a GPU the answer is that of a few steps before, so that the host need not wait for the last one.

        Raises:
            RankError: If a step on a GPU does not end within `patience` seconds, or within 10 if `hurried`.
        """
        if self.flat.device.type != "cuda":
            return bool(self._stop > 0)
        done, held = self._free.pop() if self._free else (_event(), torch.empty(1, pin_memory=True))
        held.copy_(self._stop, non_blocking=True)
        done.record(torch.cuda.current_stream(self.flat.device))
        self._waiting.append((done, held))
        if len(self._waiting) <= _LAG:
            return False
        (done, held), start = self._waiting[0], time.monotonic()
        while not done.query():
            if time.monotonic() - start > (min(patience, 10.0) if hurried() else patience):
                LOST.append(self._ranks.rank)
                raise RankError("another rank is not responding")
            time.sleep(_POLL)
        self._free.append(self._waiting.pop(0))
        return bool(held > 0)

    def unfinished(self) -> int:
        """The number of last steps that a GPU cannot finish, because it waits for a rank that has ended."""
        if not self.captured:
            return 0
        time.sleep(_SETTLED)
        return sum(not done.query() for done, _ in self._waiting)


def _event() -> Any:
    return torch.cuda.Event()  # type: ignore[no-untyped-call]


# Dropout that does not depend on the number of ranks.

_ROWS: ContextVar[BatchRows | None] = ContextVar("rows", default=None)


@contextmanager
def dropout_of(rows: BatchRows | None) -> Iterator[None]:
    """Within this context, `RowDropout` draws a mask for the whole batch and keeps the rows of this rank."""
    token = _ROWS.set(None if rows is None or rows.size == rows.whole else rows)
    try:
        yield
    finally:
        _ROWS.reset(token)


class RowDropout(torch.nn.Dropout):
    """Dropout on the pairs of a batch, the same for any number of ranks."""

    def forward(self, x: Tensor) -> Tensor:
        rows = _ROWS.get()
        if rows is None or not self.training or self.p == 0:
            return super().forward(x)
        blocks = len(x) // rows.size
        noise = dropout(x.new_ones(blocks * rows.whole, *x.shape[1:]), self.p)
        return x * rows.of(noise)


def row_range() -> BatchRows | None:
    """The rows that this rank computes of the batch; None if it computes all."""
    return _ROWS.get()
