"""The files of the CAW authors' preprocessing: ml_NAME.csv, ml_NAME.npy (links) and ml_NAME_node.npy (nodes)."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.data.readers import files
from cawn.data.readers.dialect import sniff
from cawn.data.readers.files import File
from cawn.data.readers.rows import PIECE, open_rows
from cawn.data.readers.tables import TableColumn
from cawn.errors import DataError

Array = npt.NDArray[Any]


def are_of_authors(found: Any) -> bool:
    """Whether these are such files."""
    return files.are_files(found) and all(
        file.kind == "text"
        and os.path.basename(file.path).startswith("ml_")
        and {"u", "i", "ts", "idx"} <= set(sniff(file).names)
        for file in found
    )


def with_features(events: Events, found: Any) -> Events:
    """Events of the authors' files with their features, of a link by its `idx`, of a node by its number; all other
    events, and those with attributes that were asked for, unchanged."""
    if events.msg is not None or not are_of_authors(found):
        return events
    features = [_feature_rows(f"{_base(file)}.npy", "idx", _row_numbers(file)) for file in found]
    given = [array for array in features if array is not None]
    msg = np.concatenate(given)[events.rows].astype(np.float32) if len(given) == len(found) else None
    x = _feature_rows(f"{_base(found[0])}_node.npy", "node number", events.labels) if len(found) == 1 else None
    return events.replace(msg=msg, x=None if x is None else x.astype(np.float32))


def _row_numbers(file: File) -> Array:
    """The column idx."""
    dialect = sniff(file)
    rows = open_rows(file, dialect)
    pieces = rows.pieces(PIECE, [dialect.names.index("idx")])
    rule = "expected a row number of the feature file"
    return np.concatenate([TableColumn.at(piece.table, 0, rows.origin(piece.first)).integers(rule) for piece in pieces])


def _base(file: File) -> str:
    return file.path[: file.path.rindex(".csv")] if ".csv" in os.path.basename(file.path) else file.path


def _feature_rows(path: str, what: str, index: Array) -> Array | None:
    """Rows of a feature file. None if there is no such file, or if it is all zeros, which means no features."""
    if not os.path.exists(path):
        return None
    try:
        features = np.load(path, allow_pickle=False)
    except Exception as error:  # a damaged header can raise almost anything
        raise DataError(f"{path}: not a NumPy array file, or a damaged one; write it again") from error
    if not isinstance(features, np.ndarray) or features.dtype.kind not in "iuf":
        raise DataError(f"{path}: expected one array of numbers")
    if not features.any():
        return None
    if features.ndim != 2 or index.dtype.kind != "i" or index.max() >= len(features) or index.min() < 0:
        raise DataError(f"{path}: has shape {features.shape}, but the links refer to {what} {index.max()}")
    return np.asarray(features[index])
