"""Damaged files of every kind: links, or one short line; never another error, and no crash."""

import gzip
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cawn
from cawn.data.readers.query_files import PairFile
from cawn.data.readers.tables import TableColumn
from fuzz.mutations import answer_or_refusal, mutate, seeds


def table() -> pa.Table:
    names = pa.DictionaryArray.from_arrays(pa.array([i % 5 for i in range(40)], pa.int32()), list("abcde"))
    times = pa.array(np.arange(40) * 1_000_003, pa.timestamp("us"))
    return pa.table({"src": names, "dst": [f"n{i % 7}" for i in range(40)], "t": times, "w": np.linspace(0, 1, 40)})


def as_csv(delimiter: str) -> bytes:
    rows = ["src,dst,t,w", *(f'a{i % 5},"b ""{i % 7}""",{i * 3},{i / 7:.3f}' for i in range(40))]
    return "\n".join(rows).replace(",", delimiter).encode()


def as_json() -> bytes:
    return b"\n".join(b'{"src": %d, "dst": "x%d", "t": %d, "w": 0.5}' % (i % 5, i % 7, i) for i in range(40))


def as_ipc(kind: Callable) -> bytes:
    sink = io.BytesIO()
    with kind(sink, table().schema) as writer:
        writer.write_table(table())
    return sink.getvalue()


def as_parquet(**options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table(), sink, **options)
    return sink.getvalue()


FILES = {
    "csv": as_csv(","),
    "tsv": as_csv("\t"),
    "blanks": as_csv("  "),
    "csv.gz": gzip.compress(as_csv(","), mtime=0),
    "jsonl": as_json(),
    "arrow": as_ipc(pa.ipc.new_file),
    "stream": as_ipc(pa.ipc.new_stream),
    "parquet": as_parquet(compression="none"),
    "compressed parquet": as_parquet(compression="zstd"),
}


def score(path: Path) -> None:
    """What `predict` does with a file of pairs, but for the scores."""
    pairs = PairFile.open(str(path))
    for rows in pairs.chunks(16):
        TableColumn.at(rows, pairs.layout.src, pairs.rows.origin(0)).names().to_pylist()
        TableColumn.at(rows, pairs.layout.time, pairs.rows.origin(0)).times()


@pytest.mark.parametrize("kind", FILES)
def test_damaged_files(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    for seed in seeds(60):
        path.write_bytes(mutate(FILES[kind], np.random.default_rng([seed, len(kind)])))
        for use in (partial(cawn.read, path, msg="w"), partial(score, path)):
            answer_or_refusal(use, f"{kind}, seed {seed}")


def test_files_are_good_before_they_are_damaged(tmp_path: Path) -> None:
    for kind, content in FILES.items():
        path = tmp_path / kind
        path.write_bytes(content)
        assert len(cawn.read(path, msg="w")) == 40
        score(path)
