"""Plots of a study."""

import pytest

from cawn.studies.tuning.outcome import Tuned
from cawn.studies.tuning.plots import plots

pytest.importorskip("matplotlib")


def test_a_panel_for_each_parameter(tuned: Tuned) -> None:
    found = plots(tuned)
    assert list(found) == ["history", "parameters"]
    for name in ("lr", "hidden", "counted"):
        assert f">{name}<" in found["parameters"]
    assert ">best so far<" in found["history"]
    assert found["history"] == (tuned.folder / "report-history.svg").read_text()


def test_without_matplotlib(tuned: Tuned, monkeypatch) -> None:
    monkeypatch.setattr("cawn.studies.tuning.plots.can_draw", lambda: False)
    assert plots(tuned) == {}
