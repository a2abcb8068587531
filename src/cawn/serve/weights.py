"""The weights that a service has used, kept in its state folder so that it can go back to any of them.

0000.safetensors   the weights of the run
0001.safetensors   those of the first promotion, and so on
0000.json, ...     when they were first served, after how many links, why, their calibration and their checksum
serving.json       the number of the served weights
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as tensor_bytes
from torch import Tensor

from cawn.errors import DataError, QueryError, StorageError
from cawn.files import make_folder, read_file, write_bytes, write_text
from cawn.learn.calibration import RollingCalibration
from cawn.learn.store import check_weights, read_tensors, stamp_of
from cawn.predictor import LinkPredictor

Weights = dict[str, Tensor]


class KeptWeights:
    """A folder of numbered weights; files are written atomically, and a number exists once its JSON file does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def numbers(self) -> list[int]:
        """The numbers of all weights that are kept, in ascending order."""
        found = self.folder.glob("*.json") if self.folder.is_dir() else []
        return sorted(int(path.stem) for path in found if path.stem.isdecimal())

    def keep(self, weights: Weights, calibration: RollingCalibration, **about: Any) -> int:
        """Write weights with their calibration and facts about them; returns their number."""
        make_folder(self.folder)
        number = max(self.numbers(), default=-1) + 1
        content = tensor_bytes({name: value.detach().cpu().contiguous() for name, value in weights.items()})
        when = datetime.now(UTC).isoformat(timespec="seconds")
        known = {"when": when} | about | {"calibration": calibration.to_dict(), "stamp": stamp_of(content)}
        write_bytes(self._path(number, "safetensors"), content)
        write_text(self._path(number, "json"), json.dumps(known, indent=1) + "\n")
        return number

    def read(self, number: int) -> tuple[Weights, dict[str, Any]]:
        """Weights and the facts about them, with a `RollingCalibration`; StorageError if they are damaged."""
        if number not in self.numbers():
            kept = ", ".join(map(str, self.numbers())) or "none"
            raise QueryError(f"{self.folder}: has no weights with the number {number}; there are {kept}")
        path = self._path(number, "safetensors")
        try:
            about = json.loads(read_file(self._path(number, "json")))
            arrays, _, content = read_tensors(path)
            if stamp_of(content) != about["stamp"]:
                raise ValueError("checksum")
            check_weights(arrays)
            about["calibration"] = RollingCalibration.from_dict(about["calibration"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError, DataError, StorageError) as error:
            raise StorageError(f"{path}: damaged or missing; serve others with --weights") from error
        return {name: torch.from_numpy(array) for name, array in arrays.items()}, about

    @property
    def serving(self) -> int | None:
        """The number of the weights that are served; None if none was ever chosen."""
        path = self.folder / "serving.json"
        try:
            number = json.loads(read_file(path))["number"]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise StorageError(f"{path}: damaged; choose weights with --weights") from error
        return int(number)

    def serve(self, predictor: LinkPredictor, number: int | None = None) -> int | None:
        """Use the weights with this number, or those served last, if any, in a predictor; returns the number."""
        chosen = self.serving if number is None else number
        if chosen is not None:
            weights, about = self.read(chosen)
            if not _equal(weights, predictor._system.module.state_dict()):  # else its calibration may be newer
                predictor.replace_weights(weights, about["calibration"])
            self.mark(chosen)
        return chosen

    def mark(self, number: int) -> None:
        """Record that these weights are served."""
        write_text(self.folder / "serving.json", json.dumps({"number": number}) + "\n")

    def _path(self, number: int, suffix: str) -> Path:
        return self.folder / f"{number:04d}.{suffix}"


def _equal(mine: Weights, served: Weights) -> bool:
    return mine.keys() == served.keys() and all(torch.equal(mine[name], served[name].cpu()) for name in mine)
