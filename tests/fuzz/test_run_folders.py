"""Damaged run folders: the right scores, or one line; never a crash, never other scores without a word."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.data import laws
from fuzz.mutations import answer_or_refusal, mutate, seeds

SRC, DST = [1, 2, 3, 70, 5], [4, 5, 6, 7, 5]  # 70 is no node
NOT_COVERED = ("metrics.jsonl", ".lock")  # nothing is computed from these


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "run"
    events = laws.triadic_closure(60, 800, seed=0).events
    config = cawn.Config(alpha="ladder", num_walks=8, dim=4, frequencies=2, epochs=1)
    cawn.train(events, config, out=folder, quiet=True, task=cawn.Task(negatives=("random",)), device="cpu")
    return folder


def ask(folder: Path, *, verify: bool) -> tuple[np.ndarray, list]:
    predictor = cawn.LinkPredictor.load(folder, device="cpu", verify=verify)
    t = predictor.score(SRC, DST, 9_000)
    return t, [(r.name, r.probability) for r in predictor.rank(1, 9_000, k=3)]


@pytest.mark.parametrize("verify", [True, False])
def test_damaged_run_folders(run: Path, tmp_path: Path, verify: bool) -> None:
    scores, ranked = ask(run, verify=True)
    refused = 0
    for seed in seeds(60):
        rng = np.random.default_rng([seed, verify])
        folder = tmp_path / "copy"
        shutil.copytree(run, folder)
        path = damage(folder, rng)
        found = answer_or_refusal(lambda: ask(folder, verify=verify), f"seed {seed}: {path}")  # noqa: B023
        shutil.rmtree(folder)
        refused += found is None
        if found is None or path.name in NOT_COVERED:
            continue
        if verify and path.suffix not in (".json", ".toml"):  # in those, a change may leave the meaning as it is
            np.testing.assert_allclose(found[0], scores, rtol=1e-5, err_msg=f"seed {seed}: {path}")
            assert [name for name, _ in found[1]] == [name for name, _ in ranked]
        if verify:
            assert np.isfinite(found[0]).all(), f"seed {seed}: {path}"
    assert refused > 0


def damage(folder: Path, rng: np.random.Generator) -> Path:
    """Damages, removes or replaces one file of a run; returns which."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = files[int(rng.integers(0, len(files)))]
    kind = rng.random()
    if kind < 0.05:
        path.unlink()
    elif kind < 0.1:
        shutil.copyfile(files[int(rng.integers(0, len(files)))], folder / "spare")
        (folder / "spare").replace(path)
    elif path.suffix == ".npy" and kind < 0.6:
        _change_array(path, rng)
    elif path.suffix == ".json" and kind < 0.7:
        _change_json(path, rng)
    else:
        path.write_bytes(mutate(path.read_bytes(), rng))
    return path


def _change_array(path: Path, rng: np.random.Generator) -> None:
    """A well-formed file with other contents, shape or type."""
    array = np.load(path, allow_pickle=False)
    kind = int(rng.integers(0, 5))
    if kind == 0 and array.size:
        array = array.copy()
        extremes = [-1, 0, 10**9, -(10**9)] if array.dtype.kind in "iu" else [np.nan, np.inf, -1e300, 0]
        value = extremes[int(rng.integers(0, 4))]
        array.reshape(-1)[int(rng.integers(0, array.size))] = np.array(value).astype(array.dtype)
    elif kind == 1:
        array = array[: len(array) // 2] if array.ndim else array
    elif kind == 2:
        array = array.astype(np.float64 if array.dtype.kind in "iu" else np.int64)
    elif kind == 3:
        array = array[..., None]
    else:
        array = np.sort(array.reshape(-1))[::-1].reshape(array.shape)
    np.save(path, array, allow_pickle=False)


def _change_json(path: Path, rng: np.random.Generator) -> None:
    """A well-formed file with one value changed, anywhere in it."""
    found = json.loads(path.read_text(encoding="utf-8"))
    places = []

    def collect(node: object) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in items:
            places.append((node, key))
            collect(value)

    collect(found)
    if places:
        node, key = places[int(rng.integers(0, len(places)))]
        others = [None, -1, 0, 1e308, float("nan"), "", "x", [], {}, True, [[]], 10**30, "../../x", "\x1b[31m"]
        node[key] = others[int(rng.integers(0, len(others)))]
    path.write_text(json.dumps(found), encoding="utf-8")
