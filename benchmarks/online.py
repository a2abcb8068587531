"""What learning from arriving links gains or loses: `python -m benchmarks.online uci wikipedia --system rates`.

Trains on the first links of a network and streams the rest through the monitor of `cawn serve`, once with the weights
of the run and once with `--learn`. Both score the same links against the same negatives, each link before it is
learned. Prints MRR and log loss with standard errors, beside the recency baseline.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import cawn
from benchmarks.report import processor
from cawn.cli.settings import parse_settings
from cawn.data.updates import UpdateRules
from cawn.serve.learning import RATE, REPLAY, Learner
from cawn.serve.monitor import Monitor
from cawn.systems import settings_type

RULES = UpdateRules(max_ahead=float("inf"))  # the links of a benchmark may be of any time


def stream(run: Path, events: cawn.Events, learn: dict[str, float] | None, portion: int, device: str) -> dict[str, Any]:
    """Accuracy over all links after those of the run, which arrive in portions."""
    predictor = cawn.LinkPredictor.load(run, device=device)
    learner = None if learn is None else Learner(predictor, **learn)  # type: ignore[arg-type]
    monitor, start = Monitor(predictor, learner), time.perf_counter()
    alarms, names = 0, events.labels
    for first in range(predictor.num_links, len(events), portion):
        part = events[first : first + portion]
        ends = names[part.src].tolist(), names[part.dst].tolist()
        extension = predictor.extend([predictor.snapshot().model.form.arrivals(*ends, part.t, part.msg)], RULES)
        if isinstance(error := extension.results[0], cawn.CawnError):
            raise error
        predictor.publish(extension)
        assert extension.links is not None
        monitor.observe(extension.links)
        before = monitor.summary()["alarm"]
        while monitor.process():
            pass
        alarms += before is None and monitor.summary()["alarm"] is not None
    found = {"seconds": time.perf_counter() - start, "alarms": alarms, "points": monitor.series()}
    return found | ({} if learner is None else learner.summary())


def overall(points: list[dict[str, Any]], scorer: str, figure: str) -> str:
    """The mean of a figure over all points, with its standard error."""
    known = [point for point in points if point[scorer] is not None and point[scorer][figure] is not None]
    size = np.array([point["scored"] for point in known], float)
    share = size / size.sum()
    mean = sum(share * [point[scorer][figure] for point in known])
    error = np.sqrt(sum(share**2 * np.array([point[scorer][f"{figure}_error"] or 0 for point in known]) ** 2))
    return f"{mean:.4f} ± {error:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.online", description=__doc__)
    parser.add_argument("networks", nargs="+", help="folders in $CAWN_DATA")
    parser.add_argument("--system", default="rates", choices=["cawn", "rates"])
    parser.add_argument("--preset", default="default")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--trained", type=float, default=0.6, help="share of the links to train on")
    parser.add_argument("--links", type=int, default=None, help="links to stream; all by default")
    parser.add_argument("--portion", type=int, default=250, help="links that arrive at once")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--replay", type=float, default=REPLAY)
    options = parser.parse_args()
    config = settings_type(options.system).preset(options.preset).with_(**parse_settings(options.changes))
    columns = ("network", "weights", "MRR", "log loss", "promoted", "restarted", "alarms", "seconds")
    table = Table(*columns, title=f"{options.system}, streamed after {options.trained:.0%} of the links\n{processor()}")
    for name in options.networks:
        events = cawn.read(Path(os.environ["CAWN_DATA"]) / name / "edges.csv.gz")
        first = int(options.trained * len(events))
        events = events if options.links is None else events[: first + options.links]
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            cawn.train(
                events[:first],
                config,
                out=run,
                quiet=True,
                task=cawn.Task(baselines=False, negatives=("random",)),
                device=options.device,
            )
            learn = {"rate": options.rate, "replay": options.replay}
            rows = {"of the run": None, "learning": learn}
            found = {kind: stream(run, events, given, options.portion, options.device) for kind, given in rows.items()}
        for kind, row in found.items():
            figures = (overall(row["points"], "model", figure) for figure in ("mrr", "log_loss"))
            counts = (str(row.get(what, "")) for what in ("promotions", "restarts", "alarms"))
            table.add_row(name, kind, *figures, *counts, f"{row['seconds']:.0f}")
        points = found["learning"]["points"]
        table.add_row(
            name, "recency baseline", *(overall(points, "baseline", figure) for figure in ("mrr", "log_loss"))
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    try:
        main()
    except cawn.CawnError as error:
        sys.exit(f"benchmarks.online: {error}")
