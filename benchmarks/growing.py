"""An index that links are appended to, against one built at once; and the memory of links that arrive."""

import time
import warnings
from collections.abc import Iterator
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import cawn
from benchmarks.engine import LENGTH, M, late_queries, power_law_events
from benchmarks.report import Row, best_time, resident_bytes
from cawn.data.decays import ladder, time_unit
from cawn.data.names import NameIndex
from cawn.data.updates import GrowingEvents, NewLinks
from cawn.index.features import PairParts
from cawn.index.growing import GrowingIndex
from cawn.index.index import Index

ANY_TIME = 1e18  # arriving links may be far ahead of the few links of the run
BATCH = 1_000  # links that are appended at once
FEATURES = {
    "walks alone": PairParts(False, False, False, False, False),
    "rates": PairParts(True, True, False, False, False),
    "all features": PairParts(),
}


def index_of(events: cawn.Events, whole: cawn.Events, parts: PairParts) -> Index:
    """The index of some events; decays and unit are those of the whole network."""
    return Index.of(events, np.array(ladder(whole.intensity)), parts.kinds, parts.decay(time_unit(whole)))


def grown(events: cawn.Events, first: int, parts: PairParts) -> tuple[GrowingIndex, float, float]:
    """An index of the first links to which all others are appended, links per second, and CPU seconds per link."""
    index = GrowingIndex(events[:first], index_of(events[:first], events, parts))
    links, names = GrowingEvents(events[:first]), NameIndex.of(np.arange(events.num_nodes))

    def append(start: int, stop: int) -> None:
        part = slice(start, stop)
        new = NewLinks(events.src[part], events.dst[part], events.t[part], None, None, names, [])
        index.append(*links.add(new))

    append(first, first)  # compiles
    append(first, first + BATCH)
    size, start, cpu = len(events) - first - BATCH, time.perf_counter(), time.process_time()
    for each in range(first + BATCH, len(events), BATCH):
        append(each, each + BATCH)
    return index, size / (time.perf_counter() - start), (time.process_time() - cpu) / size


def growing(scale: float = 1.0) -> list[Row]:
    first, appends = max(int(1_000_000 * scale), BATCH), max(int(1_000 * scale), 2)
    events = power_law_events(first + appends * BATCH)
    rows = []
    for name, parts in FEATURES.items():
        index, rate, cpu = grown(events, first, parts)
        detail = f"batches of {BATCH:,} to {first:,} links; {cpu * 1e6:.1f} µs of CPU time per link"
        rows.append(Row(f"append to the index, {name}", rate, 500_000, unit="links/s", detail=detail))
        if name == "walks alone":
            rows.append(
                _walks(cawn.History.of(index.version), cawn.History(events, ladder(events.intensity)), events, appends)
            )
    return rows


def _walks(live: cawn.History, fresh: cawn.History, events: cawn.Events, appends: int) -> Row:
    nodes, t = late_queries(events, 2_000)
    times: dict[str, list[float]] = {"live": [], "fresh": []}
    for _ in range(5):
        for name, history in (("live", live), ("fresh", fresh)):
            sample = partial(history.sample, nodes, t, num_walks=M, length=LENGTH, seed=0, threads=1)
            times[name].append(best_time(sample, 2))
    rate = M * len(nodes) / min(times["live"]) / 1e6
    what = f"walks/s after {appends:,} appends against a fresh build"
    return Row(what, min(times["fresh"]) / min(times["live"]), 0.7, detail=f"{rate:.1f} million walks/s on one core")


class Arriving:
    """Columns of links between nodes of a power-law network, with ascending times: n0, n17, ..."""

    def __init__(self, num_nodes: int, start: int, seed: int = 0) -> None:
        self._rng, self._t = np.random.default_rng(seed), start
        self._weight = np.cumsum(np.arange(1, num_nodes + 1) ** -0.7)

    def take(self, size: int) -> tuple[list[str], list[str], list[int]]:
        drawn = self._rng.random((2, size)) * self._weight[-1]
        src, dst = np.searchsorted(self._weight, drawn).tolist()
        t = (self._t + np.arange(1, size + 1)).tolist()
        self._t += size
        return [f"n{node}" for node in src], [f"n{node}" for node in dst], t

    def batches(self, links: int, size: int) -> Iterator[tuple[list[str], list[str], list[int]]]:
        for done in range(0, links, size):
            yield self.take(min(size, links - done))


def memory(run: Path, system: str, links: int) -> list[Row]:
    """Memory that links need which are appended to a predictor, in a process of its own."""
    with get_context("spawn").Pool(1) as pool:
        resident, held = pool.apply(bytes_per_link, (str(run), links))
    detail = f"{links // 2:,} to {links:,} links; the index counts {held:.0f}"
    return [Row(f"memory of arriving links, {system}", resident, 120, "<=", "B/link", detail)]


def bytes_per_link(run: str, links: int) -> tuple[float, float]:
    """The growth of resident memory, and of what the index counts, over the second half of the links."""
    warnings.filterwarnings("ignore", "t is ", UserWarning)  # far from the few links of the run
    predictor = cawn.LinkPredictor.load(run, device="cpu", threads=1, max_ahead=ANY_TIME)
    _ = predictor.snapshot().parts
    arriving = Arriving(max(links // 10, 10), predictor.watermark)
    measured = []
    for half in (links // 2, links - links // 2):
        for batch in arriving.batches(half, 10_000):
            predictor.append(*batch)
        measured.append(np.array([resident_bytes(), _index_bytes(predictor)]))
    resident, held = (measured[1] - measured[0]) / (links - links // 2)
    return float(resident), float(held)


def _index_bytes(predictor: cawn.LinkPredictor) -> int:
    scorer: Any = predictor.snapshot().scorer
    index = getattr(scorer, "_growing", None) or scorer.batcher.growing
    assert isinstance(index, GrowingIndex)
    return index.nbytes
