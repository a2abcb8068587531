"""Files read in pieces."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cawn.data.readers.query_files import NodeFile


def test_names_with_blanks_in_a_file_of_nodes(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.txt"
    nodes.write_text("Finn G\nAnn B\n")
    assert list(NodeFile.open(str(nodes)).name_chunks(10)) == [["Finn G", "Ann B"]]
    pq.write_table(pa.table({"other": ["a"], "node": ["b"]}), tmp_path / "nodes.parquet")
    assert list(NodeFile.open(str(tmp_path / "nodes.parquet")).name_chunks(10)) == [["b"]]
