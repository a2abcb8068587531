"""Where training stands, as files: tensors with a little state beside them, never unpickled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from cawn.errors import StorageError
from cawn.files import write_bytes
from cawn.learn.runs import StoredRun, Weights
from cawn.learn.store import digest_of
from cawn.systems.cawn.batches import input_widths
from cawn.systems.cawn.model import CAWN

Tensors = dict[str, torch.Tensor]


def stored_model(run: StoredRun) -> CAWN:
    """The network of a run with its best weights."""
    model = CAWN(run.config, *input_widths(run.config, run.events, len(run.batcher.history.alpha)))
    load_weights(model, run.weights, run.folder)
    return model.eval()


def load_weights(model: CAWN, weights: Weights, folder: Path) -> None:
    """Give a model the weights of a run in `folder`."""
    try:
        model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    except (RuntimeError, TypeError) as error:
        raise StorageError(f"{folder}: the weights do not fit its config; the run must be trained again") from error


def write_checkpoint(folder: Path, tensors: Tensors, best: Tensors | None, state: dict[str, Any]) -> None:
    """One file, so that weights, best weights and log are always of the same moment. No `best` before a validation."""
    held = _on_host(tensors) | {f"best.{name}": value for name, value in _on_host(best or {}).items()}
    text = json.dumps(state)
    checksum = digest_of({name: value.numpy() for name, value in held.items()}, text)
    write_bytes(folder / "checkpoint.safetensors", save(held, {"state": text, "checksum": checksum}))


def _on_host(tensors: Tensors) -> Tensors:
    return {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
