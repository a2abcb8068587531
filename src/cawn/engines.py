"""What computes a trained network: NumPy where that is enough, PyTorch for a GPU and for every kind of model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from cawn.batches import Batch, Batcher, input_widths
from cawn.devices import Device, may_have_cuda, pick_device
from cawn.errors import QueryError, StorageError
from cawn.inference import Inference, supports
from cawn.runs import read_weights

if TYPE_CHECKING:
    from cawn.model import CAWN


class Engine(Protocol):
    """A trained network."""

    @property
    def width(self) -> int:
        """Of an embedding."""

    @property
    def weights(self) -> dict[str, npt.NDArray[Any]]:
        """Every weight by name."""

    def logits(self, batch: Batch) -> npt.NDArray[np.float64]:
        """[B]"""

    def embed(self, batch: Batch) -> npt.NDArray[np.float32]:
        """[B, width]"""


class TorchEngine:
    """The network as PyTorch has it, on its device."""

    def __init__(self, model: CAWN) -> None:
        self._model = model.eval()

    @property
    def width(self) -> int:
        return self._model.width

    @property
    def weights(self) -> dict[str, npt.NDArray[Any]]:
        return {name: value.detach().cpu().numpy() for name, value in self._model.state_dict().items()}

    def logits(self, batch: Batch) -> npt.NDArray[np.float64]:
        import torch

        with torch.no_grad():
            return np.asarray(self._model(batch).double().cpu().numpy())

    def embed(self, batch: Batch) -> npt.NDArray[np.float32]:
        import torch

        with torch.no_grad():
            return np.asarray(self._model.embed(batch).float().cpu().numpy())


def engine_of(model: CAWN) -> Engine:
    """For a model in memory."""
    on_cpu = next(model.parameters()).device.type == "cpu"
    if on_cpu and supports(model.config):
        return Inference(model.config, {name: value.numpy() for name, value in model.state_dict().items()})
    return TorchEngine(model)


def load_engine(folder: Path, batcher: Batcher, device: Device, threads: int | None) -> Engine:
    """For the weights of a run folder. PyTorch is loaded only if it is needed."""
    if device not in ("auto", "cpu", "cuda"):
        raise QueryError(f"device is {device!r}: give auto, cpu or cuda")
    config = batcher.config
    if supports(config) and (device == "cpu" or (device == "auto" and not may_have_cuda())):
        engine = Inference(config, read_weights(folder), threads)
        if not engine.fits(*_widths(batcher)):
            raise StorageError(f"{folder}: the weights do not fit its config; the run must be trained again")
        return engine
    from cawn.checkpoints import read_model

    return TorchEngine(read_model(folder, _widths(batcher)).to(pick_device(device)))


def _widths(batcher: Batcher) -> tuple[int, int]:
    return input_widths(batcher.config, batcher.events, len(batcher.history.alpha))
