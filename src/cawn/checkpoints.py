"""Where training stands, as files: tensors with a little state beside them, never unpickled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from cawn.errors import StorageError
from cawn.files import write_atomically
from cawn.model import CAWN
from cawn.runs import part, read_config, read_weights

Tensors = dict[str, torch.Tensor]


def read_model(folder: Path, widths: tuple[int, int]) -> CAWN:
    """The network of a run with its best weights."""
    model = CAWN(read_config(folder), *widths)
    try:
        model.load_state_dict({name: torch.from_numpy(value) for name, value in read_weights(folder).items()})
    except RuntimeError as error:
        raise StorageError(f"{folder}: the weights do not fit its config; the run must be trained again") from error
    return model.eval()


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], str]:
    """The tensors of a file and the state beside them."""
    try:
        with safe_open(path, "pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}, (file.metadata() or {}).get("state", "{}")  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise StorageError(f"{path}: damaged; remove it to start over") from error


def write_checkpoint(folder: Path, tensors: Tensors, best: Tensors, state: dict[str, Any]) -> None:
    """The checkpoint, and the best weights by themselves."""
    held = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    held |= {f"best.{name}": value.detach().cpu().contiguous().clone() for name, value in best.items()}
    weights = part(held, "best.")
    metadata = {"state": json.dumps(state)}
    write_atomically(folder / "checkpoint.safetensors", lambda path: save_file(held, path, metadata))
    write_atomically(folder / "weights.safetensors", lambda path: save_file(weights, path))
