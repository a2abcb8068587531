"""Whole runs from file to test results: wall time, and accuracy beside the paper's."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import Row

PAPER = {  # AUC, the better of CAW-N-mean and CAW-N-attn
    "uci": {"all": 0.9525, "new-new": 0.9316, "new-old": 0.9117},
    "wikipedia": {"all": 0.9896, "new-new": 0.9929, "new-old": 0.9877},
}
WALL = {"uci": 60.0, "wikipedia": 120.0}


def measure(seed: int = 0) -> list[Row]:
    """Both tasks of each network by the command line, in new processes; the first finds nothing compiled."""
    rows = []
    for name, published in PAPER.items():
        with tempfile.TemporaryDirectory() as scratch:
            environment = os.environ | {"TRITON_CACHE_DIR": f"{scratch}/triton", "NUMBA_CACHE_DIR": f"{scratch}/numba"}
            data = str(Path(os.environ["CAWN_DATA"]) / name / "edges.csv.gz")
            start, found = time.perf_counter(), {}
            for task in ("transductive", "inductive"):
                out = f"{scratch}/{task}"
                command = [sys.executable, "-m", "cawn.cli", "train", data, "-o", out, "--task", task]
                options = ["--device", "cuda", "--seed", str(seed)]
                began = time.perf_counter()
                subprocess.run([*command, *options], check=True, env=environment)
                print(f"{name}, {task}: {time.perf_counter() - began:.1f} s", file=sys.stderr)
                results = json.loads(Path(out, "results.json").read_text())
                found |= {row["links"]: row["model"] for row in results if row["negatives"] == "random"}
            took = time.perf_counter() - start
        rows.append(Row(f"{name}, file to results, all three tasks", took, WALL[name], "<=", "s"))
        for links, bar in published.items():
            detail = f"AP {found[links]['ap']:.4f}; the bar is the paper's"
            rows.append(Row(f"  AUC, {links}", found[links]["auc"], bar, unit="", detail=detail))
    return rows
