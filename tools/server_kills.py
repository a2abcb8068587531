"""Kills a process that stores links with -9 at random moments under load, and counts lost and doubled links.

    python tools/server_kills.py --kills 200 --seed 0

A process recovers the state, takes links from three clients at once, acknowledges them through a pipe, and is killed;
then the next one is started. One client gives ids, one idempotency keys; both send again what was not acknowledged. The
third reads a source and goes on at the stored offset. Every fourth process is killed while it recovers, the others
after a random number of acknowledgements. In every fifth process, writing also fails: the disk is full, or a sync
fails, whether or not the links are on disk by then. Every link that was acknowledged must be there after each recovery,
and every link only once.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import numpy as np
import torch

import cawn
from cawn.serve.links import SubmittedLinks
from cawn.serve.state import open_state
from cawn.serve.writer import QueueFull, Receipt, Writer

CONFIG = cawn.Config(alpha=0.01, num_walks=4, length=1, dim=4, frequencies=2, epochs=1)
TRAINED, START = 400, 20_000  # links of the run, and the time of the first link that arrives
SIZE = 3  # links of a submission
CLIENTS = ("ids", "keys", "source")
IN_FLIGHT = 8  # submissions of a client
PAUSE = 0.002  # seconds between two submissions of a client
DELAY = 0.02  # seconds between an acknowledgement and a kill, at most
ACKNOWLEDGED, WRONG, STARTED = range(3)
MESSAGE = struct.Struct("<BBQ")  # kind, client, number of the submission


def submission(client: int, number: int) -> tuple[SubmittedLinks, dict[str, object]]:
    """The links of a submission, each with a time of its own, and the options to submit them with."""
    times = [START + (number * SIZE + i) * len(CLIENTS) + client for i in range(SIZE)]
    names = [f"n{t % 30}" for t in times], [f"n{t % 29}" for t in times]
    ids: list[str | int | None] | None = [f"link {t}" for t in times] if CLIENTS[client] == "ids" else None
    options = {"ids": {}, "keys": {"key": f"key {number}"}, "source": {"offsets": {"source": number}}}
    return SubmittedLinks(*names, list(times), None, ids), options[CLIENTS[client]]


class Server:
    """The process that is killed. It ends only if nothing more can be stored."""

    def __init__(self, run: Path, present: Path, pipe: int, acknowledged: list[set[int]], rng: random.Random) -> None:
        self.pipe, self.acknowledged, self.rng = pipe, acknowledged, rng
        sqlite3.connect = partial(sqlite3.connect, factory=Disk)  # type: ignore[assignment]
        self.predictor, self.store = open_state(run, device="cpu", threads=1)
        np.save(present, np.array([t for t in self.predictor.snapshot().events.t.tolist() if t >= START], np.int64))
        self.send(STARTED)
        self.writer = Writer(self.predictor, self.store, max_ahead=1e18)

    def send(self, kind: int, client: int = 0, number: int = 0) -> None:
        os.write(self.pipe, MESSAGE.pack(kind, client, number))

    def serve(self, *, faults: bool) -> None:
        self.writer.start()
        clients = [threading.Thread(target=self.submit_all, args=(i,), daemon=True) for i in range(len(CLIENTS))]
        for client in clients:
            client.start()
        if faults:
            time.sleep(self.rng.uniform(0, 0.2))
            Disk.rng, Disk.kind = self.rng, self.rng.choice(("full", "sync"))
        for client in clients:
            client.join()

    def submit_all(self, client: int) -> None:
        """Submit everything that is not acknowledged, in order, until nothing more can be stored."""
        slots = threading.Semaphore(1 if CLIENTS[client] == "source" else IN_FLIGHT)
        number = int(self.store.offsets.get("source") or 0) if CLIENTS[client] == "source" else 0
        while not self.store.failure:
            number += 1
            if CLIENTS[client] != "source" and number in self.acknowledged[client]:
                continue
            links, options = submission(client, number)
            slots.acquire()
            try:
                future = self.writer.submit(links, **options)  # type: ignore[arg-type]
            except (QueueFull, cawn.StorageError):
                slots.release()
                number -= 1
            else:
                future.add_done_callback(self.acknowledger(client, number, slots))
                if CLIENTS[client] == "source" and future.exception() is not None:
                    number -= 1
            time.sleep(PAUSE)

    def acknowledger(self, client: int, number: int, slots: threading.Semaphore):
        def done(future: Future[Receipt]) -> None:
            if future.exception() is None:
                receipt = future.result()
                added = receipt.added + (receipt.duplicates if CLIENTS[client] == "ids" else 0)
                self.send(ACKNOWLEDGED if added == SIZE else WRONG, client, number)
            slots.release()

        return done


class Disk(sqlite3.Connection):
    """A database on a disk that fails now and then, once `kind` is set: it is full, or its syncs fail."""

    kind, rng = "", random.Random()

    def execute(self, statement: str, *arguments: object) -> sqlite3.Cursor:
        if self.kind == "full" and statement.startswith(("INSERT", "COMMIT")) and self.rng.random() < 0.3:
            raise self._error("database or disk is full", "SQLITE_FULL")
        if self.kind == "sync" and statement == "COMMIT" and self.rng.random() < 0.1:
            if self.rng.random() < 0.5:
                super().execute(statement)
            raise self._error("disk I/O error", "SQLITE_IOERR_FSYNC")
        return super().execute(statement, *arguments)  # type: ignore[arg-type]

    @staticmethod
    def _error(text: str, name: str) -> sqlite3.OperationalError:
        error = sqlite3.OperationalError(text)
        error.sqlite_errorname = name
        return error


class Attack:
    """Starts processes, kills them, and keeps account of what they acknowledged."""

    def __init__(self, run: Path, folder: Path, seed: int, most: int) -> None:
        self.run, self.present, self.rng, self.most = run, folder / "present.npy", random.Random(seed), most
        self.acknowledged: list[set[int]] = [set() for _ in CLIENTS]
        self.counts: Counter[str] = Counter()
        self.recovery = 1.0  # seconds, as last measured

    def round(self, *, kill: bool, faults: bool = False, while_recovering: bool = False) -> None:
        """One process; without a kill, it ends when it has recovered."""
        self.timers: list[threading.Timer] = []
        self.present.unlink(missing_ok=True)
        expected = self.expected()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            self.in_child(writing, faults=faults, serve=kill)
        os.close(writing)
        if while_recovering:
            self.kill_later(child, self.recovery)
        started = self.follow(reading, child, self.rng.randint(1, self.most))
        os.close(reading)
        for timer in self.timers:
            timer.cancel()
            timer.join()
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        self.counts["kills"] += killed
        if not killed and os.WEXITSTATUS(status) != 0:
            raise RuntimeError("the process failed without being killed")
        if started:
            self.compare(expected)

    def kill_later(self, child: int, most: float) -> None:
        """Kill a process after a random time."""
        self.timers.append(threading.Timer(self.rng.uniform(0, most), os.kill, (child, signal.SIGKILL)))
        self.timers[-1].start()

    def in_child(self, pipe: int, *, faults: bool, serve: bool) -> None:
        status = 1
        try:
            rng = random.Random(self.rng.random())
            server = Server(self.run, self.present, pipe, self.acknowledged, rng)
            if serve:
                server.serve(faults=faults)
            status = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)

    def follow(self, pipe: int, child: int, most: int) -> bool:
        """Read what a process sends, and kill it soon after so many acknowledgements; returns whether it recovered."""
        started, rest, left, begun = False, b"", most, time.perf_counter()
        while content := os.read(pipe, 1 << 16):
            rest += content
            whole = len(rest) // MESSAGE.size * MESSAGE.size
            for kind, client, number in MESSAGE.iter_unpack(rest[:whole]):
                self.counts["wrong receipts"] += kind == WRONG
                if kind == STARTED:
                    started, self.recovery = True, time.perf_counter() - begun
                if kind == ACKNOWLEDGED:
                    self.acknowledged[client].add(number)
                    left -= 1
                    if left == 0:
                        self.kill_later(child, DELAY)
            rest = rest[whole:]
        return started

    def expected(self) -> set[int]:
        """The times of all links that were acknowledged."""
        numbers = ((client, number) for client, all_of in enumerate(self.acknowledged) for number in all_of)
        return {t for client, number in numbers for t in submission(client, number)[0].t}  # type: ignore[misc]

    def compare(self, expected: set[int]) -> None:
        times = np.load(self.present).tolist()
        self.counts["recoveries"] += 1
        self.counts["lost"] += len(expected.difference(times))
        self.counts["doubled"] += len(times) - len(set(times))


def train(folder: Path) -> Path:
    plain = cawn.laws.triadic_closure(30, TRAINED, seed=0).events
    events = cawn.Events(plain.src, plain.dst, plain.t, labels=[f"n{i}" for i in range(30)])
    cawn.train(
        events, CONFIG, out=folder / "run", quiet=True, task=cawn.Task(negatives=("random",)), device="cpu", threads=1
    )
    return folder / "run"


def warm_up(run: Path, folder: Path) -> None:
    """Compile once, here, what every process needs."""
    state = open_state(run, folder / "warm", device="cpu", threads=1)
    links, _ = submission(0, 1)
    state.predictor.extend([state.predictor.snapshot().model.form.arrivals(links.src, links.dst, links.t)])
    state.store.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=300, help="acknowledgements before a kill, at most")
    parser.add_argument("--run", type=Path, help="a run folder with links before t = 20,000; one is trained by default")
    options = parser.parse_args()
    torch.set_num_threads(1)  # threads of OpenMP do not survive a fork
    with tempfile.TemporaryDirectory() as folder:
        run = options.run or train(Path(folder))
        warm_up(run, Path(folder))
        attack = Attack(run, Path(folder), options.seed, options.most)
        rounds = 0
        while attack.counts["kills"] < options.kills:
            attack.round(kill=True, faults=rounds % 5 == 4, while_recovering=rounds % 4 == 3)
            rounds += 1
            if rounds % 20 == 0:
                print(dict(attack.counts), f"{len(attack.expected()):,} acknowledged", flush=True)
        attack.round(kill=False)
        counts = attack.counts
        print(
            f"{counts['kills']} kills, {counts['recoveries']} recoveries, {len(attack.expected()):,} links acknowledged"
        )
        print(f"lost {counts['lost']}, doubled {counts['doubled']}, wrong receipts {counts['wrong receipts']}")
        acknowledged = [len(each) for each in attack.acknowledged]
        return int(bool(counts["lost"] or counts["doubled"] or counts["wrong receipts"]) or not all(acknowledged))


if __name__ == "__main__":
    sys.exit(main())
