"""The seam between systems and everything that trains, evaluates or serves them.

Everything that scores a pair is a `Scorer`; everything that is trained is a `System`. To add a system, write one file
with its settings (a subclass of `Settings`) and a class that is built from a `Context`, and add one line to the
registry in `cawn.systems`. `cawn.learn` then trains, stores, resumes and evaluates it, and knows nothing else about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cawn.data.events import Events
from cawn.errors import DataError
from cawn.systems.training import Optimizer, TrainingLinks
from cawn.walks.history import History

Array = npt.NDArray[Any]


class Scorer(Protocol):
    """Scores pairs of nodes on one history."""

    def __call__(self, src: Array, dst: Array, t: Array) -> Array:
        """Logits [B] of the pairs (src, dst) at times t [B], which ascend.

        Only links strictly before t count, and a score depends on nothing else in the call. Node ids beyond those of
        the history belong to nodes without links.
        """


class System(Protocol):
    """Something that is trained to score pairs. The constructor takes a `Context`."""

    module: nn.Module  # its weights and buffers are the checkpoint

    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        """One loss per optimizer step of an epoch, from step `first`: whatever is random follows from epoch and step.

        The trainer minimises a loss that requires a gradient. A system that has made the step itself with `optimizer`
        (as part of a CUDA graph, say) yields a loss that does not.
        """

    def scorer(self, events: Events) -> Scorer:
        """Scores pairs with the present weights on the history of `events`, in evaluation mode."""


# What a system may offer beside that. A caller that needs it asks with isinstance, and otherwise says so in one line.


@runtime_checkable
class Indexed(Protocol):
    """A system whose scorers read an index that is worth storing with a run."""

    def index(self, events: Events) -> dict[str, Array]:
        """The arrays of the index on these events."""

    def load_index(self, events: Events, arrays: dict[str, Array]) -> None:
        """Use stored arrays for `scorer(events)`; raises DataError where they do not fit the events."""


@runtime_checkable
class Comparable(Protocol):
    """A system that leaves a fact to a short comparison on validation links before training."""

    @staticmethod
    def alternatives(config: Any, train: Events) -> Alternatives | None:
        """The choices for these training links; None where the settings leave none open."""


@runtime_checkable
class Embedder(Protocol):
    """A scorer with an embedding of each pair."""

    def embed(self, src: Array, dst: Array, t: Array) -> npt.NDArray[np.float32]:
        """[B, width]"""


@runtime_checkable
class Sampler(Protocol):
    """A scorer whose logits depend on a random sample of the past."""

    def logits(self, src: Array, dst: Array, t: Array, *, seed: int) -> Array:
        """Logits [B] for another sample."""


@runtime_checkable
class Bounded(Protocol):
    """A scorer that can say how many pairs fit into memory."""

    def pairs_within(self, byte_budget: int) -> int:
        """How many pairs can be scored at once in so many bytes."""


@runtime_checkable
class HasHistory(Protocol):
    """A scorer on a walk index, which candidates are then chosen from."""

    history: History


class Alternatives(NamedTuple):
    """Choices to compare by a short training each; the first is kept unless another is clearly better."""

    what: str  # is compared, for messages: "decays"
    config: Any  # settings of the short trainings
    facts: dict[str, dict[str, Any]]  # the facts of each choice, by its name


@dataclass(frozen=True)
class Context:
    """What a system is built from."""

    config: Any  # an instance of its settings
    events: Events  # the links that training may see; of a loaded run, all links
    seed: int
    device: torch.device
    threads: int | None = None
    training: TrainingLinks | None = None  # None for a system that is only to score
    facts: dict[str, Any] = field(default_factory=dict)  # stored in run.json

    def fact(self, name: str, find: Callable[[], Any]) -> Any:
        """A JSON value found from the training links once; a loaded or resumed run has it from its run.json."""
        if name not in self.facts:
            self.facts[name] = find()
        return self.facts[name]

    @property
    def train(self) -> TrainingLinks:
        """The links to train on; DataError for a system that is only to score."""
        if self.training is None:
            raise DataError("something found in training is missing")
        return self.training


def symmetric(pairs: Tensor, shared: int) -> Tensor:
    """Makes features of pairs independent of the order of their ends: [B, shared + 2n] to the same shape.

    After `shared` columns of the pair, those of u and of v are replaced by their mean and absolute difference.
    """
    u, v = pairs[:, shared:].chunk(2, dim=-1)  # [B, n] each
    return torch.cat([pairs[:, :shared], (u + v) / 2, (u - v).abs()], dim=-1)
