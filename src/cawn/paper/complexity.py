"""The paper's complexity evaluation: time of walk extraction and of a training epoch against the number of links."""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from cawn.caw.config import Config
from cawn.data.events import Events
from cawn.learn.metrics import t_quantile
from cawn.learn.plots import COLOURS
from cawn.learn.trainer import Trainer
from cawn.paper.experiments import Content, Experiment, Finding, Plot, Request, Table, listing
from cawn.paper.measurements import Measurement, Work, config_of, described
from cawn.paper.published import display_name
from cawn.paper.records import Records
from cawn.paper.results import Result
from cawn.paper.variants import paper_config
from cawn.studies.jobs import Send
from cawn.walks.history import History

Array = npt.NDArray[Any]
Value = TypeVar("Value")

SIZES = 10
SETTINGS = {"num_walks": 32, "length": 2, "batch_size": 32}  # of the paper's figure
LEAST_R2 = 0.98
_EXPONENT = 0.2  # largest distance from 1 of the exponent of a linear cost
_WARM_UP = 3  # steps: the first captures the CUDA graph
_QUANTITIES = {"walks": "walk extraction", "epoch": "an epoch", "index": "building the index"}


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

    def show(self, records: Records) -> Content | None:
        section = Content([])
        for network, device in product(records.results.networks, ("cpu", "cuda")):
            if repetitions := records.results.labelled(f"complexity, {device}", network):
                where = f"{display_name(network)}, {repetitions[0].device}"
                rows = shortest(repetitions)
                fits = {name: fit([row["links"] for row in rows], [row[name] for row in rows]) for name in _QUANTITIES}
                section.used.extend(repetitions)
                section.tables.extend(_tables(where, rows, fits, len(repetitions)))
                section.plots.append(Plot(where, partial(_draw, rows, fits), (8.0, 3.0)))
                section.claims.extend(_claims(where, rows, fits))
        return section if section.used else None


# The measurement


def measure(work: Work, send: Send) -> dict[str, Any]:
    """The times of every size, measured in random order after a warm-up on the smallest, which compiles the kernels."""
    events, settings = work.events(), work.settings
    config = config_of(settings)
    assert isinstance(config, Config)
    config = config.with_(alpha=config.decays(events.intensity))  # the same for all sizes
    sizes = len(events) * np.arange(1, settings["sizes"] + 1) // settings["sizes"]
    order = np.random.default_rng(settings["seed"]).permutation(sizes)
    done, rows = 0, []
    for size in [sizes[0], *order]:
        rows.append(_times(events[: int(size)], config, work))
        done += size
        send({"done": float(done / (sizes[0] + sizes.sum()))})
    return {"rows": sorted(rows[1:], key=lambda row: row["links"])}


def _times(events: Events, config: Config, work: Work) -> dict[str, Any]:
    """Seconds to build the index, to sample the walks of an epoch, and to train for an epoch."""
    trainer = Trainer(events, config, seed=work.settings["seed"], device=work.device, threads=work.threads, quiet=True)
    gc.collect()  # frees what the last trainer had on the device
    history, index = timed(trainer.device, lambda: History(trainer.visible, config.decays(0.0), threads=work.threads))
    draws, walks = _walk_times(trainer, history, config)
    deque(islice(trainer.steps(0, 0), _WARM_UP), maxlen=0)
    _, epoch = timed(trainer.device, lambda: deque(trainer.steps(1, 0), maxlen=0))
    seconds = {"index": round(index, 7), "walks": round(walks, 7), "epoch": round(epoch, 7)}
    return {"links": len(trainer.training.positions), "draws": draws, **seconds}


def _walk_times(trainer: Trainer, history: History, config: Config) -> tuple[int, float]:
    """The number of links drawn for the walks of all batches of an epoch, and the seconds to sample them in order."""
    on_host = trainer.device.type == "cpu"
    batches = trainer.training.batches(1, 0) if on_host else trainer.training.tensors(1, 0, trainer.device)
    join: Callable[[list[Any]], Any] = np.concatenate if on_host else torch.cat
    queries = [(join([batch.src, batch.dst, batch.negative]), join([batch.t] * 3)) for batch in batches]
    sampler: Any = history.to(trainer.device)
    options: dict[str, Any] = {"seed": 1, "num_walks": config.num_walks, "length": config.length}
    if on_host:
        options["threads"] = 1  # as in training, where the network uses the other cores
    drawn = [(sampler.sample(*query, **options).events >= 0).sum() for query in queries]  # also compiles
    _, seconds = timed(trainer.device, lambda: deque((sampler.sample(*q, **options) for q in queries), maxlen=0))
    return int(sum(drawn)), seconds


def timed(device: torch.device, call: Callable[[], Value]) -> tuple[Value, float]:
    """What a call returns, and the seconds that it takes; on a GPU until the device has finished."""

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    start = now()
    value = call()
    return value, now() - start


# The fit


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
    slope, constant, half = _line(x, y)
    exponent, _, exponent_half = _line(np.log(x), np.log(y))
    rest, total = y - constant - slope * x, y - y.mean()
    return Fit(constant, slope, half, float(1 - rest @ rest / (total @ total)), exponent, exponent_half)


def _line(x: Array, y: Array) -> tuple[float, float, float]:
    """Slope, intercept, and half the width of the slope's 95 % confidence interval."""
    centred, freedom = x - x.mean(), len(x) - 2
    slope = float(centred @ y / (centred @ centred))
    rest = y - y.mean() - slope * centred
    error = float(np.sqrt(rest @ rest / freedom / (centred @ centred)))
    return slope, float(y.mean() - slope * x.mean()), t_quantile(freedom) * error


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


# The report


def _claims(where: str, rows: list[dict[str, Any]], fits: dict[str, Fit]) -> list[Finding]:
    """Whether the times that the paper calls linear are, and the number of links drawn."""
    first, last = (f"{row['draws'] / row['links']:.0f}" for row in (rows[0], rows[-1]))
    claimed = {f"the time of {_QUANTITIES[name]}": fits[name] for name in ("walks", "epoch")}
    draws = fit([row["links"] for row in rows], [row["draws"] for row in rows])
    claimed[f"the number of links drawn ({first} to {last} per training link)"] = draws
    return [
        Finding.that(
            f"{what} is linear in |E|", where, one.linear, "|E|^{exponent:.2f}, R² = {r2:.4f}".format_map(vars(one))
        )
        for what, one in claimed.items()
    ]


_FIT_COLUMNS = {
    "time of": "{quantity}",
    "constant, s": "{constant:.3g}",
    "slope, µs per link": "{micro:.3g} ± {micro_half:.2g}",
    f"R² (at least {LEAST_R2})": "{r2:.4f}",
    "exponent": "{exponent:.3f} ± {exponent_half:.3f}",
    "linear": "{verdict}",
}
_TIME_COLUMNS = {
    "training links": "{links:,}",
    "walk extraction, s": "{walks:.3g}",
    "links drawn per second": "{rate:,.0f}",
    "epoch, s": "{epoch:.3g}",
    "walk extraction / epoch": "{share:.1%}",
    "index, s": "{index:.3g}",
}


def _tables(title: str, rows: list[dict[str, Any]], fits: dict[str, Fit], repetitions: int) -> list[Table]:
    lines = [
        {"quantity": _QUANTITIES[name], "micro": 1e6 * one.slope, "micro_half": 1e6 * one.slope_half, **vars(one)}
        | {"verdict": "yes" if one.linear else "no"}
        for name, one in fits.items()
    ]
    note = f"Number of sizes: {len(rows)}; number of repetitions: {repetitions}. Seconds = constant + slope |E|."
    times = [row | {"rate": row["draws"] / row["walks"], "share": row["walks"] / row["epoch"]} for row in rows]
    hidden = "On the CPU, walks are prefetched by another thread while the network computes, so they may add no time."
    fitted = listing(f"{title}: fits", _FIT_COLUMNS, lines, note)
    return [fitted, listing(f"{title}: shortest times", _TIME_COLUMNS, times, hidden)]


def _draw(rows: list[dict[str, Any]], fits: dict[str, Fit], figure: Any) -> None:
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
