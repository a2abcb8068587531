"""Files of tensors, and checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load as parse

from cawn.data.array_folders import Arrays, Stamp
from cawn.data.stored import require
from cawn.errors import StorageError
from cawn.files import read_file


def stamp_of(content: bytes) -> Stamp:
    """Size and SHA-256 of the content of a file."""
    return [len(content), hashlib.sha256(content).hexdigest()]


def digest_of(arrays: Mapping[str, npt.NDArray[Any]], *texts: str) -> str:
    """The SHA-256 of arrays and texts."""
    state = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        state.update(f"{name} {array.dtype} {array.shape}\n".encode())
        state.update(array.reshape(-1).view(np.uint8).data)
    for text in texts:
        state.update(f"{len(text)} {text}".encode())
    return state.hexdigest()


def read_tensors(path: Path) -> tuple[Arrays, dict[str, str], bytes]:
    """The tensors of a safetensors file, its metadata, and its bytes; OSError if it cannot be read."""
    content = read_file(path)
    try:
        tensors = {name: array.copy() for name, array in sorted(parse(content).items())}
        texts = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__", {})
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StorageError(f"{path}: damaged") from error
    return tensors, texts, content


def check_weights(weights: Arrays) -> None:
    """Refuse weights that are neither float32 nor, as buffers may be, int64, or not finite."""
    for name, values in weights.items():
        require(values.dtype in (np.float32, np.int64), f"{name} is {values.dtype}")
        require(bool(np.isfinite(values).all()), f"{name} is not finite")
