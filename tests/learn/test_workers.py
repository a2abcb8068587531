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
import torch

import cawn
from cawn.data import laws
from cawn.learn import workers
from cawn.learn.field.jobs import Job
from cawn.learn.runs import read_checkpoint, read_record
from cawn.learn.workers import Call, Outcome, Workers, call_here, read_links, write_links
from cawn.systems.rates import RatesSettings

CONFIG = RatesSettings(epochs=2, batch_size=64)
OPTIONS = {
    "device": "cpu",
    "threads": 1,
    "split": None,
    "kinds": ("random",),
    "protocol": "strict",
    "clock": "strict",
}


@pytest.fixture(scope="module")
def events() -> cawn.Events:
    return laws.triadic_closure(30, 400, seed=0).events


def job(folder: Path, seed: int = 0) -> Job:
    return Job("rates", "transductive", seed, CONFIG, folder / f"seed-{seed}", baselines=False)


def ended_with(jobs: list[Job], events: cawn.Events, count: int = 2) -> dict[str, Outcome]:
    ended = {}
    with Workers(count, 1) as started:
        links = started.share("links", events)
        calls = [job.call(links, OPTIONS) for job in jobs]
        started.run(calls, lambda call, outcome: ended.update({call.name: outcome}))
    return ended


def echo(arguments: dict[str, object], send: workers.Send) -> object:
    """Called in other processes by the tests below."""
    send({"first": arguments["value"]})
    if arguments.get("fails"):
        raise ValueError("three\nlines\nlong")
    if arguments.get("refuses"):
        raise cawn.QueryError("no such thing")
    while arguments.get("waits"):
        time.sleep(0.01)
    return [arguments["value"], os.getpid()]


def echo_call(value: object, **more: object) -> Call:
    return Call(str(value), "test_workers:echo", {"value": value} | more)


@pytest.fixture
def reachable(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.mark.usefixtures("reachable")
def test_calls_are_taken_when_a_process_is_free_and_processes_are_used_again() -> None:
    ended, reports, taken = [], [], []

    def calls():
        for value in range(5):
            taken.append((value, len(ended)))
            yield echo_call(value)

    with Workers(1, 1) as started:
        started.run(calls(), lambda _, outcome: ended.append(outcome.value), lambda call, value: reports.append(value))
    assert [value for value, _ in ended] == list(range(5))
    assert len({process for _, process in ended}) == 1
    assert reports == [{"first": value} for value in range(5)]
    assert taken == [(value, value) for value in range(5)]


@pytest.mark.usefixtures("reachable")
def test_failures_do_not_end_the_other_calls() -> None:
    ended = {}
    calls = [echo_call(1, fails=True), echo_call(2, refuses=True), echo_call(3)]
    with Workers(1, 1) as started:
        started.run(calls, lambda call, outcome: ended.update({call.name: outcome}))
    assert ended["1"].failure == "ValueError: three"
    assert "Traceback" in ended["1"].errors
    assert ended["2"] == Outcome(failure="no such thing")
    assert ended["3"].value[0] == 3
    assert [call_here(call, lambda _: None).failure for call in calls] == ["ValueError: three", "no such thing", None]


@pytest.mark.usefixtures("reachable")
def test_one_call_can_be_stopped() -> None:
    ended = {}
    with Workers(1, 1) as started:
        started.run(
            [echo_call(1, waits=True), echo_call(2)],
            lambda call, outcome: ended.update({call.name: outcome}),
            lambda call, _: started.stop(call) if call.name == "1" else None,
        )
    assert (ended["1"].stopped, ended["2"].stopped) == (True, False)


def test_calls_at_a_time(monkeypatch) -> None:
    for cores, expected in ((16, (16, 4)), (2, (2, 2))):
        monkeypatch.setattr(workers, "num_cores", lambda cores=cores: cores)
        assert tuple(workers.default_jobs(torch.device(name)) for name in ("cpu", "cuda")) == expected


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
    assert ended_with([job(tmp_path)], events) == {"rates, transductive, seed 0": Outcome()}
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
    assert len(ended) == 3
    for outcome in ended.values():
        assert reason in outcome.failure


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


@pytest.mark.usefixtures("reachable")
def test_what_is_printed_at_the_start_of_a_process_is_ignored(tmp_path: Path, monkeypatch) -> None:
    printed = b'[1]\n\xff hello\n{"no": 1}\nand no line break'
    (tmp_path / "sitecustomize.py").write_text(f"import os; os.write(1, {printed!r})")
    monkeypatch.syspath_prepend(str(tmp_path))
    ended = []
    with Workers(1, 1) as started:
        started.run([echo_call(1)], lambda _, outcome: ended.append(outcome))
    assert ended[0].value[0] == 1


@pytest.mark.usefixtures("reachable")
def test_a_process_that_dies_between_two_calls_is_replaced() -> None:
    ended = []

    def calls():
        yield echo_call(1)
        (process,) = started._idle
        process.popen.kill()
        process.popen.wait()
        yield echo_call(2)

    with Workers(1, 1) as started:
        started.run(calls(), lambda _, outcome: ended.append(outcome))
    assert [outcome.value[0] for outcome in ended] == [1, 2]


@pytest.mark.usefixtures("reachable")
def test_calls_can_be_stopped_in_the_background_of_a_script() -> None:
    """A shell without job control starts background processes that ignore SIGINT, and so do theirs."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    ended = []
    try:
        with Workers(1, 1) as started:
            call = echo_call(1, waits=True)
            started.run([call], lambda _, outcome: ended.append(outcome), lambda call, _: started.stop(call))
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended[0].stopped
