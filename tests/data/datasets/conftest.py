"""A cache of our own for every test here."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no prepared copies."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CAWN_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache" / "cawn"
