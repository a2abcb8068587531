"""How good a preset is on real networks: `python -m benchmarks.accuracy uci wikipedia --task inductive --seeds 3`.

Prints AUC and AP over all test links, mean over seeds with the 95 % interval, beside the AP of two baselines.
"""

import argparse
import os
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

import cawn
from cawn.cli.settings import parse_settings


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("networks", nargs="+", help="folders in $CAWN_DATA")
    parser.add_argument("--task", default="transductive", choices=["transductive", "inductive"])
    parser.add_argument("--preset", default="default")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    config = cawn.Config.preset(options.preset).with_(**parse_settings(options.changes))
    columns = (
        "network",
        "test links",
        "negatives",
        "AUC",
        "AP",
        "AP in batches of 30",
        "rates only, AP",
        "recency, AP",
    )
    title = (
        f"{options.preset}, {options.task}, mean of {options.seeds} seeds, trained with {config.negatives} negatives"
    )
    table = Table(*columns, title=title)
    for name in options.networks:
        events = cawn.read(Path(os.environ["CAWN_DATA"]) / name / "edges.csv.gz")
        found = cawn.train_seeds(events, config, task=options.task, seeds=options.seeds, device=options.device).results
        for links, negatives in dict.fromkeys((row["links"], row["negatives"]) for row in found):
            means = found.where(links=links, negatives=negatives).means("baseline", "system", "metric")
            ours = [means[False, "cawn", metric] for metric in ("auc", "ap", "ap_batch30")]
            baselines = [means[True, name, "ap"].mean for name in ("rates only", "recency")]
            table.add_row(name, links, negatives, *map(format, ours), *(f"{100 * ap:.2f}" for ap in baselines))
    Console(width=140).print(table)


if __name__ == "__main__":
    try:
        main()
    except cawn.CawnError as error:
        sys.exit(f"benchmarks.accuracy: {error}")
