"""The walk engine against naive twins, and against itself on larger networks. One core unless said otherwise."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
from tests.reference.walks import count_positions

import cawn
from benchmarks.report import Row, best_time, resident_bytes

M, LENGTH = 64, 2


def power_law_events(num_links: int, *, seed: int = 0) -> cawn.Events:
    """Ten links for each node on average, activity of rank r proportional to r ** -0.7; the same rate at any size."""
    rng = np.random.default_rng(seed)
    num_nodes = num_links // 10
    weight = np.cumsum(np.arange(1, num_nodes + 1) ** -0.7)
    rank = np.searchsorted(weight, rng.random((2, num_links)) * weight[-1])
    src, dst = rng.permutation(num_nodes)[np.minimum(rank, num_nodes - 1)]
    return cawn.Events(src, dst, np.sort(rng.integers(0, 10**9, num_links)), num_nodes=num_nodes)


def late_queries(events: cawn.Events, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Sources and times of links drawn from the later half."""
    chosen = np.random.default_rng(1).integers(len(events) // 2, len(events), size)
    return events.src[chosen], events.t[chosen]


def uci() -> cawn.Events:
    folder = os.environ.get("CAWN_DATA")
    if not folder:
        raise SystemExit("benchmarks: set CAWN_DATA to the folder with the networks (uci/edges.csv.gz)")
    return cawn.read(Path(folder) / "uci" / "edges.csv.gz")


def naive_walks(events: cawn.Events, alpha: float, nodes: np.ndarray, t: np.ndarray) -> None:
    """Per query: take all earlier links, normalise their weights, choose."""
    rng = np.random.default_rng(0)
    ends, others = np.concatenate([events.src, events.dst]), np.concatenate([events.dst, events.src])
    order = np.lexsort((np.tile(np.arange(len(events)), 2), ends))
    neighbour, times = others[order], np.tile(events.t, 2)[order]
    starts = np.searchsorted(ends[order], np.arange(events.num_nodes + 1))

    def choose(node: int, now: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        first = starts[node]
        stop = first + np.searchsorted(times[first : starts[node + 1]], now)
        if stop == first:
            return np.full(size, -1), np.full(size, -1)
        weights = np.exp(alpha * (times[first:stop] - now))
        chosen = first + rng.choice(stop - first, size, p=weights / weights.sum())
        return neighbour[chosen], times[chosen]

    for node, now in zip(nodes, t, strict=True):
        here, when = choose(node, now, M)
        for _ in range(LENGTH - 1):
            for k in range(M):
                if here[k] >= 0:
                    here[k], when[k] = (a[0] for a in choose(here[k], when[k], 1))


def walking(scale: float = 1.0) -> list[Row]:
    events, alpha = uci(), 1e-5
    history = cawn.History(events, alpha)
    nodes, t = late_queries(events, 2_000)
    few = max(int(300 * scale), 20)
    fast = best_time(lambda: history.sample(nodes, t, num_walks=M, length=LENGTH, seed=0, threads=1), 20) / len(nodes)
    slow = best_time(lambda: naive_walks(events, alpha, nodes[:few], t[:few]), 3) / few
    rate = M / fast
    all_cores = best_time(lambda: history.sample(nodes, t, num_walks=M, length=LENGTH, seed=0), 20) / len(nodes)
    detail = f"{rate / 1e6:.1f} million walks/s on one core, {M / all_cores / 1e6:.1f} on all; the loop {M / slow:,.0f}"
    return [Row("walks, UCI, M=64, m=2, against normalise-and-choice in NumPy", slow / fast, 120, ">=", detail=detail)]


def identities(scale: float = 1.0) -> list[Row]:
    events = uci()
    history = cawn.History(events, 1e-5)
    nodes, t = late_queries(events, 2_000)
    walks_u = history.sample(nodes, t, num_walks=M, length=LENGTH, seed=0)
    walks_v = history.sample(np.roll(nodes, 1), t, num_walks=M, length=LENGTH, seed=0)
    few = max(int(200 * scale), 20)

    def by_dictionary() -> None:
        for b in range(few):
            count_positions(walks_u.nodes[b], walks_v.nodes[b])

    fast = best_time(lambda: cawn.anonymize(walks_u, walks_v, threads=1), 20) / len(nodes)
    slow = best_time(by_dictionary, 3) / few
    detail = f"{1 / fast:,.0f} pairs/s on one core; the dictionaries {1 / slow:,.0f}"
    return [Row("relative identities, same size, against Python dictionaries", slow / fast, 80, ">=", detail=detail)]


@dataclass(frozen=True)
class Growth:
    """What a network of one size costs, on one core."""

    build: float  # seconds per event
    resident: float  # bytes per event, as the system counts them
    held: float  # bytes per event, as the arrays count them
    walks: float  # per second


def measure_growth(size: int) -> Growth:
    alpha = 4e-8  # tau / alpha is 0.5 for the average node, and thousands for the busiest
    events = power_law_events(size)
    build = best_time(lambda: cawn.History(events, alpha, threads=1), 3)
    before = resident_bytes()
    history = cawn.History(events, alpha, threads=1)
    resident = resident_bytes() - before
    nodes, t = late_queries(events, 5_000)
    walk = best_time(lambda: history.sample(nodes, t, num_walks=M, length=LENGTH, seed=0, threads=1))
    return Growth(build / size, resident / size, history.nbytes / size, M * len(nodes) / walk)


def scaling(scale: float = 1.0) -> list[Row]:
    small, large = int(1_000_000 * scale), int(10_000_000 * scale)
    measure_growth(1_000)  # compiles
    one, ten = measure_growth(small), measure_growth(large)
    walks = f"{ten.walks / 1e6:.1f} and {one.walks / 1e6:.1f} million walks/s on one core"
    build = f"{ten.build * 1e9:.0f} and {one.build * 1e9:.0f} ns per event on one core"
    return [
        Row(f"walks/s with {large:,} events against {small:,}", ten.walks / one.walks, 0.4, detail=walks),
        Row("history build, time per event, same two", ten.build / one.build, 1.5, "<=", detail=build),
        Row("history, resident memory", ten.resident, 80, "<=", "B/event", f"its arrays hold {ten.held:.1f}"),
    ]


def growth(scale: float = 1.0) -> list[Row]:
    """The figures behind docs/scale.md; needs 14 GB of memory."""
    measure_growth(1_000)
    sizes = [int(scale * size) for size in (1_000_000, 10_000_000, 100_000_000)]
    rows = []
    for size, at in zip(sizes, map(measure_growth, sizes), strict=True):
        detail = f"build {at.build * 1e9:.0f} ns per event, {at.resident:.1f} resident bytes per event"
        rows.append(Row(f"walks/s with {size:,} events, one core", at.walks, None, unit="/s", detail=detail))
    return rows


def streaming(scale: float = 1.0) -> list[Row]:
    batch, total, num_nodes = int(1_000_000 * scale), int(50_000_000 * scale), max(int(100_000 * scale), 10)
    events = power_law_events(batch)
    src, dst = events.src % num_nodes, events.dst % num_nodes
    stream = cawn.Stream(num_nodes, 1e-7, capacity=32)
    stream.append(src[:1], dst[:1], events.t[:1])
    seconds, resident = [], []
    for i in range(total // batch):
        t = events.t + i * 10**9
        seconds.append(best_time(lambda t=t: stream.append(src, dst, t), 1))
        resident.append(resident_bytes())
    growth = (resident[-1] - resident[0]) / resident[0]
    rate = total / sum(seconds)
    return [
        Row(
            "stream, events appended per second",
            rate,
            1e6,
            ">=",
            "/s",
            f"{total:,} events, {num_nodes:,} nodes, one core",
        ),
        Row(
            f"stream, memory after {total:,} events over that after {batch:,}",
            1 + growth,
            1.05,
            "<=",
            detail=f"{resident[0] / 2**20:.0f} MiB, then {resident[-1] / 2**20:.0f} MiB",
        ),
    ]


def reading(scale: float = 1.0) -> list[Row]:
    size = int(10_000_000 * scale)
    events = power_law_events(size)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("integer", "string"):
            names = events.src, events.dst
            columns = [
                pa.array(a) if kind == "integer" else pa.array(np.char.add("node", a.astype("U8"))) for a in names
            ]
            path = Path(folder) / f"{kind}.csv"
            csv.write_csv(pa.table([*columns, pa.array(events.t)], names=["src", "dst", "t"]), path)
            del columns
            peer = best_time(lambda path=path: csv.read_csv(path), 3)
            ours = best_time(lambda path=path: cawn.read(path), 3)
            detail = f"{size / ours / 1e6:.1f} against {size / peer / 1e6:.1f} million rows/s, all cores"
            what = f"CSV of {size:,} rows, {kind} names, to Events: speed of pyarrow.csv"
            rows.append(Row(what, peer / ours, 1 / 3 if kind == "integer" else None, detail=detail))
            path.unlink()
    return rows
