"""Weights that are kept, and served again."""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch

import cawn
from cawn.errors import QueryError, StorageError
from cawn.serve.store import Store
from cawn.serve.weights import KeptWeights
from cawn.snapshot import Questions
from small_stream import TRAINED


def weights_of(predictor: cawn.LinkPredictor, *, more: float = 0.0) -> dict[str, torch.Tensor]:
    return {name: value + more for name, value in predictor.snapshot().model.system.module.state_dict().items()}


def load(run: Path) -> cawn.LinkPredictor:
    return cawn.LinkPredictor.load(run, device="cpu", threads=1)


def ask(predictor: Questions) -> list[float]:
    found = predictor.score(["n0", "n1"], ["n20", "n21"], TRAINED + 50)
    assert isinstance(found, np.ndarray)
    return found.tolist()


def test_weights_are_numbered_and_served_again(cycles: Path, store: Store) -> None:
    predictor, kept = load(cycles), KeptWeights(store)
    snapshot, first, calibration = predictor.snapshot(), ask(predictor), predictor.calibration
    assert kept.serve(predictor) is None
    assert kept.keep(weights_of(predictor), calibration, links=7) == 0
    assert kept.keep(weights_of(predictor, more=0.1), calibration, links=9, evidence={"links": 500}) == 1
    assert kept.numbers() == [0, 1]
    assert kept.serve(predictor, 1) == kept.serve(predictor) == 1
    second = ask(predictor)
    assert set(first).isdisjoint(second)
    assert ask(snapshot) == first  # queries in progress keep their weights
    other = load(cycles)
    assert KeptWeights(store).serve(other) == 1  # after a restart
    assert ask(other) == second
    assert kept.serve(other, 0) == kept.serving == 0
    assert ask(other) == first
    _, about = kept.read(1)
    assert (about["links"], about["evidence"], about["when"][-6:]) == (9, {"links": 500}, "+00:00")
    with pytest.raises(QueryError, match="no weights with the number 3; there are 0, 1"):
        kept.serve(predictor, 3)
    with pytest.raises(QueryError, match="do not fit"):
        predictor.replace_weights({"0.weight": torch.zeros(2, 2)})
    assert ask(predictor) == second


def test_weights_in_use_keep_their_newer_calibration(cycles: Path, store: Store) -> None:
    predictor, kept = load(cycles), KeptWeights(store)
    before, version = predictor.calibration, predictor.version
    kept.serve(predictor, kept.keep(weights_of(predictor), before.initial, links=1))
    kept.serve(predictor)
    assert predictor.calibration is before
    assert predictor.version == version


def test_damage_is_found(cycles: Path, store: Store) -> None:
    predictor, kept = load(cycles), KeptWeights(store)
    kept.keep(weights_of(predictor), predictor.calibration)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute("UPDATE weights SET crc = crc + 1")
    with pytest.raises(StorageError, match=r"the weights 0 are damaged .checksum"):
        kept.serve(predictor, 0)


def test_replaced_weights_are_saved_and_those_of_the_results_kept(cycles: Path, tmp_path: Path) -> None:
    predictor = load(cycles)
    tested = weights_of(predictor)
    predictor.replace_weights(weights_of(predictor, more=0.1))
    predictor.append(["n0"], ["n20"], [TRAINED])
    predictor.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert ask(again) == ask(predictor)
    evaluated = again.snapshot().model.record.evaluated
    assert all((evaluated[name] == value.numpy()).all() for name, value in tested.items())
