"""The files of the CAW authors' preprocessing: ml_NAME.csv, ml_NAME.npy (links) and ml_NAME_node.npy (nodes)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.errors import DataError

Features = npt.NDArray[Any] | None


def is_authors_file(path: str, names: Sequence[str]) -> bool:
    return os.path.basename(path).startswith("ml_") and {"u", "i", "ts", "idx"} <= set(names)


def link_features(path: str, index: npt.NDArray[Any]) -> Features:
    """A row for each link, by its `idx`.

    None where there is no such file, or where it is all zeros: the authors' way to say that there are no features.
    """
    return _rows_of(f"{_base(path)}.npy", index, "idx")


def node_features(path: str, labels: npt.NDArray[Any]) -> Features:
    """A row for each node, by its number; None as for links."""
    return _rows_of(f"{_base(path)}_node.npy", labels, "node number")


def _base(path: str) -> str:
    return path[: path.rindex(".csv")] if ".csv" in os.path.basename(path) else path


def _load(path: str) -> Features:
    if not os.path.exists(path):
        return None
    try:
        features = np.load(path, allow_pickle=False)
    except Exception as error:  # a damaged header can raise almost anything
        raise DataError(f"{path}: not a NumPy array file, or a damaged one; write it again") from error
    if not isinstance(features, np.ndarray) or features.dtype.kind not in "iuf":
        raise DataError(f"{path}: expected one array of numbers")
    return np.asarray(features) if features.any() else None


def _rows_of(path: str, index: npt.NDArray[Any], what: str) -> Features:
    features = _load(path)
    if features is None:
        return None
    if features.ndim != 2 or index.dtype.kind != "i" or index.max() >= len(features) or index.min() < 0:
        raise DataError(f"{path}: has shape {features.shape}, but the links refer to {what} {index.max()}")
    return np.asarray(features[index])
