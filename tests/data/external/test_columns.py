"""Columns on disk equal what `cawn.read` gives in memory."""

from pathlib import Path

import numpy as np

import cawn
from cawn.data.external import write_columns
from link_files import SORTED, named_links, written


def test_columns_are_mapped(tmp_path: Path) -> None:
    log = written(tmp_path / "a.csv", "src,dst,t\n10,20,3\n20,30,1\n10,30,2\n30,30,2\n")
    (tmp_path / "columns").mkdir()
    columns = write_columns(log, tmp_path / "columns", memory=1 << 30)
    events = columns.events()
    assert named_links(events) == SORTED
    assert events.rows.tolist() == [1, 2, 3, 0]
    assert events.ids([30, 99]).tolist() == [2, 3]
    assert events.reading == cawn.read(log).reading
    assert not events.src.flags.writeable
    assert np.array_equal(events[1:].labels, [10, 20, 30])
