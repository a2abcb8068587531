"""Runs tests as on other CPUs: `make test-kernels`, or `python tools/kernel_types.py [--all] [--load N] [KIND ...]`.

The libraries for linear algebra and the compilers choose their code by the processor. Here it is chosen for them: each
kind of vector unit, with one thread and with two. What this processor cannot run is named and left out.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# OpenBLAS computes for NumPy; ATen, and MKL below it, for PyTorch; numba compiles for the processor it is told of.
KINDS = {
    "haswell": {"OPENBLAS_CORETYPE": "Haswell", "ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AVX2"},
    "zen": {"OPENBLAS_CORETYPE": "Zen", "ATEN_CPU_CAPABILITY": "avx2"},
    "skylakex": {"OPENBLAS_CORETYPE": "SkylakeX", "ATEN_CPU_CAPABILITY": "avx512", "MKL_CBWR": "AVX512"},
    "sandybridge": {"OPENBLAS_CORETYPE": "Sandybridge", "ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "AVX"},
    "nehalem": {"OPENBLAS_CORETYPE": "Nehalem", "ATEN_CPU_CAPABILITY": "default", "NUMBA_CPU_NAME": "nehalem"},
    "generic": {
        "OPENBLAS_CORETYPE": "Prescott",
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "COMPATIBLE",
        "NUMBA_CPU_NAME": "generic",
    },
}

NUMERICAL = [
    "data/test_attributes.py",
    "data/test_networks.py",
    "explain/test_game.py",
    "explain/test_law.py",
    "kernels",
    "learn/test_calibration.py",
    "learn/test_metrics.py",
    "learn/test_trainer.py",
    "systems",
    "test_examples.py",
    "test_predictor.py",
    "test_same_question.py",
    "walks",
]

PROBE = """
import hashlib, numpy, torch
from threadpoolctl import threadpool_info
a = numpy.random.default_rng(0).normal(size=(300, 77)).astype(numpy.float32)
t = torch.from_numpy(a)
blas = {found["architecture"] for found in threadpool_info() if found["internal_api"] == "openblas"}
digests = [hashlib.sha256(x.tobytes()).hexdigest()[:6] for x in (a[:99] @ a[99:].T, (t[:99] @ t[99:].T).numpy())]
print(*sorted(blas), torch.backends.cpu.get_cpu_capability(), *digests)
"""


def environment(kind: str, threads: int) -> dict[str, str]:
    counts = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    cache = {"NUMBA_CACHE_DIR": str(ROOT / ".numba" / kind)} if "NUMBA_CPU_NAME" in KINDS[kind] else {}
    return os.environ | KINDS[kind] | counts | cache


def described(kind: str) -> str | None:
    """The code that NumPy and PyTorch chose, with digests of what they compute; None where it does not run."""
    command = [sys.executable, "-c", PROBE]
    done = subprocess.run(command, env=environment(kind, 1), capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


@contextmanager
def busy(programs: int) -> Iterator[None]:
    """So many other programs on the same cores."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(programs)]
    try:
        yield
    finally:
        for program in started:
            program.kill()
            program.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; all unless given")
    parser.add_argument("--all", action="store_true", help="every test, not only those of numbers")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--load", type=int, default=0, help="run so many other programs at the same time")
    parser.add_argument("--tests", nargs="+", help="these instead")
    options = parser.parse_args()
    if unknown := set(options.kinds) - set(KINDS):
        parser.error(f"no kind {min(unknown)!r}; there are {', '.join(KINDS)}")
    tests = options.tests or (["tests"] if options.all else [f"tests/{name}" for name in NUMERICAL])
    workers = ["--numprocesses", "logical", "--maxprocesses", "8", "--dist", "loadfile", "--no-loadscope-reorder"]
    failed = False
    with busy(options.load):
        for kind in options.kinds or KINDS:
            found = described(kind)
            if found is None:
                print(f"{kind}: not on this processor", flush=True)
                continue
            for threads in options.threads:
                print(f"{kind}, {threads} threads: {found}", flush=True)
                command = [sys.executable, "-m", "pytest", *workers, *tests]
                done = subprocess.run(command, env=environment(kind, threads), cwd=ROOT, check=False)
                failed |= done.returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
