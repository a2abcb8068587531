"""Progress on the terminal and in TensorBoard."""

from pathlib import Path

import pytest

import cawn
from cawn.learn import comparison
from small_runs import TINY


def test_progress_is_told(events, capsys, monkeypatch) -> None:
    monkeypatch.setattr(comparison, "MIN_TRIAL_STEPS", 1)
    cawn.train(events, TINY.with_(alpha="auto", epochs=2, batch_size=8), task=cawn.Task(negatives=("random",)))
    shown = capsys.readouterr().err
    assert "3 short training runs of 4 steps" in shown
    first, last = (line for line in shown.splitlines() if line.startswith("epoch "))
    assert first.startswith("epoch 1/2  loss ")
    assert "links/s  at most " in first
    assert last.startswith("epoch 2/2  loss ")
    assert "left" not in last


def test_tensorboard_on_request(events, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = cawn.train(
        events, TINY, out=tmp_path, quiet=True, callback=cawn.TensorBoard(), task=cawn.Task(negatives=("random",))
    )
    curves = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [point.value for point in curves.Scalars("val_ap")] == pytest.approx([row["val_ap"] for row in run.epochs])
    with pytest.raises(cawn.QueryError, match="give out="):
        cawn.train(events, TINY, callback=cawn.TensorBoard(), quiet=True)
    cawn.train(events, TINY.with_(epochs=1), callback=cawn.TensorBoard(tmp_path / "mine"), quiet=True)
    assert any((tmp_path / "mine").iterdir())
