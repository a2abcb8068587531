"""The weights that a service has used, kept in its store so that it can go back to any of them.

Number 0 has the weights of the run, 1 those of the first promotion, and so on.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import torch
from safetensors.torch import load as read_tensors
from safetensors.torch import save as tensor_bytes
from torch import Tensor

from cawn.errors import QueryError
from cawn.learn.calibration import RollingCalibration
from cawn.predictor import LinkPredictor
from cawn.serve.store import LiveStore

Weights = dict[str, Tensor]


class KeptWeights:
    """The numbered weights in a store."""

    def __init__(self, store: LiveStore) -> None:
        self._store = store

    def numbers(self) -> list[int]:
        """The numbers of all weights that are kept, in ascending order."""
        return [number for number in self._store.weights() if number >= 0]

    def keep(self, weights: Weights, calibration: RollingCalibration, **about: Any) -> int:
        """Store weights with their calibration and facts about them; returns their number."""
        number = max(self.numbers(), default=-1) + 1
        about |= {"when": datetime.now(UTC).isoformat(timespec="seconds"), "calibration": calibration.to_dict()}
        self._store.keep_weights(number, about, as_bytes(weights))
        return number

    def read(self, number: int) -> tuple[Weights, dict[str, Any]]:
        """Weights and the facts about them, with a `RollingCalibration`."""
        found = self._store.weights()
        if number not in found or (content := self._store.tensors(number)) is None:
            kept = ", ".join(map(str, self.numbers())) or "none"
            raise QueryError(f"{self._store.path}: has no weights with the number {number}; there are {kept}")
        about = found[number]
        return read_tensors(content), about | {"calibration": RollingCalibration.from_dict(about["calibration"])}

    @property
    def serving(self) -> int | None:
        """The number of the weights that are served; None if none was ever chosen."""
        number = self._store.fact("serving")
        return None if number is None else int(number)

    def serve(self, predictor: LinkPredictor, number: int | None = None) -> int | None:
        """Use the weights with this number, or those served last, if any, in a predictor; returns the number."""
        chosen = self.serving if number is None else number
        if chosen is not None:
            weights, about = self.read(chosen)
            if not _equal(weights, predictor.snapshot().model.system.module.state_dict()):
                fitted = predictor.calibration if number is None else about["calibration"]  # it may be newer
                predictor.replace_weights(weights, fitted)
            self._store.set_facts(serving=str(chosen), calibration=json.dumps(predictor.calibration.to_dict()))
        return chosen


def _equal(mine: Weights, served: Weights) -> bool:
    return mine.keys() == served.keys() and all(torch.equal(mine[name], served[name].cpu()) for name in mine)


def as_bytes(tensors: Weights) -> bytes:
    """Tensors as they are stored."""
    return tensor_bytes({name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()})
