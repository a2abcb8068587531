"""Keys, offsets and segments in SQLite."""

from pathlib import Path

import pytest

import cawn
from cawn.serve.catalog import Catalog, KeyUse, Receipt, Segment

USE = KeyUse(b"body", Receipt(3, 1, 2, 9))


def test_what_is_stored_is_there_again(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "c", max_keys=10)
    assert (catalog.position, catalog.log_id, catalog.offsets, catalog.segments) == (0, b"", {}, [])
    catalog.store(b"log", 7, {"k\ud800": (7, USE)}, {"redis:s": "5-0", "kafka:0": 41}, [Segment(1, 5, 30, 999)])
    catalog.store(b"log", 8, {}, {"kafka:0": 42}, [Segment(1, 5, 30, 999), Segment(6, 8, 2, 99)])
    catalog.close()
    again = Catalog(tmp_path / "c", max_keys=10)
    assert (again.position, again.log_id, again.offsets) == (8, b"log", {"redis:s": "5-0", "kafka:0": 42})
    assert again.segments == [Segment(1, 5, 30, 999), Segment(6, 8, 2, 99)]
    assert again.find("k\ud800") == USE
    assert again.find("other") is None
    copy_to = again.copier()
    again.store(b"log", 9, {}, {"kafka:0": 43}, [])
    copy_to(tmp_path / "copy")
    again.close()
    copy = Catalog(tmp_path / "copy", max_keys=10)
    assert (copy.position, copy.offsets["kafka:0"], copy.find("k\ud800")) == (8, 42, USE)
    copy.close()


def test_old_keys_are_forgotten(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "c", max_keys=10)
    for i in range(30):
        catalog.store(b"", i, {f"k{i}": (i, USE)}, {}, [])
    known = [i for i in range(30) if catalog.find(f"k{i}") is not None]
    assert known == list(range(known[0], 30))
    assert 10 <= len(known) <= 11
    catalog.close()


def test_the_first_use_of_a_key_stays(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "c", max_keys=10)
    catalog.store(b"", 1, {"k": (1, USE)}, {}, [])
    catalog.store(b"", 2, {"k": (2, KeyUse(b"other", Receipt(0, 0, 0, 0)))}, {}, [])
    assert catalog.find("k") == USE
    catalog.close()


def test_a_failed_transaction_changes_nothing(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "c", max_keys=10)
    catalog.store(b"", 1, {}, {"s": 1}, [])
    with pytest.raises(cawn.StorageError, match="cannot be used"):
        catalog.store(b"", 2, {}, {"s": 2}, [Segment(1, 1, 1, 1), Segment(1, 2, 2, 2)])
    assert (catalog.position, catalog.offsets) == (1, {"s": 1})
    catalog.close()
    again = Catalog(tmp_path / "c", max_keys=10)
    assert (again.position, again.offsets) == (1, {"s": 1})
    again.close()


def test_damage_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(b"not a database" * 100)
    with pytest.raises(cawn.StorageError, match=r"c: cannot be used \(.*\); remove it; it is built anew"):
        Catalog(tmp_path / "c", max_keys=10)
