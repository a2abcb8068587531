"""Joining a study: only with the same data and the same options."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cawn
from cawn.studies.tuning.plan import FILE, SearchPlan, join, read_study
from cawn.studies.tuning.space import parse_space
from small_study import QUICK, plan

pytest.importorskip("optuna")


def test_a_plan_survives_json() -> None:
    given = replace(plan(), task=cawn.Task(split=cawn.TimeSplit(train_share=0.5)))
    assert SearchPlan.from_dict(given.to_dict()) == given


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"metric": "mrr"}, r'metric \("ap" there, "mrr" here\)'),
        ({"seeds": (0,)}, r"seeds \(\[0, 1\] there, \[0\] here\)"),
        ({"seed": 5}, r"seed of the sampler \(0 there, 5 here\)"),
        ({"config": QUICK.with_(epochs=4)}, r"epochs \(3 there, 4 here\)"),
        ({"config": cawn.Config()}, r'system \("rates" there, "cawn" here\)'),
        ({"space": parse_space({"hidden": [1, 2]}, QUICK)}, r"its space \(lr\)"),
        ({"task": cawn.Task("inductive")}, "task"),
        ({"task": cawn.Task(split=cawn.TimeSplit(train_share=0.5))}, "split"),
        ({"task": cawn.Task(protocol="paper")}, "protocol"),
        ({"task": cawn.Task(clock="event")}, "clock"),
    ],
)
def test_another_plan_is_refused_in_one_line(changes: dict[str, Any], reason: str, network, tmp_path: Path) -> None:
    assert join(tmp_path, plan(), network) == []
    assert join(tmp_path, plan(), network) == []
    with pytest.raises(cawn.QueryError, match=f"holds a study that differs in {reason}.*choose another folder"):
        join(tmp_path, replace(plan(), **changes), network)


def test_other_links_are_refused(network, tmp_path: Path) -> None:
    join(tmp_path, plan(), network)
    with pytest.raises(cawn.QueryError, match=r"differs in links \(400 there, 399 here\)"):
        join(tmp_path, plan(), network[:399])
    with pytest.raises(cawn.QueryError, match="differs in its links; give the same data"):
        join(tmp_path, plan(), cawn.Events(network.dst, network.src, network.t, labels=network.labels))


def test_other_versions_are_noted(network, tmp_path: Path, monkeypatch) -> None:
    join(tmp_path, plan(), network)
    monkeypatch.setattr("torch.__version__", "1.0")
    (note,) = join(tmp_path, plan(), network)
    assert "was begun with torch 2" in note
    assert "this is 1.0" in note


def test_other_folders_are_refused(network, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(
        cawn.QueryError, match=r"is not empty \(it holds 'notes\.txt'\) and is not the folder of a study"
    ):
        join(tmp_path, plan(), network)
    with pytest.raises(cawn.StorageError, match="cannot be written"):
        join(tmp_path / "notes.txt", plan(), network)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_damaged_description_is_refused(network, tmp_path: Path) -> None:
    join(tmp_path, plan(), network)
    (tmp_path / FILE).write_text((tmp_path / FILE).read_text().replace('"ap"', '"mrr"'))
    with pytest.raises(cawn.StorageError, match=r"study\.json: was changed or is damaged"):
        read_study(tmp_path)
