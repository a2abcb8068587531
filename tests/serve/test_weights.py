"""Weights that are kept, and served again."""

from pathlib import Path

import numpy as np
import pytest
import torch

import cawn
from cawn.errors import QueryError, StorageError
from cawn.serve.weights import KeptWeights
from small_stream import TRAINED


def changed(predictor: cawn.LinkPredictor) -> dict[str, torch.Tensor]:
    return {name: value + 0.1 for name, value in predictor.snapshot().model.system.module.state_dict().items()}


def load(run: Path) -> cawn.LinkPredictor:
    return cawn.LinkPredictor.load(run, device="cpu", threads=1)


def ask(predictor: cawn.LinkPredictor) -> np.ndarray:
    found = predictor.score(["n0", "n1"], ["n20", "n21"], TRAINED + 50)
    assert isinstance(found, np.ndarray)
    return found


def test_weights_are_numbered_and_served_again(cycles: Path, tmp_path: Path) -> None:
    predictor, kept = load(cycles), KeptWeights(tmp_path / "weights")
    first = ask(predictor)
    assert kept.serve(predictor) is None
    weights, calibration = predictor.snapshot().model.system.module.state_dict(), predictor.calibration
    assert kept.keep(weights, calibration, links=7) == 0
    assert kept.keep(changed(predictor), calibration, links=9, evidence={"links": 500}) == 1
    assert kept.numbers() == [0, 1]
    kept.mark(1)
    assert kept.serve(predictor) == 1
    second = ask(predictor)
    assert (second != first).all()
    other = load(cycles)
    assert KeptWeights(tmp_path / "weights").serve(other) == 1  # after a restart
    assert ask(other).tolist() == second.tolist()
    assert kept.serve(other, 0) == 0
    assert ask(other).tolist() == first.tolist()
    assert kept.serving == 0
    _, about = kept.read(1)
    assert (about["links"], about["evidence"]) == (9, {"links": 500})
    assert about["when"]


def test_weights_in_use_keep_their_newer_calibration(cycles: Path, tmp_path: Path) -> None:
    predictor, kept = load(cycles), KeptWeights(tmp_path)
    kept.mark(kept.keep(predictor.snapshot().model.system.module.state_dict(), predictor.calibration.initial, links=1))
    before, version = predictor.calibration, predictor.version
    kept.serve(predictor)
    assert predictor.calibration is before
    assert predictor.version == version


def test_a_missing_number_is_refused(cycles: Path, tmp_path: Path) -> None:
    kept = KeptWeights(tmp_path)
    with pytest.raises(QueryError, match="no weights with the number 3; there are none"):
        kept.serve(load(cycles), 3)


def test_damage_is_found(cycles: Path, tmp_path: Path) -> None:
    predictor, kept = load(cycles), KeptWeights(tmp_path)
    kept.keep(changed(predictor), predictor.calibration)
    path = tmp_path / "0000.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(StorageError, match=r"0000.safetensors: damaged or missing"):
        kept.serve(predictor, 0)
    (tmp_path / "serving.json").write_text("{")
    with pytest.raises(StorageError, match=r"serving.json: damaged"):
        kept.serve(predictor)


def test_weights_of_another_model_do_not_fit(cycles: Path) -> None:
    predictor = load(cycles)
    before = ask(predictor)
    with pytest.raises(QueryError, match="do not fit"):
        predictor.replace_weights({"0.weight": torch.zeros(2, 2)})
    assert ask(predictor).tolist() == before.tolist()


def test_replaced_weights_are_saved_and_those_of_the_results_kept(cycles: Path, tmp_path: Path) -> None:
    predictor = load(cycles)
    tested = {
        name: value.numpy().copy() for name, value in predictor.snapshot().model.system.module.state_dict().items()
    }
    predictor.replace_weights(changed(predictor))
    predictor.append(["n0"], ["n20"], [TRAINED])
    predictor.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert ask(again).tolist() == ask(predictor).tolist()
    evaluated = again._record.evaluated if again._record is not None else None
    assert evaluated is not None
    assert all((evaluated[name] == value).all() for name, value in tested.items())


def test_queries_in_progress_keep_their_weights(cycles: Path) -> None:
    predictor = load(cycles)
    snapshot, before = predictor.snapshot(), ask(predictor)
    predictor.replace_weights(changed(predictor))
    ends = predictor._question(["n0", "n1"], ["n20", "n21"], TRAINED + 50)[1]
    assert snapshot.calibration.probability(snapshot.scorer(*ends), ends[2]).tolist() == before.tolist()
    assert (ask(predictor) != before).all()
