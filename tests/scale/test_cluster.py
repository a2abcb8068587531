"""Addresses of clusters, and sizes of pools of workers; no Ray is started."""

import os
import socket
import sys

import pytest

import cawn
from cawn.scale.cluster import Pool, choose_pool, connected, import_ray


class Resources:
    """What a cluster says of itself."""

    def __init__(self, *cpus: float, gpus: float = 0) -> None:
        self._cpus, self._gpus = cpus, {"GPU": gpus} if gpus else {}

    def nodes(self) -> list[dict]:
        found = [{"Alive": True, "Resources": {"CPU": cpus} | self._gpus} for cpus in self._cpus]
        return [*found, {"Alive": False, "Resources": {"CPU": 64.0}}]


@pytest.mark.parametrize(
    ("cluster", "asked", "expected"),
    [
        (Resources(8), {}, Pool(8, 1, 0.0, "cpu")),
        (Resources(8), {"workers": 3}, Pool(3, 2, 0.0, "cpu")),
        (Resources(4, 3), {"workers": 1}, Pool(1, 4, 0.0, "cpu")),
        (Resources(4, 3), {"workers": 4}, Pool(4, 1, 0.0, "cpu")),
        (Resources(4, 3), {"threads": 2}, Pool(3, 2, 0.0, "cpu")),
        (Resources(8), {"threads": 4}, Pool(2, 4, 0.0, "cpu")),
        (Resources(8), {"workers": 2, "threads": 1}, Pool(2, 1, 0.0, "cpu")),
        (Resources(8.0, gpus=2.0), {}, Pool(2, 4, 1.0, "auto")),
        (Resources(8.0, gpus=2.0), {"device": "cuda", "gpus": 0.5}, Pool(4, 2, 0.5, "cuda")),
        (Resources(8.0, gpus=2.0), {"device": "cpu"}, Pool(8, 1, 0.0, "cpu")),
    ],
)
def test_pools(cluster: Resources, asked: dict, expected: Pool) -> None:
    assert choose_pool(cluster, **asked) == expected


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"workers": 9}, "9 workers of 1 threads, but Ray has 8 CPUs"),
        ({"workers": 0}, "workers is 0"),
        ({"threads": 0}, "threads is 0"),
        ({"device": "cuda"}, "1 GPUs for each worker, but Ray has 0"),
        ({"device": "cuda:1"}, "Ray assigns the GPUs"),
    ],
)
def test_pools_that_do_not_fit(asked: dict, reason: str) -> None:
    with pytest.raises(cawn.CawnError, match=reason):
        choose_pool(Resources(8), **asked)


def test_threads_are_set_before_libraries_load() -> None:
    options = Pool(2, 3, 0.0, "cpu").remote_options()
    assert options["runtime_env"]["env_vars"]["OMP_NUM_THREADS"] == "3"
    assert options["num_gpus"] is None


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("ray://head:10001", "Ray clients are not supported"),
        ("head", "give HOST:PORT"),
        ("head:99999", "give HOST:PORT"),
        pytest.param(f"127.0.0.1:{free_port()}", "the cluster cannot be reached", id="nobody listens"),
    ],
)
def test_clusters_that_cannot_be_used(address: str, reason: str) -> None:
    names = ("PYTHONPATH", "RAY_AUTH_TOKEN", "RAY_BACKEND_LOG_LEVEL", "RAY_USAGE_STATS_ENABLED")
    before = [os.environ.get(name) for name in names]
    with pytest.raises(cawn.QueryError, match=f"--address .*{reason}"), connected(address):
        pass
    assert [os.environ.get(name) for name in names] == before


def test_without_ray(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(cawn.QueryError, match=r"pip install 'cawn\[scale\]'"):
        import_ray()
