"""The interface between systems and the code that trains, evaluates or serves them.

Everything that scores a pair is a `Scorer`; everything that is trained is a `System`. To add a system, write one file
with its settings (a subclass of `Settings`) and a class that is built from a `Context`, and add one line to the
registry in `cawn.systems`. `cawn.learn` then trains, stores, resumes and evaluates it through this interface alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cawn.data.events import Events
from cawn.errors import DataError
from cawn.index.features import PairParts, part_widths
from cawn.systems.ranks import SINGLE, Ranks
from cawn.systems.training import Optimizer, TrainingLinks

Array = npt.NDArray[Any]


class Scorer(Protocol):
    """Scores pairs of nodes on one history."""

    def __call__(self, src: Array, dst: Array, t: Array) -> Array:
        """Logits [B] of the pairs (src, dst) at times t [B], in ascending order.

        Only links strictly before t are used, and a score does not depend on the other pairs. Node ids beyond those of
        the history belong to nodes without links.
        """


class System(Protocol):
    """Something that is trained to score pairs. The constructor takes a `Context`."""

    module: nn.Module  # its weights and buffers are the checkpoint
    # Several ranks can train a system that has `same_dropout: bool`: whether its dropout does not depend on their
    # number. Its steps are those of `TrainingLinks.batches` or `tensors`, and nothing but weights outlasts a step.

    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        """One loss per optimizer step of an epoch, from step `first`; random only through seed, epoch and step.

        The trainer minimises a loss that requires a gradient. A system that has already updated the weights with
        `optimizer` (for example in a CUDA graph) yields a loss that does not.
        """

    def scorer(self, events: Events) -> Scorer:
        """Scores pairs with the current weights on the history of `events`, in evaluation mode."""


# Optional protocols. Callers check for them with isinstance, and raise a one-line error if a required one is missing.


@runtime_checkable
class HasTrainingState(Protocol):
    """A system whose steps depend on a state besides the weights, such as a memory; it is part of a checkpoint.

    `updates(epoch, 0, ...)` starts with a new state; `updates(epoch, first, ...)` continues with the loaded one.
    """

    def training_state(self) -> dict[str, Tensor]:
        """The state after the last step."""

    def load_training_state(self, state: dict[str, Tensor]) -> None:
        """Continue from a state; raises KeyError, TypeError or ValueError if it does not fit."""


@runtime_checkable
class PrefixScorer(Protocol):
    """A scorer for which the caller may choose the visible links, to reproduce other evaluation clocks."""

    def score_after(self, src: Array, dst: Array, t: Array, visible: Array) -> Array:
        """Logits [B] of pairs at t if only the first visible[b] links of the events are known, whatever their times.

        `visible` is ascending. `__call__` is the case where these are the links strictly before t.
        """


@runtime_checkable
class Embedder(Protocol):
    """A scorer with an embedding of each pair."""

    def embed(self, src: Array, dst: Array, t: Array) -> npt.NDArray[np.float32]:
        """[B, width]"""


@runtime_checkable
class Seeded(Protocol):
    """A scorer whose logits depend on a random sample of the past."""

    def logits(self, src: Array, dst: Array, t: Array, *, seed: int) -> Array:
        """Logits [B] with the sample of this seed."""


@dataclass(frozen=True)
class Context:
    """What a system is built from."""

    config: Any  # an instance of its settings
    events: Events  # the links visible in training; all links for a loaded run
    seed: int
    device: torch.device
    threads: int | None = None
    training: TrainingLinks | None = None  # None for a system used only for scoring
    facts: dict[str, Any] = field(default_factory=dict)  # stored in run.json
    ranks: Ranks = SINGLE  # which train and score together
    grows: bool = False  # whether links will be added to those that are scored

    def fact(self, name: str, find: Callable[[], Any]) -> Any:
        """A JSON value, derived once from the training links; a loaded or resumed run takes it from run.json."""
        if name not in self.facts:
            self.facts[name] = find()
        return self.facts[name]

    @property
    def train(self) -> TrainingLinks:
        """The links to train on; DataError for a system used only for scoring."""
        if self.training is None:
            raise DataError("something found in training is missing")
        return self.training


def symmetric(pairs: Tensor, shared: int) -> Tensor:
    """Makes features of pairs independent of the order of their ends; input and output are [B, shared + 2n].

    After `shared` columns of the pair, those of u and of v are replaced by their mean and absolute difference.
    """
    u, v = pairs[:, shared:].chunk(2, dim=-1)  # [B, n] each
    return torch.cat([pairs[:, :shared], (u + v) / 2, (u - v).abs()], dim=-1)


def symmetric_features(features: Tensor, parts: PairParts, num_decays: int) -> Tensor:
    """The same for undirected `PairFeatures`: the rates, then the features of each end."""
    width, _ = parts.widths(num_decays)
    rates, sequences = features[:, :width], features[:, width:]
    of_pair = part_widths(num_decays)[0] if width else 0
    return torch.cat([symmetric(rates, of_pair), symmetric(sequences, 0)], dim=-1)
