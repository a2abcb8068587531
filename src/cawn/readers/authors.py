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


def authors_features(path: str, index: npt.NDArray[Any], labels: npt.NDArray[Any]) -> tuple[Features, Features]:
    """Link attributes, a row for each link by its `idx`, and node attributes, a row for each node by its number.

    None where there is no such file, or where it is all zeros: the authors' way to say that there are no features.
    """
    base = path[: path.rindex(".csv")] if ".csv" in os.path.basename(path) else path
    msg, x = _load(f"{base}.npy"), _load(f"{base}_node.npy")
    return (
        None if msg is None else _rows_of(msg, index, f"{base}.npy", "idx"),
        None if x is None else _rows_of(x, labels, f"{base}_node.npy", "node number"),
    )


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


def _rows_of(features: npt.NDArray[Any], index: npt.NDArray[Any], path: str, what: str) -> npt.NDArray[Any]:
    if features.ndim != 2 or index.dtype.kind != "i" or index.max() >= len(features) or index.min() < 0:
        raise DataError(f"{path}: has shape {features.shape}, but the links refer to {what} {index.max()}")
    return np.asarray(features[index])
