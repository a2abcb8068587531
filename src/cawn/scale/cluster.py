"""Ray: one started for a command, or an existing cluster, and how many workers of which size it can hold."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from cawn.checks import check_integer, check_threads
from cawn.errors import DeviceError, QueryError, brief, one_line, reason
from cawn.kernels.threads import num_cores

_CONNECT_TIMEOUT = 10.0  # seconds
_TRIAL_TIMEOUT = 60  # seconds
_OBJECT_STORE = 256 << 20  # bytes; only descriptions of partitions pass through it
_LONGEST_FOLDER = 40  # characters of the temporary folder: the paths of Ray's sockets must not exceed 107
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # workers without a GPU keep CUDA_VISIBLE_DEVICES
    "RAY_BACKEND_LOG_LEVEL": "fatal",
}


@dataclass(frozen=True, slots=True)
class Pool:
    """The size of a pool of workers, and what each of them may use."""

    workers: int
    threads: int
    gpus: float
    device: str

    def remote_options(self) -> dict[str, Any]:
        """For `map_batches`. Libraries read the number of threads from the environment when they are loaded."""
        numbers = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(self.threads))
        return {
            "num_cpus": self.threads,
            "num_gpus": self.gpus or None,
            "runtime_env": {"env_vars": numbers},
            "max_restarts": -1,
            "max_task_retries": 3,  # of one partition, so that one that kills its worker ends the job
        }


def import_ray() -> Any:
    """The package `ray` with Ray Data, an optional dependency."""
    try:
        with warnings.catch_warnings(action="ignore"):
            import ray
            import ray.data
    except ImportError as error:
        raise QueryError("Ray is not installed; install it with: pip install 'cawn[scale]'") from error
    return ray


@contextmanager
def connected(address: str | None = None, workers: int | None = None) -> Iterator[Any]:
    """Ray, connected: as it is if it is connected already, else to a cluster, else to one started here.

    Args:
        address: HOST:PORT of a cluster, or "auto" for the one that this machine belongs to. $RAY_ADDRESS by default; if
            that is not set either, Ray is started on this machine, and stopped on exit.
        workers: The number of CPUs of a Ray that is started here, if there are fewer cores.
    """
    address = address or os.environ.get("RAY_ADDRESS") or None
    with ExitStack() as stack:
        stack.enter_context(_environment(_SETTINGS))  # before Ray is imported
        ray = import_ray()
        if not ray.is_initialized():
            stack.enter_context(warnings.catch_warnings(action="ignore"))
            stack.enter_context(_environment({} if address else _local_settings()))
            folder = None if address else stack.enter_context(_temporary_folder())
            stack.callback(_shut_down, ray)
            with _silent():
                if address:
                    _connect(ray, address)
                else:
                    _start(ray, max(num_cores(), workers or 1), str(folder))
        yield ray


def _shut_down(ray: Any) -> None:
    """Stop Ray and wait for the processes that it started here."""
    node = getattr(ray._private.worker, "_global_node", None)
    processes = [info.process for infos in getattr(node, "all_processes", {}).values() for info in infos]
    with warnings.catch_warnings(action="ignore"):
        ray.shutdown()
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_CONNECT_TIMEOUT)


def _local_settings() -> dict[str, str]:
    """The module path for workers, and a token, which Ray would otherwise store in the home folder."""
    modules = os.pathsep.join(path for path in sys.path if path)
    return {"PYTHONPATH": modules, "RAY_AUTH_TOKEN": secrets.token_hex(32)}


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """Environment variables with these values; settings of Ray that the user has given are kept."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update({name: v for name, v in settings.items() if before[name] is None or name == "PYTHONPATH"})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _silent() -> Iterator[None]:
    """Drops what native code prints to standard error: Ray logs there before its log level takes effect."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextmanager
def _temporary_folder() -> Iterator[str]:
    short = len(tempfile.gettempdir()) <= _LONGEST_FOLDER - len("/cawn-12345678")
    with tempfile.TemporaryDirectory(
        prefix="cawn-", dir=None if short else "/tmp", ignore_cleanup_errors=True
    ) as folder:
        yield folder


def _start(ray: Any, cpus: int, folder: str) -> None:
    try:
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE,
            _node_ip_address="127.0.0.1",
            _temp_dir=folder,
            **_QUIET,
        )
    except Exception as error:  # Ray raises many kinds
        raise QueryError(f"Ray could not be started: {_first_line(error)}") from error


def _connect(ray: Any, address: str) -> None:
    if "://" in address:
        remedy = "run the command on a machine of the cluster (ray job submit) and give --address auto"
        raise QueryError(f"--address {brief(address)}: Ray clients are not supported; {remedy}")
    if address != "auto":
        _check_reachable(address)
    _try_out(address)
    try:
        ray.init(address=address, **_QUIET)
    except Exception as error:  # Ray raises many kinds
        raise QueryError(f"--address {address}: cannot be used ({_first_line(error)})") from error


_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
_TRIAL = """
import sys, ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level="CRITICAL")
except Exception as error:
    sys.exit("cawn:" + ": ".join(str(each).strip().splitlines()[-1] for each in (error, error.__cause__) if each))
"""


def _try_out(address: str) -> None:
    """Connect in another process first, since Ray waits for ever or ends the process if it cannot connect."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _TRIAL, address], capture_output=True, text=True, timeout=_TRIAL_TIMEOUT, check=False
        )
        failed, why = done.returncode != 0, done.stderr.rpartition("cawn:")[2].strip()
    except subprocess.TimeoutExpired:
        failed, why = True, f"no answer within {_TRIAL_TIMEOUT} seconds"
    if failed:
        what = "no Ray cluster on this machine" if address == "auto" else "the cluster cannot be used"
        raise QueryError(f"--address {address}: {what} ({one_line(why)[:300]})")


def _check_reachable(address: str) -> None:
    """Refuse an address that nothing listens at, without the seconds that Ray takes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise QueryError(f"--address {brief(address)}: give HOST:PORT of the cluster's head, or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT).close()
    except OSError as error:
        raise QueryError(f"--address {address}: the cluster cannot be reached ({reason(error)})") from error


def _first_line(error: BaseException) -> str:
    return one_line(" ".join(str(error).split()))[:300]


def choose_pool(
    ray: Any, device: str = "auto", workers: int | None = None, threads: int | None = None, gpus: float | None = None
) -> Pool:
    """A worker for every GPU, or for every core; fewer workers have more threads each.

    Args:
        gpus: GPUs of each worker, which may be a fraction; one with the device "cuda", or with "auto" if there are any.
    """
    check_threads(threads)
    if workers is not None:
        check_integer(workers, "workers", 1, 100_000)
    if device.startswith("cuda:"):
        raise QueryError(f"--device {device}: Ray assigns the GPUs; give cuda")
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cpus, found = [int(node.get("CPU", 0)) for node in nodes], sum(node.get("GPU", 0) for node in nodes)
    if gpus is None:
        gpus = 1.0 if device == "cuda" or (device == "auto" and found >= 1) else 0.0
    if gpus > found:
        raise DeviceError(f"{gpus:g} GPUs for each worker, but Ray has {found:g}; use --device cpu")
    if workers is None:
        workers = int(found / gpus) if gpus else max(_num_fitting_workers(cpus, threads or 1), 1)
    if threads is None:
        threads = next((each for each in range(max(cpus), 1, -1) if _num_fitting_workers(cpus, each) >= workers), 1)
    if workers > _num_fitting_workers(cpus, threads):
        raise QueryError(f"{workers} workers of {threads} threads, but Ray has {sum(cpus)} CPUs; use fewer")
    return Pool(workers, threads, gpus, "cpu" if not gpus else device)


def _num_fitting_workers(cpus: list[int], threads: int) -> int:
    """The number of workers with this number of threads that fit on nodes with these numbers of CPUs."""
    return sum(each // threads for each in cpus)


@contextmanager
def quiet_data() -> Iterator[None]:
    """Ray Data without logs, progress bars and warnings of its own."""
    from ray.data import DataContext

    logger = logging.getLogger("ray.data")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(action="ignore"):
            context = DataContext.get_current().copy()
            context.enable_progress_bars = False
            context.print_on_execution_start = False
            with DataContext.current(context):
                yield
    finally:
        logger.setLevel(level)
