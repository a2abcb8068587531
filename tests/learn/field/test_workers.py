"""Runs in processes of their own: the same results, stopped cleanly, and failures in one line."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas
import pytest

import cawn
from cawn.data import laws
from cawn.learn.field import workers
from cawn.learn.field.workers import Job, Workers, read_links, write_links
from cawn.learn.runs import read_checkpoint, read_record
from cawn.systems.rates import RatesSettings

CONFIG = RatesSettings(epochs=2, batch_size=64)
OPTIONS = {
    "device": "cpu",
    "threads": 1,
    "split": None,
    "kinds": ("random",),
    "protocol": "standard",
    "clock": "strict",
}


@pytest.fixture(scope="module")
def events() -> cawn.Events:
    return laws.triadic_closure(30, 400, seed=0).events


def job(folder: Path, seed: int = 0) -> Job:
    return Job("rates", "transductive", seed, CONFIG, folder / f"seed-{seed}", baselines=False)


def ended_with(jobs: list[Job], events: cawn.Events, count: int = 2) -> dict[int, object]:
    ended = {}
    with Workers(events, OPTIONS, count) as started:
        started.train(jobs, lambda job, failure: ended.update({job.seed: failure}), lambda _: None)
    return ended


def test_links_are_mapped(tmp_path: Path) -> None:
    links = {"src": [f"n{i % 7}" for i in range(40)], "dst": [f"m{i % 5}" for i in range(40)], "t": np.arange(40) * 7}
    events = cawn.read(pandas.DataFrame(links | {"kind": ["a", "b"] * 20}), msg="kind", categorical="kind")
    write_links(tmp_path / "links", events)
    found = read_links(tmp_path / "links")
    for name in ("src", "dst", "t", "msg", "labels"):
        assert (getattr(found, name) == getattr(events, name)).all()
    assert (found.columns, found.reading) == (events.columns, events.reading)
    assert not found.src.flags.owndata


def test_the_same_results_as_in_this_process(events, tmp_path: Path) -> None:
    expected = cawn.train(events, CONFIG, quiet=True, kinds=("random",), baselines=False)
    assert ended_with([job(tmp_path)], events) == {0: None}
    found = read_record(tmp_path / "seed-0")[0].results
    assert [row["model"] for row in found] == [row["model"] for row in expected.results]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (
            "import os; os.kill(os.getpid(), 9)",
            "was killed (signal 9), perhaps because memory ran out: lower batch_size",
        ),
        ("raise ValueError('three')", "ended with exit code 1: ValueError: three"),
        ("import os; os._exit(3)", "ended with exit code 3"),
    ],
)
def test_a_process_that_dies(events, tmp_path: Path, monkeypatch, program: str, reason: str) -> None:
    monkeypatch.setattr(workers, "_WORKER", program)
    ended = ended_with([job(tmp_path, seed) for seed in range(3)], events)
    assert sorted(ended) == [0, 1, 2]
    for failure in ended.values():
        assert reason in failure.reason


def test_ctrl_c_stops_every_process_with_a_checkpoint(events, tmp_path: Path) -> None:
    """Only the sweep gets the signal; a worker whose sweep dies stops as well."""
    script = (
        "import cawn, sys; from cawn import laws\n"
        "events = laws.triadic_closure(30, 400, seed=0).events\n"
        "cawn.compare(events, 'rates', seeds=int(sys.argv[2]), out=sys.argv[1], jobs=2, device='cpu',\n"
        "             settings={'rates': {'epochs': 100_000, 'patience': 100_000}})"
    )
    for sent, seeds in ((signal.SIGINT, 2), (signal.SIGKILL, 1)):
        folder = tmp_path / sent.name
        sweep = subprocess.Popen(
            [sys.executable, "-c", script, str(folder), str(seeds)], stderr=subprocess.PIPE, text=True
        )
        runs = [folder / "transductive" / "rates" / f"seed-{seed}" for seed in range(seeds)]
        wait_until(lambda runs=runs: all((run / "metrics.jsonl").exists() for run in runs))
        sweep.send_signal(sent)
        _, errors = sweep.communicate(timeout=600)
        wait_until(lambda runs=runs: not any(map(locked, runs)))
        states = [read_checkpoint(run / "checkpoint.safetensors")[1]["progress"] for run in runs]
        assert all(state["epoch"] > 0 for state in states)
        assert ("to continue, compare again" in errors) == (sent == signal.SIGINT)


def wait_until(holds, seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def locked(run: Path) -> bool:
    descriptor = os.open(run / ".lock", os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
