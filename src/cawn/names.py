"""Node names <-> node ids: any integers or strings become 0, 1, 2, ... and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cawn.kernels.jit import njit

Ids = npt.NDArray[np.int32]
Labels = npt.NDArray[Any]  # int64 or object (str), one per node id


def number_nodes(src: pa.ChunkedArray, dst: pa.ChunkedArray) -> tuple[Ids, Ids, Labels]:
    """Ids for names of one name space. Both columns are int64, or both are strings.

    Integers keep their order (names that already are 0..N-1 stay as they are), strings are numbered as they appear.
    """
    if pa.types.is_integer(src.type):
        return _number_integers(src.to_numpy(), dst.to_numpy())
    both = pa.chunked_array([*src.chunks, *dst.chunks], type=src.type).combine_chunks().dictionary_encode()
    if isinstance(both, pa.ChunkedArray):
        both = both.combine_chunks()
    ids = both.indices.to_numpy()
    return ids[: len(src)], ids[len(src) :], both.dictionary.to_numpy(zero_copy_only=False).astype(object)


def number_two_sided(src: pa.ChunkedArray, dst: pa.ChunkedArray, prefixes: tuple[str, str]) -> tuple[Ids, Ids, Labels]:
    """Ids where a source and a destination of the same name are different nodes; labels such as 'user:7', 'item:7'."""
    nothing_like = [side.slice(0, 0) for side in (src, dst)]
    src_ids, _, src_labels = number_nodes(src, nothing_like[0])
    dst_ids, _, dst_labels = number_nodes(dst, nothing_like[1])
    labels = [
        f"{prefix}:{name}" for prefix, names in zip(prefixes, (src_labels, dst_labels), strict=True) for name in names
    ]
    return src_ids, dst_ids + np.int32(len(src_labels)), np.array(labels, dtype=object)


def _number_integers(src: npt.NDArray[np.int64], dst: npt.NDArray[np.int64]) -> tuple[Ids, Ids, Labels]:
    columns = [c for c in (src, dst) if c.size]
    if not columns:
        return src.astype(np.int32), dst.astype(np.int32), np.empty(0, np.int64)
    low, high = min(int(c.min()) for c in columns), max(int(c.max()) for c in columns)
    if high - low <= 4 * (src.size + dst.size) + 1024:
        table = np.zeros(high - low + 1, np.int32)
        for column in (src, dst):
            _mark(column, low, table)
        labels = np.flatnonzero(table) + low
        table[:] = np.cumsum(table, dtype=np.int32) - np.int32(1)
        return _look_up(src, low, table), _look_up(dst, low, table), labels
    both = pc.dictionary_encode(pa.array(np.concatenate([src, dst])))
    labels = both.dictionary.to_numpy()
    order = np.argsort(labels)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    ids = rank[both.indices.to_numpy()]
    return ids[: len(src)], ids[len(src) :], labels[order]


@njit
def _mark(names: npt.NDArray[np.int64], low: int, table: Ids) -> None:
    for i in range(names.size):
        table[names[i] - low] = 1


@njit
def _look_up(names: npt.NDArray[np.int64], low: int, table: Ids) -> Ids:
    ids = np.empty(names.size, np.int32)
    for i in range(names.size):
        ids[i] = table[names[i] - low]
    return ids
