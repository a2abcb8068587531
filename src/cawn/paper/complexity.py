"""The paper's complexity evaluation: time of walk extraction and of a training epoch against the number of links."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cawn.caw.config import Config
from cawn.data.events import Events
from cawn.learn.metrics import t_quantile
from cawn.learn.plots import COLOURS
from cawn.learn.trainer import Trainer
from cawn.paper.experiments import Experiment, Plot, Request, Section, Table
from cawn.paper.measurements import Measurement, Task
from cawn.paper.published import display_name
from cawn.paper.results import Result, Results
from cawn.paper.training import config_of, described
from cawn.paper.variants import paper_config
from cawn.studies.jobs import Send
from cawn.systems.training import LinkBatch
from cawn.walks.history import History

Array = npt.NDArray[Any]

SIZES = 10
SETTINGS = {"num_walks": 32, "length": 2, "batch_size": 32}  # of the paper's figure
LEAST_R2 = 0.98
_EXPONENT = 0.2  # largest distance from 1 of the exponent of a linear cost
_WARM_UP = 3  # steps: the first captures the CUDA graph
_QUANTITIES = {"walks": "walk extraction", "epoch": "an epoch", "index": "building the index"}
_TEXT = (
    "Time of walk extraction (Algorithm 1 for all links of an epoch and their negatives, batch by batch) and of a "
    "training epoch without validation, against the number |E| of training links. Smaller networks are the first links "
    "of the whole one; 70 % of the links are training links. Sizes are measured in random order, and the shortest time "
    f"over the repetitions is used. A cost is called linear if R² of the fitted line is at least {LEAST_R2} and the "
    f"exponent of a fitted power law is within {_EXPONENT} of 1. Intervals are 95 % confidence intervals.",
    "A step of our sampler is a binary search, so walk extraction takes O(M m log degree) per link; the paper's scans "
    "the links of a node from the newest on, 2τ/α + 1 of them in expectation. The index is built once, in O(|E|).",
    "Paper (Wikipedia, M = 32, m = 2, batches of 32): the accumulated time of walk extraction and the time of an epoch "
    "are both linear in |E|; the paper gives no numbers.",
)


class Complexity(Experiment):
    """Each measurement times all sizes once, in random order; the shortest time of each size is kept."""

    name = "complexity"
    title = "Complexity: time of walk extraction and of an epoch against the number of links"
    networks = ("wikipedia",)
    systems = ("paper-mean",)
    seeds = 3
    alone = True

    def plan(self, request: Request) -> list[Measurement]:
        device = request.device.partition(":")[0]
        measurements = []
        for network in request.networks:
            given = {name: value for name, value in SETTINGS.items() if name not in request.changes}
            config = paper_config(request, network).with_(**given)
            for seed in range(request.seeds):
                settings = {**described(config), "sizes": SIZES, "seed": seed, "device": device}
                label = f"complexity, {device}, repetition {seed + 1}"
                measurements.append(Measurement(network, "complexity", settings, label))
        return measurements

    def show(self, results: Results) -> Section | None:
        found = {
            (network, device): repetitions
            for network in results.networks
            for device in ("cpu", "cuda")
            if (repetitions := results.labelled(f"complexity, {device}", network))
        }
        if not found:
            return None
        section = Section(list(_TEXT), used=[one for repetitions in found.values() for one in repetitions])
        for (network, _), repetitions in found.items():
            title = f"{display_name(network)}, {repetitions[0].device}"
            rows = shortest(repetitions)
            fits = {name: fit([row["links"] for row in rows], [row[name] for row in rows]) for name in _QUANTITIES}
            section.text.append(f"**{title}.** {_verdict(fits)} {_growth(rows)}")
            section.tables.append(_fit_table(title, rows, fits, len(repetitions)))
            section.tables.append(_time_table(title, rows))
            section.plots.append(Plot(title, _drawing(rows, fits), (8.0, 3.0)))
        return section


# The measurement.


def measure(task: Task, send: Send) -> dict[str, Any]:
    """The times of every size, measured in random order after a warm-up on the smallest, which compiles the kernels."""
    events, settings = task.events(), task.settings
    config = config_of(settings)
    assert isinstance(config, Config)
    config = config.with_(alpha=config.decays(events.intensity))  # the same for all sizes
    sizes = len(events) * np.arange(1, settings["sizes"] + 1) // settings["sizes"]
    order = np.random.default_rng(settings["seed"]).permutation(sizes)
    done, rows = 0, []
    for size in [sizes[0], *order]:
        rows.append(_times(events[: int(size)], config, task))
        done += size
        send({"done": float(done / (sizes[0] + sizes.sum()))})
    return {"rows": sorted(rows[1:], key=lambda row: row["links"])}


def _times(events: Events, config: Config, task: Task) -> dict[str, Any]:
    """Seconds to build the index, to sample the walks of an epoch, and to train for an epoch."""
    seed = task.settings["seed"]
    trainer = Trainer(events, config, seed=seed, device=task.device, threads=task.threads, quiet=True)
    gc.collect()  # frees what the last trainer had on the device
    with stopwatch(trainer.device) as index:
        history = History(trainer.visible, config.decays(0.0), threads=task.threads)
    walks, draws = _walk_times(trainer, history, config)
    for _ in islice(trainer.steps(0, 0), _WARM_UP):
        pass
    with stopwatch(trainer.device) as epoch:
        for _ in trainer.steps(1, 0):
            pass
    return {
        "links": len(trainer.training.positions),
        "index": round(index.seconds, 7),
        "walks": round(walks, 7),
        "draws": draws,
        "epoch": round(epoch.seconds, 7),
    }


def _walk_times(trainer: Trainer, history: History, config: Config) -> tuple[float, int]:
    """Seconds to sample the walks of all batches of an epoch, one after the other, and the number of links drawn."""
    on_host = trainer.device.type == "cpu"
    batches = trainer.training.batches(1, 0) if on_host else trainer.training.tensors(1, 0, trainer.device)
    queries = [_queries(batch, on_host) for batch in batches]
    sampler: Any = history.to(trainer.device)
    options: dict[str, Any] = {"seed": 1, "num_walks": config.num_walks, "length": config.length}
    if on_host:
        options["threads"] = 1  # as in training, where the network uses the other cores

    drawn = [(sampler.sample(*query, **options).events >= 0).sum() for query in queries]  # also compiles
    with stopwatch(trainer.device) as watch:
        for query in queries:
            sampler.sample(*query, **options)
    return watch.seconds, int(sum(drawn))


def _queries(batch: LinkBatch, on_host: bool) -> tuple[Any, Any]:
    """The nodes and times that the walks of a batch start from: sources, destinations and negatives."""
    join: Callable[[list[Any]], Any] = np.concatenate if on_host else torch.cat
    return join([batch.src, batch.dst, batch.negative]), join([batch.t] * 3)


@dataclass
class Stopwatch:
    """Seconds that a block took."""

    seconds: float = 0.0


@contextmanager
def stopwatch(device: torch.device) -> Iterator[Stopwatch]:
    """Time a block; on a GPU until the device has finished."""

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    watch, start = Stopwatch(), now()
    yield watch
    watch.seconds = now() - start


# The fit.


@dataclass(frozen=True)
class Fit:
    """seconds = constant + slope * links, and the exponent of a power law."""

    constant: float
    slope: float
    slope_half: float  # half the width of the 95 % confidence interval
    r2: float
    exponent: float
    exponent_half: float

    @property
    def linear(self) -> bool:
        """Whether the cost is linear in the number of links."""
        return self.r2 >= LEAST_R2 and abs(self.exponent - 1) <= _EXPONENT


def fit(links: Iterable[float], seconds: Iterable[float]) -> Fit:
    """Least squares on the values and on their logarithms; at least three sizes."""
    x, y = np.array(list(links), float), np.array(list(seconds), float)
    constant, slope, slope_half, r2 = _line(x, y)
    _, exponent, exponent_half, _ = _line(np.log(x), np.log(y))
    return Fit(constant, slope, slope_half, r2, exponent, exponent_half)


def _line(x: Array, y: Array) -> tuple[float, float, float, float]:
    """Intercept, slope, half the width of the slope's 95 % confidence interval, and R²."""
    centred, freedom = x - x.mean(), len(x) - 2
    slope = float(centred @ y / (centred @ centred))
    intercept = float(y.mean() - slope * x.mean())
    rest = y - intercept - slope * x
    total = y - y.mean()
    error = float(np.sqrt(rest @ rest / freedom / (centred @ centred)))
    return intercept, slope, t_quantile(freedom) * error, float(1 - rest @ rest / (total @ total))


def shortest(repetitions: Iterable[Result]) -> list[dict[str, Any]]:
    """The shortest times of each size over the repetitions."""
    by_size: dict[int, list[dict[str, Any]]] = {}
    for repetition in repetitions:
        for row in repetition.value["rows"]:
            by_size.setdefault(row["links"], []).append(row)
    return [
        {"links": links, "draws": rows[0]["draws"]} | {name: min(row[name] for row in rows) for name in _QUANTITIES}
        for links, rows in sorted(by_size.items())
    ]


# The report.


def _verdict(fits: dict[str, Fit]) -> str:
    """Whether the claim of the paper holds."""
    parts = []
    for name in ("walks", "epoch"):
        found = fits[name]
        linear = "linear" if found.linear else "not linear"
        parts.append(
            f"the time of {_QUANTITIES[name]} is {linear} (R² = {found.r2:.4f}, grows as |E|^{found.exponent:.2f})"
        )
    claim = "confirmed" if all(fits[name].linear for name in ("walks", "epoch")) else "not confirmed"
    return f"The paper's claim is **{claim}**: {' and '.join(parts)}."


def _growth(rows: list[dict[str, Any]]) -> str:
    """How the number of draws grows: faster than |E| if many early walks end for lack of earlier links."""
    found = fit([row["links"] for row in rows], [row["draws"] for row in rows])
    first, last = (rows[i]["draws"] / rows[i]["links"] for i in (0, -1))
    return (
        f"The number of links drawn grows as |E|^{found.exponent:.2f}, from {first:.0f} to {last:.0f} per training "
        "link; a walk ends early at a node without earlier links."
    )


def _fit_table(title: str, rows: list[dict[str, Any]], fits: dict[str, Fit], repetitions: int) -> Table:
    headings = ["time of", "constant, s", "slope, µs per link", f"R² (at least {LEAST_R2})", "exponent", "linear"]
    lines = [
        [
            _QUANTITIES[name],
            f"{found.constant:.3g}",
            f"{1e6 * found.slope:.3g} ± {1e6 * found.slope_half:.2g}",
            f"{found.r2:.4f}",
            f"{found.exponent:.3f} ± {found.exponent_half:.3f}",
            "yes" if found.linear else "no",
        ]
        for name, found in fits.items()
    ]
    note = f"Number of sizes: {len(rows)}; number of repetitions: {repetitions}. Seconds = constant + slope |E|."
    return Table(headings, lines, f"{title}: fits", note)


def _time_table(title: str, rows: list[dict[str, Any]]) -> Table:
    headings = [
        "training links",
        "walk extraction, s",
        "links drawn per second",
        "epoch, s",
        "walk extraction / epoch",
        "index, s",
    ]
    lines = [
        [
            f"{row['links']:,}",
            f"{row['walks']:.3g}",
            f"{row['draws'] / row['walks']:,.0f}",
            f"{row['epoch']:.3g}",
            f"{100 * row['walks'] / row['epoch']:.1f} %",
            f"{row['index']:.3g}",
        ]
        for row in rows
    ]
    note = "On the CPU, walks are prefetched by another thread while the network computes, so they may add no time."
    return Table(headings, lines, f"{title}: shortest times", note)


def _drawing(rows: list[dict[str, Any]], fits: dict[str, Fit]) -> Callable[[Any], None]:
    def draw(figure: Any) -> None:
        links = np.array([row["links"] for row in rows])
        panels = figure.subplots(1, 2)
        for letter, axis, name, colour in zip("ab", panels, ("walks", "epoch"), COLOURS, strict=False):
            found = fits[name]
            axis.plot(links, [row[name] for row in rows], "o", color=colour, markersize=4)
            axis.plot(links, found.constant + found.slope * links, color=colour, linewidth=1)
            axis.set_title(f"({letter}) {_QUANTITIES[name]}, R² = {found.r2:.4f}")
            axis.set_xlabel("training links")
            axis.set_ylabel("seconds")
            axis.set_xlim(left=0)
            axis.set_ylim(bottom=0)
            axis.grid(visible=True)

    return draw
