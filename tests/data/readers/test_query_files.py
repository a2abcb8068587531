"""Files read in pieces."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cawn.data.readers import files, query_files, read_like, text
from cawn.data.readers.query_files import NodeFile, PairFile
from cawn.data.reading import Reading


def test_names_with_blanks_in_a_file_of_nodes(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.txt"
    nodes.write_text("Finn G\nAnn B\n")
    assert list(NodeFile.open(str(nodes)).name_chunks(10)) == [["Finn G", "Ann B"]]
    pq.write_table(pa.table({"other": ["a"], "node": ["b"]}), tmp_path / "nodes.parquet")
    assert list(NodeFile.open(str(tmp_path / "nodes.parquet")).name_chunks(10)) == [["b"]]


RECORDED = Reading(src="rater", dst="ratee", time="when", msg=("stars",))


def test_recorded_columns_are_used_where_the_file_has_them(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("when,ratee,rater\n5,a,b\n")
    found = PairFile.open(path, recorded=RECORDED)
    assert (found.layout.src, found.layout.dst, found.layout.time) == (2, 1, 0)
    assert PairFile.open(path, Reading.of(src="ratee", dst="rater"), recorded=RECORDED).layout.src == 1
    path.write_text("src,dst,t\na,b,5\n")
    assert PairFile.open(path, recorded=RECORDED).layout.time == 2


def test_a_file_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "links.csv"
    path.write_text("when,ratee,rater,stars\n5,a,b,1\n6,b,a,2\n")
    looks = []
    for module, name in ((files, "_identified"), (query_files, "sniff"), (text, "sniff")):
        look = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, _look=look, **how: looks.append(1) or _look(*args, **how))
    assert read_like(path, RECORDED).msg.tolist() == [[1], [2]]
    assert len(looks) == 2  # identified, sniffed
    PairFile.open(path, recorded=RECORDED)
    assert len(looks) == 4
