"""What `cawn info` says of a run: finished, unfinished or updated."""

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import cawn
from cawn.cli.reports import show_info
from cawn.data.hashing import write_sealed
from cawn.learn.run_info import run_info
from cawn.learn.runs import begin_run, read_report
from cawn.learn.store import stamp_of
from networks import random_events

CONFIG = cawn.Config(num_walks=2, length=1, dim=2, frequencies=1, alpha=(0.1,), epochs=1, batch_size=64)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("info")
    days = np.datetime64("2024-01-01") + np.arange(120)
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 8, (120, 2))
    rows = [f"ann {u},bob {v},{day}" for (u, v), day in zip(pairs, days, strict=True)]
    (folder / "edges.csv").write_text("rater,ratee,day\n" + "\n".join(rows) + "\n")
    events = cawn.read(folder / "edges.csv", src="rater", dst="ratee", time="day")
    cawn.train(events, CONFIG, out=folder / "run", quiet=True, task=cawn.Task(negatives=("random",)), device="cpu")
    return folder / "run"


def shown(info: dict) -> str:
    console = Console(file=io.StringIO(), width=120)
    show_info(info, console)
    return console.file.getvalue()


def test_a_finished_run(run: Path) -> None:
    import platform

    info = run_info(run)
    assert json.loads(json.dumps(info)) == info
    assert info["finished"]
    assert (info["data"]["links"], info["data"]["nodes"]) == (120, 16)
    assert (info["data"]["first"], info["data"]["last"]) == ("2024-01-01", "2024-04-29")
    assert [info["data"]["reading"][role] for role in ("src", "dst", "time")] == ["rater", "ratee", "day"]
    assert info["changed"] == {
        "num_walks": 2, "length": 1, "alpha": [0.1], "dim": 2, "frequencies": 1, "epochs": 1, "batch_size": 64
    }  # fmt: skip
    assert info["training"]["epochs"] == info["training"]["at_most"] == 1
    assert info["results"] == json.loads((run / "results.json").read_text())
    assert info["versions"]["cawn"] == cawn.__version__
    assert info["versions"]["python"] == platform.python_version()
    assert info["files"]["weights.safetensors"] == (run / "weights.safetensors").stat().st_size
    text = shown(info)
    for words in (
        "finished",
        "120 links, 16 nodes",
        "2024-01-01 to 2024-04-29",
        "src rater; dst ratee; time day",
        "transductive, seed 0",
        "alpha=[0.1], dim=2",
        "1 of at most 1; best is 1",
        "temperature",
        f"cawn {cawn.__version__}",
        "against random negatives",
        "recency",
        info["weights"],
        info["data"]["digest"],
    ):
        assert words in text


def test_links_added_since_training_are_told_apart(run: Path, tmp_path: Path) -> None:
    predictor = cawn.LinkPredictor.load(run, device="cpu")
    predictor.update(cawn.Events([0], [1], [1_714_435_200], labels=["ann 1", "bob 1"]))
    predictor.save(tmp_path / "later")
    info = run_info(tmp_path / "later")
    assert (info["data"]["links"], info["data"]["links_trained_on"]) == (121, 120)
    assert "1 links" in next(line for line in shown(info).splitlines() if line.startswith("added since"))


def test_an_unfinished_run(tmp_path: Path) -> None:
    events = random_events(0)
    facts = {"alpha": [0.5], "unit": 1.0}
    description = {"system": "cawn", "task": "inductive", "seed": 3, "facts": facts, "links": len(events)}
    begin_run(tmp_path / "run", CONFIG, events, description).release()
    info = run_info(tmp_path / "run")
    assert not info["finished"]
    assert info["results"] is None
    assert info["training"]["best"] is None
    text = shown(info)
    assert "not finished; to resume: cawn train --resume -o RUN" in text
    assert "0 of at most 1" in text


def test_no_links_are_read(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "run")
    path = next(copy.glob("network-*/src.npy"))
    path.write_bytes(path.read_bytes()[:-4] + b"\xff\xff\xff\x7f")
    assert run_info(copy) == run_info(run) | {"run": str(copy)}
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(cawn.StorageError, match=r"src.npy: missing or damaged; the run must be trained again$"):
        run_info(copy)
    np.save(path, np.zeros(3, np.int32))
    with pytest.raises(cawn.StorageError, match="damaged"):
        run_info(copy)


def test_results_that_make_no_sense(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "run")
    (copy / "results.json").write_text('[{"links": 3}]')
    report = read_report(copy) | {"results": stamp_of((copy / "results.json").read_bytes())}
    write_sealed(copy / "report.json", report)
    with pytest.raises(cawn.StorageError, match=r"results\.json: damaged; resume the run"):
        run_info(copy)


def test_names_of_columns_cannot_reach_the_terminal_raw(run: Path) -> None:
    info = run_info(run)
    info["data"]["reading"] = info["data"]["reading"] | {"src": "rater\x1b[2J"}
    assert "\x1b" not in shown(info)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(cawn.StorageError, match="holds no run"):
        run_info(tmp_path)
