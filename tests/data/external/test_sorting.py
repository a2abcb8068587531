"""Sorting in pieces equals a stable sort at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cawn.data.external.files import ColumnFile
from cawn.data.external.sorting import sort_by_time


@settings(max_examples=40, deadline=None)
@given(
    times=st.lists(st.integers(0, 6) | st.integers(-(2**62), 2**62), min_size=1, max_size=60),
    memory=st.sampled_from([40, 200, 1_000, 100_000]),
)
def test_any_times(tmp_path_factory: pytest.TempPathFactory, times: list[int], memory: int) -> None:
    folder = tmp_path_factory.mktemp("sorting")
    (folder / "sorted").mkdir()
    files = {"t": ColumnFile(folder / "t", np.int64), "msg": ColumnFile(folder / "msg", np.float32, 2)}
    t, msg = np.array(times), np.arange(2 * len(times), dtype=np.float32).reshape(-1, 2)
    files["t"].append(t)
    files["msg"].append(msg)
    done: list[int] = []
    found = sort_by_time(files, folder / "sorted", memory, lambda name, x: x + 1 if name == "msg" else x, done.append)
    order = np.argsort(t, kind="stable")
    assert np.array_equal(found["t"].read(0, len(t)), t[order])
    assert np.array_equal(found["rows"].read(0, len(t)), order)
    assert np.array_equal(found["msg"].read(0, len(t)), msg[order] + 1)
    assert done[-1] == len(times)
    assert sorted(path.name for path in (folder / "sorted").iterdir()) == ["msg.npy", "rows.npy", "t.npy"]
    assert not (folder / "t").exists()
