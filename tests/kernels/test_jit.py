"""Threads that cannot be meant are refused; compiled code is kept where it can be, and nowhere where it cannot."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cawn
from cawn.checks import MAX_THREADS
from cawn.cli.options import use_threads
from cawn.kernels.jit import _temporary_cache
from cawn.kernels.threads import num_cores, num_threads

EVENTS = cawn.Events([0, 1, 2], [1, 2, 0], [1, 2, 3])
HISTORY = cawn.History(EVENTS, 0.1)
WALKS = HISTORY.sample([0], 3, seed=0)
TAKING_THREADS = (
    use_threads,
    lambda threads: cawn.History(EVENTS, 0.1, threads=threads),
    lambda threads: HISTORY.sample([0], 3, seed=0, threads=threads),
    lambda threads: cawn.anonymize(WALKS, WALKS, threads=threads),
    lambda threads: cawn.Trainer(EVENTS, cawn.Config(), threads=threads, device="cpu"),
    lambda threads: cawn.LinkPredictor.load("no such run", threads=threads),
    lambda threads: cawn.evaluate("no such run", threads=threads),
)


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2", MAX_THREADS + 1, 3_000_000_000, float("nan")])
def test_threads_that_cannot_be_meant(threads: object) -> None:
    for place in TAKING_THREADS:
        with pytest.raises(cawn.QueryError, match=r"threads is .*give a number of cores from 1 to 1,024"):
            place(threads)


def test_no_more_threads_than_cores() -> None:
    assert num_threads(MAX_THREADS) == num_threads(None) == num_cores()
    assert num_threads(1) == 1


SCRIPT = """
from cawn.walks.kernels import counts
from cawn.kernels.jit import njit

@njit
def doubled(x):
    return 2 * x

assert doubled(21) == 42
print(type(doubled._cache).__name__, doubled._cache.cache_path)
"""


FIRST_USE = """
import sys
from numba.core.dispatcher import Dispatcher
import cawn
from cawn.data import laws

events = laws.triadic_closure(60, 600, seed=0).events
config, task = cawn.Config(epochs=1, num_walks=4, dim=8), cawn.Task(negatives=("random",))
trained = cawn.train(events, config, task=task, quiet=True)
cawn.LinkPredictor.of(trained).score(events.labels[0], events.labels[1], events.t[-1] + 1)
walks = cawn.History(events, 0.1).sample([0, 1], events.t[-1], num_walks=4, length=2, seed=0)
cawn.anonymize(walks, walks)
modules = [module for name, module in sys.modules.items() if name.startswith("cawn.")]
compiled = {value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)}
for kernel in compiled:
    if kernel.signatures and not kernel.targetoptions.get("no_cpython_wrapper"):  # Python can call it
        print(f"{kernel.py_func.__name__}:{len(kernel.signatures)}")
"""


def test_what_python_calls_is_compiled_for_one_type_of_arguments() -> None:
    """Whoever samples, trains and scores for the first time waits until all of it is compiled."""
    done = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True, check=True)
    numbers = dict(each.split(":") for each in done.stdout.split())
    assert numbers.keys() >= {"sample_walks", "find_prefixes", "fill_rates", "sequence_features", "fill_sums"}
    assert [name for name, number in numbers.items() if number != "1"] == []


@pytest.mark.parametrize("temporary", [True, False])
def test_without_a_folder_for_compiled_code(temporary: bool, tmp_path: Path) -> None:
    """A read-only install and no home, as any user sees them: files stand where folders would have to be made."""
    package = tmp_path / "cawn"
    shutil.copytree(Path(cawn.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    for folder in (tmp_path, package, *(path for path in package.rglob("*") if path.is_dir())):
        (folder / "__pycache__").touch()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    if not temporary:
        (scratch / f"cawn-{os.getuid()}").touch()
    nowhere = str(tmp_path / "cawn" / "__pycache__" / "none")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "PYTHON"))}
    places = {"HOME": nowhere, "XDG_CACHE_HOME": nowhere, "TMPDIR": str(scratch), "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, script], env=plain | places, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert str(scratch) in done.stdout if temporary else done.stdout.startswith("NullCache")


def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"cawn-{os.getuid()}"

    def found() -> str:
        _temporary_cache.cache_clear()
        return _temporary_cache()

    try:
        assert found() == str(folder)
        assert folder.stat().st_mode & 0o777 == 0o700
        folder.chmod(0o770)
        assert found() == ""
        folder.rmdir()
        folder.symlink_to(tmp_path)
        assert found() == ""
    finally:
        _temporary_cache.cache_clear()
