"""Columns on disk equal, byte for byte, what `cawn.read` gives in memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cawn
from cawn.data.events import PER_LINK
from cawn.data.external import write_columns
from cawn.data.external.columns import Limits, write_limited
from cawn.data.names import NameIndex
from link_files import SORTED, named_links, written

SMALL = Limits(piece=48, names=1 << 20, sorting=400, block=3)


def read_or_refused(source: Any, **options: Any) -> cawn.Events | str:
    try:
        return cawn.read(source, **options)
    except cawn.DataError as error:
        return str(error)


def assert_same(
    source: Any, folder: Path, limits: Limits = SMALL, exact: bool = True, **options: Any
) -> cawn.Events | str:
    """The columns are those of `cawn.read`, or both refuse the log with the same message."""
    folder.mkdir()
    expected = read_or_refused(source, **options)
    if isinstance(expected, str):
        with pytest.raises(cawn.DataError) as caught:
            write_limited(source, folder, limits, **options)
        assert not exact or str(caught.value) == expected
        assert list(folder.iterdir()) == []
        return expected
    found = write_limited(source, folder, limits, **options)
    held = {name: getattr(expected, name) for name in ("src", "dst", "t", "x", *PER_LINK)}
    held["rows"] = None if np.array_equal(expected.rows, np.arange(len(expected))) else expected.rows
    held |= NameIndex.of(expected.labels).arrays
    held = {name: array for name, array in held.items() if array is not None}
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{name}.npy" for name in held)
    for name, array in held.items():
        np.save(folder.parent / "expected.npy", array)
        assert (folder / f"{name}.npy").read_bytes() == (folder.parent / "expected.npy").read_bytes(), name
    events = found.events()
    for name in ("reading", "columns", "node_columns", "num_nodes"):
        assert getattr(events, name) == getattr(expected, name), name
    assert np.array_equal(events.labels, expected.labels)
    return events


def test_columns_are_mapped(tmp_path: Path) -> None:
    log = written(tmp_path / "a.csv", "src,dst,t\n10,20,3\n20,30,1\n10,30,2\n30,30,2\n")
    (tmp_path / "columns").mkdir()
    events = write_columns(log, tmp_path / "columns", memory=8 << 30).events()
    assert named_links(events) == SORTED
    assert events.rows.tolist() == [1, 2, 3, 0]
    assert events.ids([30, 99]).tolist() == [2, 3]
    assert events.reading == cawn.read(log).reading
    assert not events.src.flags.writeable
    assert np.array_equal(events[1:].labels, [10, 20, 30])


# Random logs.

NAMES = st.sampled_from(["7", "8", "10", "11", "-3", "123456789"])
ODD_NAMES = st.sampled_from(["7", "7.0", "07", "ann", "bob", "a b", 'say "hi"', "x,y", "line\nbreak", "é"])
WHOLE = st.integers(-5, 5).map(str)
TIMES = {
    "whole": WHOLE,
    "decimal": st.sampled_from(["1", "2.5", "-0.0", "1e3", "0.1"]),
    "day": st.sampled_from(["2024-01-01", "2023-12-31", "1969-01-01"]),
    "moment": st.sampled_from(["2024-01-01", "2024-01-01 00:00:01.5", "2024-01-01T00:00:00.001", "2024-01-01 00:00"]),
    "fine": st.sampled_from(["2024-01-01", "2024-01-01 00:00:00.000000001", "2024-01-01 00:00:00.000001"]),
    "zone": st.sampled_from(["2024-01-01T00:00:00Z", "2024-01-01T00:00:00+02:00"]),
    "calendar": st.sampled_from(["20240101", "20231231"]),
    "number or calendar": st.sampled_from(["20240101", "20241301"]),
    "large": st.sampled_from(["9007199254740993", "1", "2.5"]),
    "far": st.sampled_from(["2024-01-01", "2300-01-01", "2024-01-01 00:00:00.5"]),
    "anything": st.sampled_from(["1", "2.5", "2024-01-01", " 3", "+4", "noon", "", "nan", "true", "12:00:00"]),
}
WORDS = st.sampled_from(["red", "", "blue", "7"])
NUMBERS = st.sampled_from(["1", "2.5", "0"])
ANYTHING = st.sampled_from(["1", "0", "true", "false", "", "2024-01-01", "red", "2.5"])


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[list[dict[str, str]]], dict[str, Any]]:
    """Rows of one or more files, and options."""
    names = draw(st.sampled_from([NAMES, NAMES, ODD_NAMES]))
    kinds = list(TIMES)
    time = draw(st.sampled_from([*kinds, *kinds[:6]]))
    attribute = draw(st.sampled_from([WORDS, NUMBERS, NUMBERS, ANYTHING]))
    columns = {"src": names, "dst": names, "t": TIMES[time], "a": attribute, "c": WORDS, "w": NUMBERS}
    columns |= {"n": st.one_of(st.just(""), names), "id": names}
    some = st.lists(st.fixed_dictionaries(columns), min_size=1, max_size=12)
    options: dict[str, Any] = {"bipartite": draw(st.sampled_from([None, None, True]))}
    for option, column in (
        ("msg", ["a"]),
        ("categorical", ["c"]),
        ("weight", "w"),
        ("negative", "n"),
        ("link_id", "id"),
    ):
        if draw(st.booleans()):
            options[option] = column
    return draw(st.lists(some, min_size=1, max_size=3)), options


def as_csv(rows: list[dict[str, str]]) -> str:
    def field(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n') else text

    columns = ["src", "dst", "t", "a", "c", "w", "n", "id"]
    lines = [",".join(columns), *(",".join(field(row[name]) for name in columns) for row in rows)]
    return "\n".join(lines) + "\n"


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(log=logs(), sorting=st.sampled_from([200, 400, 100_000]), piece=st.sampled_from([40, 120, 100_000]))
def test_any_log_of_text(tmp_path_factory: pytest.TempPathFactory, log, sorting: int, piece: int) -> None:
    files, options = log
    folder = tmp_path_factory.mktemp("log")
    paths = [written(folder / f"{i}.csv", as_csv(rows)) for i, rows in enumerate(files)]
    assert_same(paths, folder / "columns", Limits(piece, 1 << 20, sorting, 3), exact=False, **options)
