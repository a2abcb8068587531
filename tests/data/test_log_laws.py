"""Laws of reading: a log in pieces and files is the log in memory; anything is read whole, or refused in one line."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cawn
from cawn.data.readers.links import Limits
from cawn.data.readers.logs import write_columns
from cawn.data.readers.query_files import PairFile
from link_files import SMALL, assert_same, named_links, written

LAW = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


WORDS, TEXT = ["red", "blue", None], pa.string()
TYPES = {
    "whole text": (TEXT, st.sampled_from(["7", "8", "10", "11", "-3", "123456789"])),
    "odd text": (TEXT, st.sampled_from(["7", "7.0", "07", "ann", "a b", 'say "hi"', "x,y", "line\nbreak", "é" * 30])),
    "integers": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9)),
    "whole floats": (pa.float32(), st.sampled_from([1.0, 2.0, 7.0])),
    "floats": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, 2.0, 1e300])),
    "any floats": (pa.float64(), st.none() | st.floats()),
    "number text": (TEXT, st.sampled_from(["1", "2.5", "0"])),
    "words": (TEXT, st.sampled_from(WORDS)),
    "any words": (TEXT, st.sampled_from([*WORDS, "true", "false", "", "2024-01-01", "2.5"])),
    "small": (TEXT, st.integers(-5, 5).map(str)),
    "decimal": (TEXT, st.sampled_from(["1", "2.5", "-0.0", "1e3", "0.1"])),
    "days": (pa.date32(), st.integers(-9, 20_000)),
    "day text": (TEXT, st.sampled_from(["2024-01-01", "2023-12-31", "1969-01-01"])),
    "moments": (pa.timestamp("ms"), st.integers(-(10**5), 10**12)),
    "moment text": (TEXT, st.sampled_from(["2024-01-01", "2024-01-01 00:00:01.5", "2024-01-01T00:00:00.001"])),
    "fine moments": (pa.timestamp("ns", "UTC"), st.integers(0, 3)),
    "fine text": (TEXT, st.sampled_from(["2024-01-01", "2024-01-01 00:00:00.000000001", "2024-01-01 00:00"])),
    "zones": (TEXT, st.sampled_from(["2024-01-01T00:00:00Z", "2024-01-01T00:00:00+02:00"])),
    "calendar": (TEXT, st.sampled_from(["20240101", "20231231"])),
    "number or calendar": (TEXT, st.sampled_from(["20240101", "20241301"])),
    "large": (TEXT, st.sampled_from(["9007199254740993", "1", "2.5"])),
    "far moments": (pa.timestamp("us"), st.integers(-(2**55), 2**57)),
    "far text": (TEXT, st.sampled_from(["2024-01-01", "2300-01-01", "2024-01-01 00:00:00.5"])),
    "any text": (TEXT, st.sampled_from(["1", "2.5", "2024-01-01", " 3", "+4", "noon", "", "nan", "true", "12:00:00"])),
}
ORDER = list(TYPES)
NAME_KINDS, TIME_KINDS = ORDER[:4], ["integers", "floats", "any floats", *ORDER[ORDER.index("small") :]]
ATTRIBUTE_KINDS = ORDER[ORDER.index("whole floats") : ORDER.index("small")]


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[pa.Table], dict[str, Any]]:
    """Tables of one log, and options."""
    kinds = {name: draw(st.sampled_from(NAME_KINDS)) for name in ("src", "dst", "n", "id")}
    kinds |= {"t": draw(st.sampled_from(TIME_KINDS)), "a": draw(st.sampled_from(ATTRIBUTE_KINDS))}
    kinds |= {"c": "words", "w": draw(st.sampled_from(["whole floats", "number text", "floats"]))}
    found = []
    for _ in range(draw(st.integers(1, 3))):
        rows, columns = draw(st.integers(1, 15)), {}
        for name, kind in kinds.items():
            dtype, values = TYPES[kind]
            values = st.none() | values if name == "n" else values
            column = pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), dtype)
            columns[name] = column.dictionary_encode() if kind == "words" else column
        found.append(pa.table(columns))
    columns = {"msg": ["a"], "categorical": ["c"], "weight": "w", "negative": "n", "link_id": "id"}
    options = {option: column for option, column in columns.items() if draw(st.booleans())}
    return found, options | {"bipartite": draw(st.sampled_from([None, None, True]))}


def as_file(table: pa.Table, path: Path, kind: str) -> Path:
    """Written in small pieces."""
    if kind == "csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, table.column_names)
            writer.writeheader()
            writer.writerows(table.to_pylist())
    elif kind == "json":
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()))
    elif kind == "parquet":
        pq.write_table(table, path, row_group_size=4)
    else:
        with (pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file)(path, table.schema) as sink:
            sink.write_table(table, max_chunksize=5)
    return path


@LAW
@given(
    log=logs(),
    kind=st.sampled_from(["csv", "csv", "csv", "parquet", "json", "stream", "file"]),
    sorting=st.sampled_from([200, 400, 100_000]),
    piece=st.sampled_from([40, 120, 400, 100_000]),
)
def test_any_log(tmp_path_factory: pytest.TempPathFactory, log, kind: str, sorting: int, piece: int) -> None:
    found, options = log
    folder = tmp_path_factory.mktemp("log")
    paths = [as_file(table, folder / f"{i}", kind) for i, table in enumerate(found)]
    assert_same(paths, folder / "columns", Limits(piece, 1 << 20, sorting, 3), **options)


@pytest.mark.parametrize("kind", ["csv", "parquet", "file", "json"])
def test_any_rows_of_a_file(tmp_path: Path, kind: str) -> None:
    (tmp_path / "day=7").mkdir()
    table = pa.table({"src": [f"n{i}" for i in range(100)], "dst": ["x"] * 100, "t": range(100)})
    pairs = PairFile.open(as_file(table, tmp_path / "day=7" / "pairs", kind))
    assert (pairs.count_rows(), pairs.num_rows()) == (100, {"csv": 100, "parquet": 100}.get(kind))
    assert pairs.has_times()
    for first, stop in ((0, None), (0, 10), (25, 61), (99, None), (60, 60)):
        chunks = list(pairs.chunks(7, first, stop))
        names = [name for chunk in chunks for name in chunk.column("src").to_pylist()]
        assert names == [f"n{i}" for i in range(first, 100 if stop is None else stop)]
        assert all(len(chunk) == 7 for chunk in chunks[:-1])


@pytest.mark.parametrize("kind", ["parquet", "json", "stream", "file", "table"])
def test_a_row_that_is_wrong_is_named_in_any_piece(tmp_path: Path, kind: str) -> None:
    table = pa.table({"src": range(40), "dst": range(40), "t": [*range(30), None, *range(9)]})
    source = table if kind == "table" else as_file(table, tmp_path / "log", kind)
    with pytest.raises(cawn.DataError, match="row 31, column 't': found nothing"):
        write_columns(source, tmp_path, SMALL)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_folders_of_partitions(tmp_path: Path, kind: str) -> None:
    for i, day in enumerate(("2024-01-02", "2024-01-01")):
        folder = tmp_path / "log" / f"date={day}" / f"shard={i}"
        folder.mkdir(parents=True)
        table = pa.table({"src": ["a", "b"], "dst": ["b", f"c{i}"]})
        if kind == "parquet":
            pq.write_table(table, folder / "part.parquet")
        else:
            (folder / "part.csv").write_text(f"src,dst\na,b\nb,c{i}\n")
    events = assert_same(tmp_path / "log", tmp_path / "columns", msg="shard")
    assert isinstance(events, cawn.Events)
    assert (events.reading.time, events.reading.dates) == ("date", True)
    assert np.array_equal(events.msg, [[1], [1], [0], [0]])


@pytest.mark.parametrize("links", ["src,dst,t\nann,bob,2\nbob,cid,1\n", "user,item,t\nann,1,2\nbob,2,1\nann,3,0\n"])
def test_tables_of_nodes(tmp_path: Path, links: str) -> None:
    nodes = written(tmp_path / "nodes.csv", "name,age,city\nbob,40,rome\nann,20,oslo\nzoe,99,paris\n")
    assert_same(written(tmp_path / "log.csv", links), tmp_path / "columns", nodes=nodes)


@settings(max_examples=200)
@given(
    links=st.lists(
        st.tuples(
            st.sampled_from(["ann", "bob", "é, x", 'q"q', "7", "NA"]),
            st.sampled_from(["ann", "zoe", "8"]),
            st.integers(-(2**61), 2**61).filter(lambda t: not 1900_01_01 <= t <= 2199_12_31),  # no dates
            st.sampled_from([0.5, 1.5, 2.5]),
        ),
        min_size=1,
        max_size=20,
    ),
    kind=st.sampled_from(["csv", "parquet", "json", "stream", "file", "table"]),
)
def test_what_is_written_is_read(tmp_path: Path, links: list[tuple[str, str, int, float]], kind: str) -> None:
    table = pa.table({name: [link[i] for link in links] for i, name in enumerate(("src", "dst", "t", "w"))})
    events = cawn.read(table if kind == "table" else as_file(table, tmp_path / "links", kind), msg="w")
    found = [(str(a), str(b), t) for a, b, t in named_links(events)]
    expected = sorted(links, key=lambda link: link[2])
    assert [(*link, w) for link, w in zip(found, events.msg.ravel().tolist(), strict=True)] == expected
