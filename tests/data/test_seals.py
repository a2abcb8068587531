"""Files that notice every change."""

import json
from pathlib import Path

import pytest

import cawn
from cawn.data.seals import read_json, read_sealed, write_sealed


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_sealed(path, {"b": [1, 2.5], "a": None, "checksum": "of an earlier content"})
    assert read_sealed(path, "") == {"b": [1, 2.5], "a": None}
    assert set(read_json(path, "")) == {"a", "b", "checksum"}


@pytest.mark.parametrize("content", ['{"a": 2, "checksum": "x"}', '{"a": 1}', "[1]", "{", ""])
def test_any_other_content_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(content)
    with pytest.raises(cawn.StorageError, match=r"file\.json: .*damaged.*; start again"):
        read_sealed(path, "start again")


def test_a_changed_value_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_sealed(path, {"a": 1})
    path.write_text(json.dumps(json.loads(path.read_text()) | {"a": 2}))
    with pytest.raises(cawn.StorageError, match="checksum"):
        read_sealed(path, "")


def test_a_missing_file_is_not_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_sealed(tmp_path / "none", "")
