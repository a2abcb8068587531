"""Node names <-> node ids: any integers or strings become 0, 1, 2, ... and back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
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

    Integers keep their order (names that already are 0..N-1 stay as they are), strings are numbered as they appear,
    those of the sources first.
    """
    return _number_integers(src, dst) if pa.types.is_integer(src.type) else _number_strings(src, dst)


def number_two_sided(src: pa.ChunkedArray, dst: pa.ChunkedArray, prefixes: tuple[str, str]) -> tuple[Ids, Ids, Labels]:
    """Ids where a source and a destination of the same name are different nodes; labels such as 'user:7', 'item:7'."""
    nothing_like = [side.slice(0, 0) for side in (src, dst)]
    src_ids, _, src_labels = number_nodes(src, nothing_like[0])
    dst_ids, _, dst_labels = number_nodes(dst, nothing_like[1])
    labels = [
        f"{prefix}:{name}" for prefix, names in zip(prefixes, (src_labels, dst_labels), strict=True) for name in names
    ]
    return src_ids, dst_ids + np.int32(len(src_labels)), np.array(labels, dtype=object)


def _number_integers(src: pa.ChunkedArray, dst: pa.ChunkedArray) -> tuple[Ids, Ids, Labels]:
    bounds = [pc.min_max(column) for column in (src, dst) if len(column)]
    low = min((b["min"].as_py() for b in bounds), default=0)
    high = max((b["max"].as_py() for b in bounds), default=-1)
    if high - low > 4 * (len(src) + len(dst)) + 1024:
        return _number_sparse_integers(src.to_numpy(), dst.to_numpy())
    table = np.zeros(high - low + 1, np.int32)
    for column in (src, dst):
        for chunk in column.chunks:
            _mark(chunk.to_numpy(), low, table)
    labels = np.flatnonzero(table) + low
    table = np.cumsum(table, dtype=np.int32) - np.int32(1)
    src_ids, dst_ids = np.empty(len(src), np.int32), np.empty(len(dst), np.int32)
    for column, ids in ((src, src_ids), (dst, dst_ids)):
        first = 0
        for chunk in column.chunks:
            _look_up(chunk.to_numpy(), low, table, ids[first : first + len(chunk)])
            first += len(chunk)
    return src_ids, dst_ids, labels


def _number_sparse_integers(src: npt.NDArray[np.int64], dst: npt.NDArray[np.int64]) -> tuple[Ids, Ids, Labels]:
    both = pc.dictionary_encode(pa.array(np.concatenate([src, dst])))
    labels = both.dictionary.to_numpy()
    order = np.argsort(labels)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    ids = rank[both.indices.to_numpy()]
    return ids[: len(src)], ids[len(src) :], labels[order]


def _number_strings(src: pa.ChunkedArray, dst: pa.ChunkedArray) -> tuple[Ids, Ids, Labels]:
    with ThreadPoolExecutor(2) as pool:  # Arrow works without the GIL
        ends = list(pool.map(lambda column: column.combine_chunks().dictionary_encode(), (src, dst)))
    names = pa.concat_arrays([end.dictionary for end in ends]).dictionary_encode()
    ids = names.indices.to_numpy()
    src_rank, dst_rank = ids[: len(ends[0].dictionary)], ids[len(ends[0].dictionary) :]
    labels = names.dictionary.to_numpy(zero_copy_only=False).astype(object)
    return src_rank[ends[0].indices.to_numpy()], dst_rank[ends[1].indices.to_numpy()], labels


def integers_in(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """The column as int64, if every name is an integer as one is written: 7 and 7.0, but not 007, +7 or 0x7."""
    parsed = []
    for chunk in column.chunks:
        _, offsets, data = chunk.cast(pa.large_string()).buffers()
        values = np.empty(len(chunk), np.int64)
        ends = np.frombuffer(
            offsets, np.int64, len(chunk) + 1, 8 * chunk.offset if chunk.type == pa.large_string() else 0
        )
        text = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        if not _parse_integers(ends, text, values):
            return None
        parsed.append(pa.array(values))
    return pa.chunked_array(parsed, pa.int64())


@njit
def _parse_integers(ends: npt.NDArray[np.int64], text: npt.NDArray[np.uint8], values: npt.NDArray[np.int64]) -> bool:
    """-?(0|[1-9][0-9]{0,17})(.0)? in every field."""
    zero, minus, point = np.uint8(48), np.uint8(45), np.uint8(46)
    for i in range(values.size):
        lo, hi = ends[i], ends[i + 1]
        if hi - lo > 2 and text[hi - 1] == zero and text[hi - 2] == point:
            hi -= 2
        negative = hi > lo and text[lo] == minus
        lo += negative
        digits = hi - lo
        if digits < 1 or digits > 18 or (text[lo] == zero and (digits > 1 or negative)):
            return False
        value = np.int64(0)
        for j in range(lo, hi):
            digit = np.int64(text[j]) - 48
            if digit < 0 or digit > 9:
                return False
            value = 10 * value + digit
        values[i] = -value if negative else value
    return True


@njit
def _mark(names: npt.NDArray[np.int64], low: int, table: Ids) -> None:
    for i in range(names.size):
        table[names[i] - low] = 1


@njit
def _look_up(names: npt.NDArray[np.int64], low: int, table: Ids, ids: Ids) -> None:
    for i in range(names.size):
        ids[i] = table[names[i] - low]
