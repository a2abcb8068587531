"""The file of entries that are not links."""

import json
from pathlib import Path

import pytest

import cawn
from cawn.serve.sources import Rejected
from cawn.serve.sources.rejected import RejectedEntries


def test_lines_of_json(tmp_path: Path) -> None:
    rejected = RejectedEntries(tmp_path)
    rejected.add("redis:s", [Rejected("1-0", {"src": "\u00e9\n"}, "dst is missing")])
    rejected.add("redis:s", [Rejected("2-0", "text", "not JSON")])
    first, second = map(json.loads, rejected.path.read_text().splitlines())
    assert first == {"source": "redis:s", "position": "1-0", "entry": {"src": "\u00e9\n"}, "reason": "dst is missing"}
    assert second["position"] == "2-0"


def test_the_size_is_bounded(tmp_path: Path) -> None:
    rejected = RejectedEntries(tmp_path, max_bytes=500)
    for i in range(100):
        rejected.add("redis:s", [Rejected(f"{i}-0", "x" * 50, "not JSON")])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rejected.1.jsonl", "rejected.jsonl"]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1_500
    assert '"99-0"' in rejected.path.read_text()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(cawn.StorageError, match="cannot be written"):
        RejectedEntries(tmp_path / "none").add("s", [Rejected("1-0", "", "")])
