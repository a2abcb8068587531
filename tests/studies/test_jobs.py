"""Calls in other processes: the same results, stopped cleanly, and failures in one line."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

import cawn
from called_jobs import echo_job
from cawn.data import laws
from cawn.learn.runs import read_checkpoint, read_record
from cawn.learn.shared_links import read_links, write_links
from cawn.studies import jobs
from cawn.studies.jobs import Job, Outcome
from cawn.studies.trainings import PlannedRun
from cawn.systems.rates import RatesSettings


def outcomes(calls: Iterable[Job], count: int = 1) -> dict[str, Outcome]:
    ended = {}
    jobs.run(calls, count, lambda job, outcome: ended.update({job.name: outcome}), threads=1)
    return ended


def test_calls_are_taken_when_a_process_is_free_and_processes_are_used_again() -> None:
    ended, reports, taken = [], [], []

    def calls():
        for value in range(5):
            taken.append((value, len(ended)))
            yield echo_job(value)

    jobs.run(calls(), 1, lambda _, outcome: ended.append(outcome.value), lambda _, value, stop: reports.append(value))
    assert [value for value, _ in ended] == list(range(5))
    assert len({process for _, process in ended}) == 1
    assert reports == [{"first": value} for value in range(5)]
    assert taken == [(value, value) for value in range(5)]


@pytest.mark.parametrize("count", [0, 1])
def test_failures_do_not_end_the_other_calls(count: int) -> None:
    ended = outcomes([echo_job(1, "bug"), echo_job(2, "refused"), echo_job(3)], count)
    assert ended["1"].failure == "ValueError: three"
    assert "Traceback" in ended["1"].errors
    assert ended["2"] == Outcome(failure="no such thing")
    assert (ended["3"].value[0], ended["3"].value[1] == os.getpid()) == (3, count == 0)


def test_a_process_that_dies_fails_one_call() -> None:
    ended = outcomes([echo_job(1, "killed", remedy="lower dim"), echo_job(2), echo_job(3, "exit"), echo_job(4)], 2)
    assert ended["1"].failure == "the process was killed (signal 9), perhaps because memory ran out: lower dim"
    assert ended["3"].failure.startswith("the process ended with exit code 3")
    assert [ended[name].value[0] for name in ("2", "4")] == [2, 4]


@pytest.mark.parametrize("ignored", [False, True], ids=["", "in the background of a script"])
def test_one_call_can_be_stopped(ignored: bool) -> None:
    """A shell without job control starts background processes that ignore SIGINT, and so do theirs."""
    before, ended = signal.getsignal(signal.SIGINT), {}
    if ignored:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        jobs.run(
            [echo_job(1, "waits"), echo_job(2)],
            1,
            lambda job, outcome: ended.update({job.name: outcome}),
            lambda job, _, stop: stop() if job.name == "1" else None,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert (ended["1"].stopped, ended["2"].stopped) == (True, False)


def test_calls_at_a_time(monkeypatch) -> None:
    for cores, expected in ((16, (16, 4)), (2, (2, 2))):
        monkeypatch.setattr(jobs, "num_cores", lambda cores=cores: cores)
        assert tuple(jobs.default_jobs(torch.device(name)) for name in ("cpu", "cuda")) == expected


def test_links_are_mapped(tmp_path: Path) -> None:
    links = {"src": [f"n{i % 7}" for i in range(40)], "dst": [f"m{i % 5}" for i in range(40)], "t": np.arange(40) * 7}
    events = cawn.read(pandas.DataFrame(links | {"kind": ["a", "b"] * 20}), msg="kind", categorical="kind")
    write_links(tmp_path / "links", events)
    found = read_links(tmp_path / "links")
    for name in ("src", "dst", "t", "msg", "labels"):
        assert (getattr(found, name) == getattr(events, name)).all()
    assert (found.columns, found.reading) == (events.columns, events.reading)
    assert not found.src.flags.owndata


def test_the_same_results_as_in_this_process(tmp_path: Path) -> None:
    events, config = laws.triadic_closure(30, 400, seed=0).events, RatesSettings(epochs=2, batch_size=64)
    task = cawn.Task(negatives=("random",), baselines=False)
    expected = cawn.train(events, config, quiet=True, task=task)
    write_links(tmp_path / "links", events)
    planned = PlannedRun(task, 0, config, tmp_path / "run")
    job = planned.job(str(tmp_path / "links"), {"device": "cpu", "threads": 1, "quiet": True})
    (outcome,) = outcomes([job]).values()
    found = read_record(tmp_path / "run")[0].results
    assert found == outcome.value.results
    pooled = {"baseline": False, "metric": ("auc", "ap")}  # fewer links are ranked in this process
    assert list(found.where(**pooled)) == list(expected.results.where(**pooled))


def test_every_process_writes_a_checkpoint_however_the_comparison_ends(tmp_path: Path) -> None:
    """Only the comparison gets the signal; a process whose comparison dies stops as well."""
    script = (
        "import cawn, sys; from cawn import laws; from cawn.systems.rates import RatesSettings\n"
        "events = laws.triadic_closure(30, 400, seed=0).events\n"
        "rates = RatesSettings(epochs=100_000, patience=100_000)\n"
        "cawn.compare(events, rates, seeds=int(sys.argv[2]), out=sys.argv[1], jobs=int(sys.argv[3]), device='cpu')"
    )
    for sent, seeds, count in (
        (signal.SIGINT, 2, 2),
        (signal.SIGKILL, 1, 1),
        (signal.SIGTERM, 1, 1),
        (signal.SIGTERM, 1, 0),
    ):
        folder = tmp_path / f"{sent.name}-{count}"
        command = [sys.executable, "-c", script, str(folder), str(seeds), str(count)]
        comparing = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        runs = [folder / "transductive" / "rates" / f"seed-{seed}" for seed in range(seeds)]
        wait_until(lambda runs=runs: all((run / "metrics.jsonl").exists() for run in runs))
        comparing.send_signal(sent)
        _, errors = comparing.communicate(timeout=600)
        wait_until(lambda runs=runs: not any(map(locked, runs)))
        states = [read_checkpoint(run / "checkpoint.safetensors")[1]["progress"] for run in runs]
        assert all(state["epoch"] > 0 for state in states)
        assert ("to continue, compare again" in errors) == (sent != signal.SIGKILL)


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


def test_what_is_printed_at_the_start_of_a_process_is_ignored(tmp_path: Path, monkeypatch) -> None:
    printed = b'[1]\n\xff hello\n{"no": 1}\nand no line break'
    (tmp_path / "sitecustomize.py").write_text(f"import os; os.write(1, {printed!r})")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert outcomes([echo_job(1)])["1"].value[0] == 1
