"""Kernels compile for a GPU without one, and work in pieces that fit into its memory."""

import os
import subprocess
import sys

import pytest
import torch

import cawn
from cawn.kernels.cuda.launch import Pieces

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
