"""`cawn datasets`."""

import gzip
import json
from pathlib import Path

from command_line import call_cawn


def test_datasets(tmp_path: Path) -> None:
    quiet = {"CAWN_DATA": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    assert "bitcoin-otc" in call_cawn("datasets", **quiet).out
    rows = json.loads(call_cawn("datasets", "--json", **quiet).out)
    assert {row["name"] for row in rows} >= {"reddit", "wikipedia", "mooc", "socialevolve", "enron", "uci", "flights"}
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "edges.csv.gz").write_bytes(gzip.compress(b"u,i,ts,label\n1,2,3,0\n"))
    assert call_cawn("datasets", "where", "uci", **quiet).out.strip() == str(tmp_path / "uci" / "edges.csv.gz")
    assert "not checked" in call_cawn("datasets", "verify", "uci", **quiet).out
