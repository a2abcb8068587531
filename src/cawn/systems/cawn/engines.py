"""What computes a trained network: NumPy where that is enough, PyTorch for a GPU and for every kind of model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from cawn.devices import Device, check_device, may_have_cuda, pick_device
from cawn.errors import StorageError
from cawn.learn.runs import StoredRun
from cawn.systems.cawn.batches import PAIRS_PER_BATCH, Batch, Batcher, ahead, input_widths, pairs_within, width_of_x
from cawn.systems.cawn.inference import Inference, supports

if TYPE_CHECKING:
    from cawn.systems.cawn.device_batches import DeviceBatcher
    from cawn.systems.cawn.model import CAWN

Array = npt.NDArray[Any]
_PAIRS_MERGED = 2048  # in one pass on the CPU, where those of several sources share their walks


Source = tuple[int, Array, Any]  # a node, destinations [C], and a time


class Engine(Protocol):
    """A trained network that answers for pairs of nodes; the batcher holds their history."""

    @property
    def network(self) -> Network:
        """What computes batches that were made on the CPU."""

    def logits(self, batcher: Batcher, src: Array, dst: Array, t: Array, *, seed: int) -> Array:
        """Of each pair (src, dst) at time t: [B] float64."""

    def embed(self, batcher: Batcher, src: Array, dst: Array, t: Array, *, seed: int) -> Array:
        """Likewise: [B, width] float32."""

    def logits_of_one(
        self, batcher: Batcher, src: int, dst: Array, t: Any, *, seed: int, byte_budget: int | None
    ) -> Array:
        """Of the pairs (src, each of dst) at one time; src's walks are sampled once. [B] float64."""

    def logits_of_many(
        self, batcher: Batcher, sources: Sequence[Source], *, seed: int, byte_budget: int | None
    ) -> list[Array]:
        """The same for several sources, each with its destinations and its time."""


class Network(Protocol):
    """What computes a batch: `Inference` or `TorchNetwork`."""

    @property
    def width(self) -> int:
        """Of an embedding."""

    @property
    def weights(self) -> dict[str, Array]:
        """Every weight by name."""

    def logits(self, batch: Batch) -> Array:
        """[B] float64"""

    def embed(self, batch: Batch) -> Array:
        """[B, width] float32"""


class TorchNetwork:
    """A network as PyTorch has it."""

    def __init__(self, model: CAWN) -> None:
        self._model = model.eval()

    @property
    def width(self) -> int:
        return self._model.width

    @property
    def weights(self) -> dict[str, Array]:
        return {name: value.detach().cpu().numpy() for name, value in self._model.state_dict().items()}

    def logits(self, batch: Batch) -> Array:
        import torch

        with torch.no_grad():
            return np.asarray(self._model(batch).double().cpu().numpy())

    def embed(self, batch: Batch) -> Array:
        import torch

        with torch.no_grad():
            return np.asarray(self._model.embed(batch).float().cpu().numpy())


class HostEngine:
    """Batches made on the CPU, in advance while the network computes."""

    def __init__(self, network: Network) -> None:
        self.network = network

    def logits(self, batcher: Batcher, src: Array, dst: Array, t: Array, *, seed: int) -> Array:
        parts = [self.network.logits(batch) for batch in self._batches(batcher, src, dst, t, seed)]
        return np.concatenate(parts) if parts else np.empty(0)

    def embed(self, batcher: Batcher, src: Array, dst: Array, t: Array, *, seed: int) -> Array:
        parts = [self.network.embed(batch) for batch in self._batches(batcher, src, dst, t, seed)]
        return np.concatenate(parts) if parts else np.empty((0, self.network.width), np.float32)

    def logits_of_one(
        self, batcher: Batcher, src: int, dst: Array, t: Any, *, seed: int, byte_budget: int | None
    ) -> Array:
        return self.logits_of_many(batcher, [(src, dst, t)], seed=seed, byte_budget=byte_budget)[0]

    def logits_of_many(
        self, batcher: Batcher, sources: Sequence[Source], *, seed: int, byte_budget: int | None
    ) -> list[Array]:
        src, dst, t = _pairs_of(sources)
        # Neighbours in this order have ends in common. It does not depend on how nodes are numbered.
        order = np.argsort(_by_appearance(dst), kind="stable")
        most = _PAIRS_MERGED
        if byte_budget is not None:
            most = min(most, pairs_within(byte_budget, batcher.config, width_of_x(batcher.config, batcher.events)))
        make = batcher.merged if isinstance(self.network, Inference) else batcher.pairs

        def task(part: Array) -> Callable[[], Batch]:
            return lambda: make(src[part], dst[part], t[part], seed=seed)

        pieces = [task(order[i : i + most]) for i in range(0, len(order), most)]
        logits = np.empty(len(order))
        if pieces:
            logits[order] = np.concatenate([self.network.logits(batch) for batch in ahead(pieces, 1)])
        return np.split(logits, np.cumsum([len(others) for _, others, _ in sources])[:-1])

    def _batches(self, batcher: Batcher, src: Array, dst: Array, t: Array, seed: int) -> Iterable[Batch]:
        def task(part: slice) -> Callable[[], Batch]:
            return lambda: batcher.pairs(src[part], dst[part], t[part], seed=seed)

        return ahead([task(slice(i, i + PAIRS_PER_BATCH)) for i in range(0, len(src), PAIRS_PER_BATCH)], 1)


class DeviceEngine:
    """Batches made on the GPU too. The history is taken there when it is first asked about."""

    def __init__(self, model: CAWN) -> None:
        self.network, self._model = TorchNetwork(model), model
        self._placed: tuple[Batcher, DeviceBatcher] | None = None

    def logits(self, batcher: Batcher, src: Array, dst: Array, t: Array, *, seed: int) -> Array:
        from cawn.systems.cawn import fused
        from cawn.systems.cawn.device_scoring import of_pairs

        return of_pairs(partial(fused.logits, self._model), self._there(batcher), src, dst, t, seed=seed).astype(
            np.float64
        )

    def embed(self, batcher: Batcher, src: Array, dst: Array, t: Array, *, seed: int) -> Array:
        from cawn.systems.cawn import fused
        from cawn.systems.cawn.device_scoring import of_pairs

        found = of_pairs(partial(fused.embed, self._model), self._there(batcher), src, dst, t, seed=seed)
        return found if len(src) else np.empty((0, self.network.width), np.float32)

    def logits_of_one(
        self, batcher: Batcher, src: int, dst: Array, t: Any, *, seed: int, byte_budget: int | None
    ) -> Array:
        from cawn.systems.cawn import fused
        from cawn.systems.cawn.device_scoring import of_one

        there = self._there(batcher)
        return of_one(
            partial(fused.logits, self._model), there, src, dst, t, seed=seed, byte_budget=byte_budget
        ).astype(np.float64)

    def logits_of_many(
        self, batcher: Batcher, sources: Sequence[Source], *, seed: int, byte_budget: int | None
    ) -> list[Array]:
        if byte_budget is not None or len(sources) == 1:
            return [
                self.logits_of_one(batcher, src, dst, t, seed=seed, byte_budget=byte_budget)
                if len(dst)
                else np.empty(0)
                for src, dst, t in sources
            ]
        logits = self.logits(batcher, *_pairs_of(sources), seed=seed)
        return np.split(logits, np.cumsum([len(others) for _, others, _ in sources])[:-1])

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_placed": None}  # what is on the device is placed there again

    def _there(self, batcher: Batcher) -> DeviceBatcher:
        from cawn.systems.cawn.device_batches import DeviceBatcher

        placed = self._placed
        if placed is None or placed[0] is not batcher:
            placed = self._placed = None  # make room
            placed = batcher, DeviceBatcher(batcher, next(self._model.parameters()).device)
            self._placed = placed
        return placed[1]


def _pairs_of(sources: Sequence[Source]) -> tuple[Array, Array, Array]:
    """All pairs of the sources and their destinations, and the times."""
    sizes = [len(dst) for _, dst, _ in sources]
    src = np.repeat(np.array([node for node, _, _ in sources], np.int64), sizes)
    return src, np.concatenate([dst for _, dst, _ in sources]), np.repeat([t for _, _, t in sources], sizes)


def _by_appearance(nodes: Array) -> Array:
    """Numbers the nodes in the order they first appear."""
    _, first, at = np.unique(nodes, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[at])


def engine_of(model: CAWN) -> Engine:
    """For a model in memory."""
    if next(model.parameters()).device.type == "cuda":
        return DeviceEngine(model)
    if supports(model.config):
        return HostEngine(Inference(model.config, {name: value.numpy() for name, value in model.state_dict().items()}))
    return HostEngine(TorchNetwork(model))


def load_engine(run: StoredRun, device: Device, threads: int | None) -> Engine:
    """For the weights of a run. PyTorch is loaded only if it is needed."""
    check_device(device)
    config, batcher = run.config, run.batcher
    if supports(config) and (device == "cpu" or (device == "auto" and not may_have_cuda())):
        network = Inference(config, run.weights, threads)
        if not network.fits(*_widths(batcher)):
            raise StorageError(f"{run.folder}: the weights do not fit its config; the run must be trained again")
        return HostEngine(network)
    from cawn.kernels.cuda.launch import memory_for
    from cawn.learn.checkpoints import stored_model

    with memory_for("the model"):
        return engine_of(stored_model(run).to(pick_device(device)))


def _widths(batcher: Batcher) -> tuple[int, int]:
    return input_widths(batcher.config, batcher.events, len(batcher.history.alpha))
