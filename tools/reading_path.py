"""The files somebody reads to follow one training step: those whose functions run between two updates of an epoch.

    python tools/reading_path.py           # on the CPU
    python tools/reading_path.py --gpu     # on a GPU, or in Triton's interpreter where there is none

A small training is profiled in all threads from its third update to its sixth, away from the beginning and the end of
the epoch. Compiled functions do not report their calls; those named by a function that ran are counted as called.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import threading
import warnings
from collections import defaultdict
from collections.abc import Iterator
from inspect import CO_GENERATOR
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

FIRST, LAST = 3, 6  # the updates to profile between
CPU = {"alpha": "ladder", "num_walks": 8, "dim": 8, "frequencies": 2, "batch_size": 32, "epochs": 1}
GPU = {"alpha": 0.1, "num_walks": 2, "length": 1, "dim": 4, "frequencies": 1, "batch_size": 4, "epochs": 1}


class Recorded(BaseException):
    """Ends the training once enough has been seen."""


class Recorder:
    """The functions of the package that run, by module."""

    def __init__(self) -> None:
        self.on, self.updates = False, 0
        self.functions: dict[str, set[str]] = defaultdict(set)
        self._seen: set[tuple[str, CodeType]] = set()
        self._stack: list[FrameType] = []

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        if self.on and event == "call":
            self.add(frame.f_code, frame.f_globals)

    def update(self, *_: object) -> None:
        """Called after each update of the weights."""
        self.updates += 1
        if self.updates == FIRST:
            self.on, self._stack = True, list(stack())
        elif self.updates == LAST:
            self.on = False
            frames = list(stack())
            loop = next(frame for frame in frames if frame in self._stack and not frame.f_code.co_flags & CO_GENERATOR)
            for frame in frames[: frames.index(loop) + 1]:  # the loop over the updates has been entered long before
                self.add(frame.f_code, frame.f_globals)
            raise Recorded

    def add(self, code: CodeType, names: dict[str, Any]) -> None:
        module = names.get("__name__") or ""
        if module.split(".")[0] != "cawn" or (module, code) in self._seen:
            return
        self._seen.add((module, code))
        self.functions[module].add(code.co_qualname)
        for function in compiled_functions(names_in(code), names):
            self.add(function.__code__, function.__globals__)


def stack() -> Iterator[FrameType]:
    """The frames that are being executed, the innermost first."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def compiled_functions(used: set[str], names: dict[str, Any]) -> Iterator[Any]:
    """The Python functions behind those compiled by numba and Triton that a function calls by name."""
    modules = [value for name in used if isinstance(value := names.get(name, sys.modules.get(name)), ModuleType)]
    found = [names.get(name) for name in used]
    found += [getattr(module, name, None) for module in modules if module.__name__.startswith("cawn") for name in used]
    for function in found:
        original = getattr(function, "py_func", None) or getattr(function, "fn", None)
        while hasattr(original, "fn"):  # Triton's, wrapped once more where the launch is tuned
            original = original.fn
        if hasattr(original, "__code__"):
            yield original


def names_in(code: CodeType) -> set[str]:
    """The names that a function uses, with the functions inside it."""
    inner = (names_in(part) for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*inner)


def record(gpu: bool) -> Recorder:
    """Train a few updates and record what runs."""
    import numpy as np
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    import cawn

    rng = np.random.default_rng(0)
    links = 60 if gpu else 1_000
    events = cawn.Events(*rng.integers(0, 30, (2, links)), np.arange(links))
    config = cawn.Config(**(GPU if gpu else CPU))
    device = "cpu"
    if gpu and torch.cuda.is_available():
        device = "cuda"
    elif gpu:
        train_in_the_interpreter(torch.device("cpu"))
    recorder = Recorder()
    hook = register_optimizer_step_post_hook(recorder.update)
    threading.setprofile(recorder.profile)
    sys.setprofile(recorder.profile)
    try:
        cawn.train(events, config, device=device, quiet=True, task=cawn.Task(negatives=("random",)))
    except Recorded:
        pass
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        hook.remove()
    if recorder.updates < LAST:
        sys.exit(f"reading_path: only {recorder.updates} updates were made")
    return recorder


def train_in_the_interpreter(device: Any) -> None:
    """Lead training to the GPU's kernels, with the CPU as their device."""
    from cawn.caw.gpu import DeviceEngine
    from cawn.caw.system import CawnSystem

    engines: dict[Any, DeviceEngine] = {}

    def engine(system: CawnSystem, batcher: Any) -> DeviceEngine:
        if batcher not in engines:
            engines[batcher] = DeviceEngine(system.module, batcher, device)
        return engines[batcher]

    CawnSystem.engine = engine


def show(recorder: Recorder, functions: bool) -> None:
    root = Path(sys.modules["cawn"].__file__ or "").parent
    total = 0
    for module in sorted(recorder.functions):
        path = Path(sys.modules[module].__file__ or "")
        count = len(path.read_text(encoding="utf-8").splitlines())
        total += count
        print(f"{count:5}  {path.relative_to(root)}")
        if functions:
            print(f"         {', '.join(sorted(recorder.functions[module]))}")
    print(f"{total:5}  lines in {len(recorder.functions)} files")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true", help="a step on the GPU instead of the CPU")
    parser.add_argument("--functions", action="store_true", help="name the functions too")
    options = parser.parse_args()
    if options.gpu:
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            os.environ["TRITON_INTERPRET"] = "1"
    warnings.simplefilter("ignore")
    show(record(options.gpu), options.functions)


if __name__ == "__main__":
    main()
