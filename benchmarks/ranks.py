"""`python -m benchmarks ranks`: training by several processes against one.

On CPUs, two ranks with one thread each against one process with two threads. With `--device cuda`: one rank of NCCL
against one process without torch.distributed; two ranks that share the GPU against one process; and a model of the
speed-up on several GPUs, from the bytes that are added per step and the time of an update.

The processes are started once and take turns, so that a change of the machine's speed affects all.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.report import Row, show

SPEED_STEPS, ROUNDS = 40, 7
LOSS_STEPS = 20
# The model of an all-reduce over a ring: bytes per second of the slowest connection, and seconds per message.
INSIDE_A_HOST = 200e9, 5e-6  # NVLink, eight GPUs
BETWEEN_HOSTS = 20e9, 20e-6  # one network card of 200 Gbit/s per GPU
GPUS_OF_A_HOST = 8


class Processes:
    """`size` processes that train together when they are asked to; one without torch.distributed if `size` is 0."""

    def __init__(self, folder: Path, size: int, threads: int, device: str, **settings: Any) -> None:
        store = folder / f"store-{time.monotonic_ns()}"
        options = json.dumps({"threads": threads, "device": device, "settings": settings})
        command = [sys.executable, "-m", "benchmarks.ranks", "worker", options]
        self._processes = []
        for rank in range(max(size, 1)):
            places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
            joined = {name: str(number) for name, number in places.items()} | {"CAWN_RANKS_STORE": str(store)}
            environment = os.environ | {"OMP_NUM_THREADS": str(threads)} | (joined if size else {})
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self._processes.append(subprocess.Popen(command, env=environment, **pipes))
        self.facts = self._read_results()

    def run_steps(self, steps: int) -> dict[str, Any]:
        """Train this many more steps on all processes; returns the measurements of rank 0."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{steps}\n")
            process.stdin.flush()
        return self._read_results()

    def _read_results(self) -> dict[str, Any]:
        found = []
        for process in self._processes:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                sys.exit("benchmarks: a process has ended")
            found.append(json.loads(line))
        return found[0] | {"cpu": sum(answer.get("cpu", 0.0) for answer in found)}

    def close(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            process.wait()


def worker(options: dict[str, Any]) -> None:
    """Train as many steps as each line of the input says, and print the seconds they took and their losses."""
    import torch

    import cawn
    from cawn.learn.trainer import Trainer

    torch.set_num_threads(options["threads"])
    config = cawn.Config(**options["settings"])
    trainer = Trainer(network(), config, quiet=True, threads=options["threads"], device=options["device"])
    bucket = trainer.optimizer.bucket
    weights = sum(parameter.numel() for parameter in trainer.system.module.parameters())
    facts = {"bytes": 4 * (weights + 2) if bucket is None else bucket.flat.nbytes, "device": str(trainer.device)}
    print(json.dumps(facts), flush=True)

    def steps() -> Iterator[torch.Tensor]:
        epoch = 0
        while True:
            yield from trainer.steps(epoch, 0)
            epoch += 1

    def synchronise() -> None:
        if trainer.device.type == "cuda":
            torch.cuda.synchronize(trainer.device)

    updates = steps()
    for line in sys.stdin:
        start, used = time.perf_counter(), time.process_time()
        losses = []
        for _ in range(int(line)):
            losses.append(next(updates).clone())
            trainer._asked_to_stop()  # as the trainer does after each step
        synchronise()
        seconds = time.perf_counter() - start
        found = {"seconds": seconds, "cpu": time.process_time() - used, "losses": [float(loss) for loss in losses]}
        print(json.dumps(found), flush=True)


def network() -> Any:
    """UCI; a synthetic network of the same size where it is missing."""
    from benchmarks.engine import uci
    from cawn.data import laws

    return uci() if os.environ.get("CAWN_DATA") else laws.triadic_closure(1_900, 60_000, seed=0).events


class Comparison(NamedTuple):
    """Medians over rounds."""

    speed: float  # of the second relative to the first
    seconds: tuple[float, float]  # per step
    cpu: tuple[float, float]  # seconds of CPU time per step, of all processes together


def compare(first: Processes, second: Processes, steps: int, rounds: int) -> Comparison:
    for processes in (first, second):
        processes.run_steps(max(steps // 4, 2))  # compiles, and fills caches
    found = [(first.run_steps(steps), second.run_steps(steps)) for _ in range(rounds)]

    def medians(name: str) -> tuple[float, float]:
        one, other = (statistics.median(pair[i][name] for pair in found) / steps for i in (0, 1))
        return one, other

    speed = statistics.median(one["seconds"] / other["seconds"] for one, other in found)
    return Comparison(speed, medians("seconds"), medians("cpu"))


def largest_difference(first: Processes, second: Processes) -> float:
    """Between the losses of the same steps, relative."""
    losses = [processes.run_steps(LOSS_STEPS)["losses"] for processes in (first, second)]
    return max(abs(a - b) / abs(a) for a, b in zip(*losses, strict=True))


def on_cpus(folder: Path, batch: int, steps: int, rounds: int) -> list[Row]:
    one, two = (Processes(folder, size, threads, "cpu", batch_size=batch) for size, threads in ((0, 2), (2, 1)))
    found = compare(one, two, steps, rounds)
    for processes in (one, two):
        processes.close()
    (alone, together), (cpu_alone, cpu_together) = found.seconds, found.cpu
    detail = f"default preset, {batch} links per step: {batch / together:,.0f} and {batch / alone:,.0f} links/s"
    work = f"{1e3 * cpu_together:,.0f} and {1e3 * cpu_alone:,.0f} ms per step"
    exact = [Processes(folder, size, 1, "cpu", batch_size=batch, time=False) for size in (0, 2)]
    difference = largest_difference(exact[0], exact[1])
    for processes in exact:
        processes.close()
    return [
        Row("2 ranks of 1 thread against 1 process of 2 threads, speed", found.speed, 0.9, detail=detail),
        Row("the same, CPU time", cpu_together / cpu_alone, None, detail=work),
        Row("their losses, largest relative difference", difference, 1e-5, "<=", "", f"{LOSS_STEPS} steps, without f2"),
    ]


def on_a_gpu(folder: Path, device: str, batch: int, steps: int, rounds: int) -> list[Row]:
    rows = []
    alone, joined = (Processes(folder, size, 4, device, batch_size=batch) for size in (0, 1))
    found = compare(alone, joined, steps, rounds)
    per_update, per_joined = found.seconds
    held = joined.facts["bytes"]
    for processes in (alone, joined):
        processes.close()
    detail = f"{batch} links per step: {batch / per_joined:,.0f} and {batch / per_update:,.0f} links/s"
    rows.append(Row("update of one rank with NCCL against no ranks, time", 1 / found.speed, 1.02, "<=", detail=detail))
    shared = device if ":" in device else f"{device}:0"
    exact = [Processes(folder, size, 4, shared, batch_size=batch, time=False) for size in (0, 2)]
    rows.append(
        Row(
            "losses of two ranks on one GPU against one process, largest relative difference",
            largest_difference(exact[0], exact[1]),
            1e-3,
            "<=",
            "",
            f"{LOSS_STEPS} steps, bfloat16, without f2",
        )
    )
    slower = compare(exact[0], exact[1], steps, max(rounds // 2, 1)).speed
    rows.append(Row("speed of two ranks that share one GPU against one process", slower, None))
    for processes in exact:
        processes.close()
    return [*rows, *modelled(held, per_update, batch)]


def modelled(held: int, per_update: float, batch: int) -> list[Row]:
    """Speed-up if each GPU has a batch of this size: a model of the all-reduce, not a measurement."""
    rows = []
    for count in (2, 4, 8, 16, 64):
        bandwidth, latency = INSIDE_A_HOST if count <= GPUS_OF_A_HOST else BETWEEN_HOSTS
        reduce = 2 * (count - 1) / count * held / bandwidth + 2 * math.log2(count) * latency
        detail = f"all-reduce of {held / 1e3:,.0f} kB {reduce * 1e6:,.0f} us, update {per_update * 1e6:,.0f} us"
        what = f"MODEL, not measured: speed-up on {count} GPUs, {batch} links each"
        rows.append(Row(what, count * per_update / (per_update + reduce), None, detail=detail))
    return rows


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks ranks", description=__doc__)
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--batch", type=int, help="links per step; 128 on CPUs, 1024 on a GPU")
    parser.add_argument("--quick", action="store_true", help="a few steps: the bars do not apply")
    options = parser.parse_args(arguments)
    gpu = options.device.startswith("cuda")
    steps, rounds = (3, 2) if options.quick else (SPEED_STEPS * (5 if gpu else 1), ROUNDS)
    batch = options.batch or (1024 if gpu else 128)
    with tempfile.TemporaryDirectory(prefix="cawn-") as folder:
        if gpu:
            rows = on_a_gpu(Path(folder), options.device, batch, steps, rounds)
        else:
            rows = on_cpus(Path(folder), batch, steps, rounds)
    show("training by several processes", rows)
    return 0 if options.quick or all(row.passed for row in rows) else 1


if __name__ == "__main__":
    worker(json.loads(sys.argv[2]))
