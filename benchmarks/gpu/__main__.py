"""Speed on a GPU: `python -m benchmarks.gpu` prints what is reached, and how far each stage is from its limit.

`--runs` trains UCI and Wikipedia from their files to the end, each in a process of its own. `--accuracy` trains them in
bfloat16 and in float32, with `--cpu` also on the CPU. `--scaling FILE` measures how throughput grows with sizes, for
docs/throughput.py to draw.
"""

import argparse
import json
from pathlib import Path

import torch

from benchmarks.gpu import accuracy, runs, scaling, stages
from benchmarks.gpu.bench import Bench, ceilings, network
from benchmarks.report import Row, show


def speed(bandwidth: float, products: float) -> list[Row]:
    rows = [
        Row("memory ceiling, copy", bandwidth / 1e12, None, unit="TB/s"),
        Row("bfloat16 ceiling, product of 8192", products / 1e12, None, unit="TFLOP/s"),
    ]
    for name in ("uci", "wikipedia"):
        bench = Bench(network(name))
        walks = bench.walks_per_second()
        detail = f"{walks / bench.torch_walks_per_second():,.0f} x plain torch"
        rows.append(Row(f"walks, {name}", walks / 1e9, 1.0, unit="billion/s", detail=detail))
    events, best = network("wikipedia"), 0.0
    for size in (32, 128, 512, 2048, 8192):
        links, share = Bench(events, batch_size=size).training()
        best = max(best, links)
        what, bar = f"training, wikipedia, batch {size}", 15_000 if size == 32 else None
        rows.append(Row(what, links, bar, unit="links/s"))
        rows.append(Row("  walks, identities and features, share of it", share, 0.15, "<=", ""))
    rows.append(Row("training, best batch", best, 100_000, unit="links/s"))
    bench = Bench(events)
    rows.append(Row("scoring, wikipedia", bench.scoring(), 400_000, unit="pairs/s"))
    rows.append(Row("1 source against 1,000 candidates", 1000 * bench.ranking(), 5.0, "<=", "ms"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--runs", action="store_true", help="whole runs instead: wall time and accuracy")
    parser.add_argument("--accuracy", type=int, metavar="SEEDS", help="accuracy of the ways to compute instead")
    parser.add_argument("--cpu", action="store_true", help="also that of the CPU")
    parser.add_argument("--scaling", metavar="FILE", help="scaling instead, written to FILE as JSON")
    parser.add_argument("--save", metavar="FILE", help="also write the figures to FILE, as JSON")
    options = parser.parse_args()
    title = f"cawn on {torch.cuda.get_device_name()}"
    if options.scaling:
        Path(options.scaling).write_text(json.dumps(scaling.measure(), indent=1) + "\n")
        return
    if options.runs:
        rows = runs.measure()
    elif options.accuracy:
        rows = accuracy.measure(options.accuracy, ["bfloat16", "float32"] + ["cpu"] * options.cpu)
    else:
        chip = ceilings()
        for size in (2048, 32):
            stages.show(Bench(network("wikipedia"), batch_size=size), *chip)
        rows = speed(*chip)
    show(title, rows)
    if options.save:
        figures = [{"what": row.what, "measured": row.measured, "bar": row.bar, "detail": row.detail} for row in rows]
        Path(options.save).write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
