"""Kernels compile for a GPU without one; on one, walks, relative identities and features are those of the CPU."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import cawn
from cawn import Walks
from cawn.index.cuda import DevicePairFeatures, place_index
from cawn.index.features import NO_SEQUENCES, PairFeatures, PairParts
from cawn.index.index import Index
from cawn.kernels.cuda.launch import Pieces
from cawn.walks.cuda import DeviceHistory
from cawn.walks.kernels.cuda import sample_walks
from networks import queries, random_events

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value")]

SCRIPT = """
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from cawn.index.kernels import cuda as index
from cawn.index.kernels.cuda import DeviceIndex, DeviceLists
from cawn.caw.kernels.cuda import features, links, lstm, negatives, positions
from cawn.caw.kernels.cuda.lstm import _launch_shape
from cawn.walks.kernels import cuda as walks

target = GPUTarget("cuda", {capability}, 32)

def check(kernel, types, num_warps=4, **constants):
    given = iter(types.split() if isinstance(types, str) else types)
    signature = {{name: "constexpr" if name in constants else next(given) for name in kernel.arg_names}}
    compile(ASTSource(kernel, signature, constants), target=target, options={{"num_warps": num_warps}})

for T in ("*i64", "*fp64"):
    check(walks.sample_walks_kernel,
          f"*i64 {{T}} *i32 *fp64 *fp64 *i64 {{T}} *i64 *i64 *i32 {{T}} *i32 *i32 i32 i32 i32 i32", 1,
          LENGTH=2, BLOCK=64)
    for first in (0, -1):
        check(features.position_features_kernel, f"{{T}} *i32 *i32 *i32 *i64 *fp32 *fp32 *u8 *fp64 i32 i32",
              L=3, TIME=first, DIRECTION=first, DEGREE=first, LOG_SCALE=6.0, LONGEST=1e30, BLOCK=256)
    lists = DeviceLists(*"*i64 *i32 *fp64 i32 i32 i32 *i64 *i32 i32".split())
    columns = f"{{T}} *fp64 *fp64 {{T}} *i32 *fp64 *i32 *fp64 *i32".split()
    pairs = DeviceIndex(*columns, *[lists] * 7), "*i64", "*i64", T
    check(index.rate_features_kernel, (*pairs, "*fp64", "*fp32", *["i32"] * 5), 1,
          D=8, AGES=3, PAIR=12, END=17, BLOCK=16, DECAYS=16)
    check(links.take_links_kernel, f"*i64 *i64 *i64 *i64 *i64 {{T}} *fp32 *i64 *i64 {{T}} *fp32 *fp32 i32 i32 i32 i32",
          K=2, BLOCK=128)
    for since, partners, depth in ((True, 24, 5), (False, 0, 5), (True, 24, 0)):
        check(index.sequence_features_kernel, (*pairs, "*fp32", *["i32"] * 6), 1,
              SINCE=since, PARTNERS=partners, STRIDE=2, DEPTH=depth, D=4 * (partners > 0), DECAYS=4, BLOCK=32)
for fallback in (False, True):
    check(negatives.draw_kernel, "*i64 " * 10 + "i32", 2, SALT=0x5851F42D4C957F2D, HAS_FALLBACK=fallback, BLOCK=128)
check(walks.count_positions_kernel, "*i32 *i64 *i32", M=64, L=3, BLOCK=64)
check(features.gather_rows_kernel, "*fp32 *i32 *i64 *fp32 i32 i32 i32 i32 i32 i32", BLOCK=32, COLUMNS=64)
for F, precision in (("*bf16", "tf32"), ("*fp32", "ieee")):
    for M, D, S in ((64, 64, 4096), (20, 24, 128)):
        sizes = {{"M": M, "L": 3, "D": D, "X": 5, "FREQUENCIES": 16, "KINDS": 3, "K": 16, "WIDTH": 176, "SPAN": 240,
                 "PRECISION": precision, "ROWS": 128, "COLUMNS": 64, "WAVES": 16}}
        check(positions.position_inputs_kernel,
              f"*i32 *fp32 *fp32 *fp32 *fp32 *fp32 *fp32 *fp32 *i64 {{F}} i32 fp32 fp32 i32 i32 i32",
              **sizes, TILES=4, DROPOUT=True, PART=S == 128, REST=16)
        check(positions.position_inputs_backward_kernel,
              f"*i32 *fp32 {{F}} {{F}} *fp32 *fp32 i32 i32 fp32 fp32", **sizes)
        for depth, pool, last in ((0, False, False), (1, True, False), (1, True, True), (2, True, True),
                                  (2, False, True), (2, False, False)):
            shape = _launch_shape(S, M if depth else 1, D)[1]
            shape |= {{"L": 3, "STATE": depth, "POOL": pool, "FAST": precision == "tf32"}}
            check(lstm.lstm_cell_kernel, f"{{F}} {{F}} {{F}} *fp32 *u8 {{F}} *fp32 i32 i32 i32", **shape)
            check(lstm.lstm_cell_backward_kernel,
                  f"{{F}} {{F}} *fp32 *u8 *fp32 {{F}} *fp32 {{F}} {{F}} {{F}} *fp32 i32 i32",
                  **shape, LATER=depth > 0 and not last, CELL=not last)
"""


@pytest.mark.parametrize("capability", [80, 90])
def test_every_kernel_compiles(capability: int) -> None:
    """In a process where Triton does not interpret."""
    pytest.importorskip("triton")
    plain = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    script = SCRIPT.format(capability=capability)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=plain)
    assert done.returncode == 0, done.stderr


def test_pieces_shrink_when_memory_runs_out() -> None:
    asked: list[tuple[int, int]] = []

    def work(first: int, last: int, most: int = 3) -> int:
        asked.append((first, last))
        if last - first > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return last - first

    pieces = Pieces(16)
    assert list(pieces(work, 10)) == [2, 2, 2, 2, 2]
    assert asked[:4] == [(0, 10), (0, 8), (0, 4), (0, 2)]
    assert list(pieces(work, 3)) == [2, 1]  # what was found to fit is remembered
    assert asked[-2:] == [(0, 2), (2, 3)]
    with pytest.raises(cawn.DeviceError, match="a single pair"):
        list(Pieces(16)(lambda first, last: work(first, last, most=0), 10))


# Walks and identities.


def assert_same(walks: Walks, expected: Walks, allowed: float = 0.0) -> None:
    for field in ("nodes", "t", "events"):
        found, wanted = getattr(walks, field).cpu().numpy(), getattr(expected, field)
        assert found.dtype == wanted.dtype
        assert (found != wanted).any(axis=-1).mean() <= allowed


@pytest.mark.parametrize("alpha", [0.0, 0.3, (0.0, 0.01, 1.0, 100.0)])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_the_same_walks_as_on_the_cpu(gpu, alpha, dtype) -> None:
    events = random_events(1, num_nodes=20, num_links=400, dtype=dtype)
    history = cawn.History(events, alpha)
    device = DeviceHistory(history, gpu)
    nodes, t = queries(events, 2, 3)
    shapes = {"num_walks": 12, "length": 3}, {"fanouts": (4, 1, 3)}, {"num_walks": 20, "length": 1}
    for seed, shape in zip((0, 2**64 - 1, 1), shapes, strict=True):
        assert_same(device.sample(nodes, t, seed=seed, **shape), history.sample(nodes, t, seed=seed, **shape))


def test_links_and_degrees(gpu) -> None:
    """What the encoder reads besides nodes and times: the direction of each link, and the degree of each node."""
    events = random_events(3, num_nodes=15, num_links=200)
    history = cawn.History(events, (0.01, 0.5))
    device = DeviceHistory(history, gpu)
    nodes, t = queries(events, 4, 5)
    asked = torch.from_numpy(nodes).to(gpu), torch.from_numpy(t).to(gpu), torch.full((3,), 8, device=gpu)
    found = sample_walks(device.index.walks, *asked, device.seed(7), 8)
    walked, times, links, degrees = (tensor.cpu().numpy() for tensor in found)
    expected = history.sample(nodes, t, num_walks=8, length=3, seed=7)
    assert np.array_equal(walked, expected.nodes)
    assert np.array_equal(links >> 1, expected.events)
    taken, before = links[..., 1:] >= 0, walked[..., :-1]
    forward = events.src[np.maximum(links[..., 1:] >> 1, 0)] == before
    assert np.array_equal((links[..., 1:] % 2 == 0)[taken], forward[taken])
    alive = walked >= 0
    assert np.array_equal(degrees[alive], history.degree(walked[alive], times[alive]))
    assert not degrees[~alive].any()


@pytest.mark.parametrize(("M", "length"), [(1, 1), (5, 2), (70, 1)])
def test_the_same_identities_as_on_the_cpu(gpu, M: int, length: int) -> None:
    events = random_events(5, num_links=300)
    history = cawn.History(events, 0.1)
    device = DeviceHistory(history, gpu)
    u, t = queries(events, 6, 4)
    v = queries(events, 7, 4)[0]
    asked = {"num_walks": M, "length": length, "seed": 1}
    found = cawn.anonymize(device.sample(u, t, **asked), device.sample(v, t, **asked))
    expected = cawn.anonymize(history.sample(u, t, **asked), history.sample(v, t, **asked))
    assert np.array_equal(found.cpu().numpy(), expected)


def test_queries_on_the_device_and_none_at_all(gpu) -> None:
    events = random_events(8, num_nodes=5, num_links=100)
    history = cawn.History(events, 0.1)
    device = DeviceHistory(history, gpu)
    nodes, t = queries(events, 9, 80)
    there = torch.from_numpy(nodes[:3]).to(gpu), torch.from_numpy(t[:3]).to(gpu)
    assert_same(device.sample(*there, seed=1), history.sample(nodes[:3], t[:3], seed=1))
    assert device.sample(np.empty(0, int), np.empty(0, events.t.dtype), seed=1).nodes.shape == (0, 64, 3)
    nobody = device.sample(torch.tensor([-5], device=gpu), there[1][:1], seed=1)
    assert (nobody.events == -1).all()
    for column, other in zip(device.recent(nodes, t, 7), history.recent(nodes, t, 7), strict=True):
        np.testing.assert_array_equal(column.cpu().numpy(), other)


def test_what_cannot_be_asked(gpu) -> None:
    history = cawn.History(random_events(8, num_nodes=5, num_links=100), (0.1, 0.2))
    device = DeviceHistory(history, gpu)
    on_the_device = torch.zeros(2, device=gpu)
    for nodes, t, options, message in (
        ([0], [1], {"num_walks": 5}, "2 decays cannot share"),
        (on_the_device, on_the_device, {}, "int64 nodes"),
        ([0], [1], {"seed": -1}, "seed"),
    ):
        with pytest.raises(cawn.QueryError, match=message):
            device.sample(nodes, t, **({"seed": 1} | options))
    assert history.to("cpu") is history
    with pytest.raises(cawn.QueryError, match="give cpu or cuda"):
        history.to("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(cawn.DeviceError, match="device is 'cuda', but"):
            history.to("cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="too many for the interpreter")
@pytest.mark.parametrize("name", ["uci", "wikipedia"])
def test_a_million_walks_of_real_networks(network, name: str) -> None:
    events = network(name)
    tau = events.intensity
    history = cawn.History(events, (0.01 * tau, tau, 100 * tau, 1000 * tau))
    nodes, t = queries(events, 1, 20_000)
    assert_same(history.to("cuda").sample(nodes, t, seed=1), history.sample(nodes, t, seed=1), allowed=1e-6)


# Features of pairs.

ALPHAS, UNIT = np.array([0.0, 0.003, 0.05, 2.0, 40.0]), 2e-4
PARTS = (
    PairParts(),
    PairParts(**NO_SEQUENCES),
    PairParts(directed=False, **NO_SEQUENCES),
    PairParts(rates=False, transitions=False),
    PairParts(rates=False, since=False, two_steps=False),
)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_the_same_features_on_a_gpu(gpu, dtype: type, parts: PairParts) -> None:
    """Lists of many blocks, of less than one, and of none; nodes without links; ids that are unknown; no links."""
    events = random_events(5, num_nodes=12, num_links=300, dtype=dtype)
    u, t = queries(events, 4, 20)
    v = np.random.default_rng(0).integers(-1, events.num_nodes + 2, 20)
    for indexed in (events, events[:0]):
        index = Index.of(indexed, ALPHAS, parts.kinds, parts.decay(UNIT))
        out = torch.full((20, parts.width(len(ALPHAS))), 7.0, device=gpu)
        asked = (torch.from_numpy(array).to(gpu) for array in (u, v, t, np.array([UNIT])))
        DevicePairFeatures(parts, place_index(index, gpu)).fill(*asked, out)
        expected = PairFeatures(parts, index, UNIT).features(u, v, t)
        np.testing.assert_allclose(out.cpu().numpy(), expected, rtol=1e-6, atol=1e-7)
