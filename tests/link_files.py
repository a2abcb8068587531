"""Files of links, what was read from them, and what is refused."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cawn
from cawn.data.events import PER_LINK
from cawn.data.names import SLOTS
from cawn.data.readers.links import Limits
from cawn.data.readers.logs import write_columns

ROWS = [(10, 20, 3), (20, 30, 1), (10, 30, 2), (30, 30, 2)]
SORTED = [(20, 30, 1), (10, 30, 2), (30, 30, 2), (10, 20, 3)]  # by time, stable among the ties at 2
SMALL = Limits(piece=48, names=1 << 20, sorting=400, block=3)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def of_words(*words: str) -> str:
    """A log with a column of these."""
    return "src,dst,t,w\n" + "".join(f"1,2,{i},{word}\n" for i, word in enumerate(words))


def zipped(name: str, content: bytes) -> bytes:
    """An archive with one file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def named_links(events: cawn.Events) -> list[tuple]:
    """(source, destination, time) by name."""
    src, dst = events.labels[events.src], events.labels[events.dst]
    return list(zip(src.tolist(), dst.tolist(), events.t.tolist(), strict=True))


def assert_unreadable(source: object, message: str, **options: object) -> str:
    """`cawn.read` refuses it in one short line, which is returned."""
    with pytest.raises(cawn.DataError, match=message) as caught:
        cawn.read(source, **options)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    return str(caught.value)


def read_or_refused(source: Any, **options: Any) -> cawn.Events | str:
    """The events, which are checked, or the message."""
    try:
        events = cawn.read(source, **options)
    except cawn.CawnError as error:
        reason = str(error)
        assert "\n" not in reason
        assert len(reason) < 2000
        return reason
    assert len(events) == len(events.src) == len(events.dst) == len(events.t) > 0
    assert events.src.dtype == events.dst.dtype == np.int32
    assert events.t.dtype in (np.int64, np.float64)
    assert (events.t[1:] >= events.t[:-1]).all()
    assert np.isfinite(events.t).all()
    assert 0 <= min(events.src.min(), events.dst.min()) <= max(events.src.max(), events.dst.max()) < events.num_nodes
    assert len(events.labels) == events.num_nodes == len(set(events.labels.tolist()))
    assert sorted(events.rows.tolist()) == list(range(len(events)))
    if events.msg is not None:
        assert np.isfinite(events.msg).all()
        assert len(events.msg) == len(events)
    return events


def assert_same(source: Any, folder: Path, limits: Limits = SMALL, **options: Any) -> cawn.Events | str:
    """The columns in the folder are those of `cawn.read`, or both refuse the log."""
    folder.mkdir()
    expected = read_or_refused(source, **options)
    if isinstance(expected, str):
        with pytest.raises(cawn.DataError):
            write_columns(source, folder, limits, **options)
        assert list(folder.iterdir()) == []
        return expected
    events = write_columns(source, folder, limits, **options)
    held = {name: getattr(expected, name) for name in ("src", "dst", "t", "x", *PER_LINK)}
    held["rows"] = None if np.array_equal(expected.rows, np.arange(len(expected))) else expected.rows
    held |= expected.names.arrays | {SLOTS: expected.names.slots}
    held = {name: array for name, array in held.items() if array is not None}
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{name}.npy" for name in held)
    for name, array in held.items():
        written_array = np.load(folder / f"{name}.npy")
        assert (written_array.dtype, written_array.tolist()) == (array.dtype, array.tolist()), name
    for name in ("reading", "columns", "node_columns", "num_nodes"):
        assert getattr(events, name) == getattr(expected, name), name
    assert events.ids(expected.labels).tolist() == list(range(expected.num_nodes))
    return events
