"""The live service: `python -m benchmarks serving [--quick|--full] [--only PART,...] [--json]`.

Measures the index that grows, the predictor, `cawn serve` over loopback, and a restart, each figure beside its bar.
Latencies are only meaningful on a machine that does nothing else. Load goes to this machine alone, is bounded in time
and count, and needs no network. Lost links are counted by `python tools/server_kills.py`.
"""

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import cawn
from benchmarks.engine import power_law_events
from benchmarks.growing import ANY_TIME, Arriving, growing, memory
from benchmarks.http_load import Connection, Server, closed_loop, open_loop, percentile, post
from benchmarks.report import Row, processor
from cawn.kernels.threads import num_cores
from cawn.serve.links import SubmittedLinks
from cawn.serve.state import open_state
from cawn.serve.writer import Writer
from cawn.systems.rates import RatesSettings

RATE = 200  # requests for a score per second, in the open loop
BESIDE = 1_000  # links per second that arrive beside them
CONNECTIONS = 32
NAMED = ("hub", "quiet")  # nodes with many links and with few


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    trained: int = 1_500  # links
    index: float = 1.0  # of a million links
    memory: int = 400_000  # links
    nodes: int = 10_000
    scores: int = 400
    hub: int = 300_000  # links
    batches: int = 150  # of 1,000 links
    single: int = 6_000  # links, one by one
    seconds: float = 15.0  # of the open loop
    rounds: int = 3
    restart: int = 300_000  # links


QUICK = Size(300, 0.001, 4_000, 100, 5, 1_000, 3, 20, 0.1, 1, 2_000)
FULL = Size(1_500, 1.0, 10_000_000, 100_000, 2_000, 10_000_000, 500, 20_000, 60.0, 5, 10_000_000)


def train(folder: Path, system: str, links: int) -> Path:
    """A run of the default preset on a small network, trained for one epoch."""
    plain = power_law_events(links)
    names = [f"n{i}" for i in range(plain.num_nodes)]
    events = cawn.Events(plain.src, plain.dst, plain.t // 10**6, labels=names)
    config: Any = cawn.Config(epochs=1) if system == "cawn" else RatesSettings(epochs=1)
    options: dict[str, Any] = {
        "task": cawn.Task(negatives=("random",), baselines=False),
        "device": "cpu",
        "quiet": True,
    }
    cawn.train(events, config, out=folder / system, **options)
    return folder / system


def index_rows(folder: Path, size: Size) -> Iterator[Row]:
    yield from growing(size.index)
    for system in ("rates", "cawn"):
        yield from memory(_run(folder, system, size), system, size.memory)


def predictor_rows(folder: Path, size: Size) -> Iterator[Row]:
    predictor = cawn.LinkPredictor.load(_run(folder, "cawn", size), device="cpu", max_ahead=ANY_TIME)
    arriving = Arriving(size.nodes, predictor.watermark)
    _ = predictor.snapshot().parts
    for batch in arriving.batches(20 * size.nodes, 10_000):
        predictor.append(*batch)
    src, dst, _ = arriving.take(size.scores)
    now = predictor.watermark + 1
    predictor.score(src[:1], dst[:1], now)
    one = _timed(lambda i: predictor.score(src[i], dst[i], now), size.scores)
    yield Row("score of one pair, p50", percentile(one, 0.5), 10, "<=", "ms", f"p99 {percentile(one, 0.99):.1f} ms")
    names = [f"n{i}" for i in range(1_000)]
    ranked = _timed(lambda i: predictor.rank(src[i], now, candidates=names), min(size.scores, 20))
    yield Row("rank of 1,000 candidates, p50", percentile(ranked, 0.5), 150, "<=", "ms")
    ends = arriving.take(100)[:2]
    many = _timed(lambda _: predictor.score(*ends, now), min(size.scores, 50))
    yield Row("scores in batches of 100 pairs", 100 / float(np.median(many)), None, unit="pairs/s")
    links = list(arriving.batches(min(size.single, 2_000), 1))
    added = _timed(lambda i: predictor.append(*links[i]), len(links))
    yield Row("append one by one", len(added) / sum(added), None, unit="links/s")
    yield _hub(predictor, arriving, size)


def _hub(predictor: cawn.LinkPredictor, arriving: Arriving, size: Size) -> Row:
    """Scores of a node with many links against one with 100, in turns."""
    for src, dst, t in arriving.batches(size.hub, 100_000):
        del src
        predictor.append(["hub"] * len(dst), dst, t)
    _, dst, t = arriving.take(100)
    predictor.append(["quiet"] * 100, dst, t)
    now, times = predictor.watermark + 1, {"hub": list[float](), "quiet": list[float]()}
    predictor.score("hub", "n0", now)
    for i in range(size.scores):
        for name, seconds in times.items():
            seconds += _timed(lambda _, name=name, i=i: predictor.score(name, f"n{i % size.nodes}", now), 1)
    hub, quiet = (percentile(seconds, 0.99) for seconds in times.values())
    what = f"p99 of a score, node with {size.hub:,} links against one with 100"
    return Row(what, hub / quiet, 1.5, "<=", detail=f"{hub:.1f} and {quiet:.1f} ms")


def server_rows(folder: Path, size: Size) -> Iterator[Row]:
    run, state = _run(folder, "cawn", size), folder / "state"
    threads = max(num_cores() - 1, 1)
    offline = cawn.LinkPredictor.load(run, device="cpu", threads=threads, max_ahead=ANY_TIME)
    _ = offline.snapshot().parts
    arriving = Arriving(size.nodes, offline.watermark)
    with Server(run, state) as server:
        load = Load(server, offline, arriving, size)
        yield load.ingest("links stored and visible, batches of 1,000", size.batches, 1_000, 2, 50_000)
        yield load.ingest("links stored and visible, one by one", size.single, 1, CONNECTIONS, 2_000)
        yield load.links_arrived()
        yield from load.scores()
        yield load.throughput()
        yield load.ranking()
        yield load.generator_share()
    loaded, store = open_state(run, state, device="cpu", threads=threads)
    pairs = *arriving.take(100)[:2], offline.watermark + 1
    largest = float(np.abs(loaded.embed(*pairs) - offline.embed(*pairs)).max())
    store.close()
    yield Row("embeddings after a restart against offline, difference", largest, 0.0, "<=", "")


class Load:
    """Requests to a server; what is added is also added to a predictor in this process."""

    def __init__(self, server: Server, offline: cawn.LinkPredictor, arriving: Arriving, size: Size) -> None:
        self._server, self._offline, self._arriving, self._size = server, offline, arriving, size
        self._cpu = time.process_time(), server.cpu_seconds()
        self._mine = 0.0  # CPU time of this process that did not generate load
        self._invisible = 0

    def ask(self, request: bytes) -> dict[str, Any]:
        async def send() -> dict[str, Any]:
            connection = Connection(self._server.port)
            try:
                return await connection.send(request)
            finally:
                await connection.close()

        return asyncio.run(send())

    def ingest(self, what: str, count: int, size: int, connections: int, bar: float) -> Row:
        """Links added per second. Every now and then, a score must come from a history with the last links."""
        requests, score = self._links(count, size), post("/v1/score", {"src": "n0", "dst": "n1"})

        async def check(connection: Connection, i: int, answer: dict[str, Any]) -> None:
            if answer["added"] != size:
                raise SystemExit(f"benchmarks: {answer} after {size} links")
            if i % max(count // 10, 1) == 0:
                self._invisible += (await connection.send(score))["version"] < answer["version"]

        cpu, start = self._server.cpu_seconds(), time.perf_counter()
        asyncio.run(closed_loop(self._server.port, requests, connections, check))
        seconds = time.perf_counter() - start
        cpu = (self._server.cpu_seconds() - cpu) / (count * size) * 1e6
        detail = f"{connections} connections; {cpu:.0f} µs of CPU time per link"
        return Row(what, count * size / seconds, bar, unit="links/s", detail=detail)

    def links_arrived(self) -> Row:
        """Links that were acknowledged and are not in the history, or not visible to the next score."""
        found = self.ask(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n")["links"]
        missing = abs(self._offline.num_links - found) + self._invisible
        return Row("acknowledged links missing, doubled or invisible", missing, 0, "<=", "")

    def scores(self) -> list[Row]:
        """One pair at a constant rate, while links arrive."""
        src, dst, _ = self._take(int(RATE * self._size.seconds))
        scores = [post("/v1/score", {"src": u, "dst": v}) for u, v in zip(src, dst, strict=True)]
        links = self._links(max(int(BESIDE / 100 * self._size.seconds), 1), 100)

        async def both() -> list[float]:
            port = self._server.port
            found, _ = await asyncio.gather(
                open_loop(port, scores, RATE, CONNECTIONS), open_loop(port, links, BESIDE / 100, 4)
            )
            return found

        found = asyncio.run(both())
        what = f"score of one pair at {RATE} requests/s with {BESIDE:,} links/s"
        detail = f"{len(found):,} requests; longest {max(found) * 1e3:.0f} ms"
        return [
            Row(f"{what}, p50", percentile(found, 0.5), 10, "<=", "ms", detail),
            Row(f"{what}, p99", percentile(found, 0.99), 50, "<=", "ms", detail),
        ]

    def throughput(self) -> Row:
        """Batches of 100 pairs over HTTP and in this process, in turns."""
        ends = [self._take(100)[:2] for _ in range(20)]
        t = self._offline.watermark + 1
        requests = [post("/v1/score", {"src": u, "dst": v, "t": t}) for u, v in ends]
        with self._not_load():
            self._offline.score(*ends[0], t)
        best = {"server": float("inf"), "predictor": float("inf")}
        for _ in range(self._size.rounds):
            start = time.perf_counter()
            asyncio.run(closed_loop(self._server.port, requests, 2))
            best["server"] = min(best["server"], time.perf_counter() - start)
            with self._not_load():
                seconds = sum(_timed(lambda i: self._offline.score(*ends[i], t), len(ends)))
            best["predictor"] = min(best["predictor"], seconds)
        detail = f"{2_000 / best['server']:,.0f} pairs/s over HTTP, {2_000 / best['predictor']:,.0f} by predictor.score"
        return Row(
            "batches of 100 pairs against predictor.score", best["predictor"] / best["server"], 0.7, detail=detail
        )

    def ranking(self) -> Row:
        names = [f"n{i}" for i in range(1_000)]
        sources = self._take(20)[0][: max(self._size.scores // 20, 2)]
        requests = [post("/v1/rank", {"src": src, "candidates": names}) for src in sources]
        found = asyncio.run(closed_loop(self._server.port, requests, 1))
        return Row("rank of 1,000 candidates over HTTP, p50", percentile(found, 0.5), 150, "<=", "ms")

    def generator_share(self) -> Row:
        mine = time.process_time() - self._cpu[0] - self._mine
        share = mine / (mine + self._server.cpu_seconds() - self._cpu[1])
        return Row("share of CPU time that this load took", 100 * share, None, unit="%")

    def _take(self, size: int) -> tuple[list[str], list[str], list[int]]:
        """Names of some pairs; their times are never used."""
        return Arriving(self._size.nodes, 0, seed=size).take(size)

    def _links(self, count: int, size: int) -> list[bytes]:
        """Requests that add links, which are added to the predictor of this process now."""
        requests = []
        with self._not_load():
            for src, dst, t in self._arriving.batches(count * size, size):
                requests.append(post("/v1/links", {"src": src, "dst": dst, "t": t}))
                self._offline.append(src, dst, t)
        return requests

    def _not_load(self) -> "_Uncounted":
        return _Uncounted(self)

    def uncount(self, seconds: float) -> None:
        self._mine += seconds


class _Uncounted:
    """CPU time of this process that is not part of the load."""

    def __init__(self, load: Load) -> None:
        self._load = load

    def __enter__(self) -> None:
        self._start = time.process_time()

    def __exit__(self, *_: object) -> None:
        self._load.uncount(time.process_time() - self._start)


def restart_rows(folder: Path, size: Size) -> Iterator[Row]:
    """Restarts with many links, after a stop and after kill -9, and what the server then needs and answers."""
    run, state, links = _run(folder, "cawn", size), folder / "restart", size.restart
    arriving = Arriving(size.nodes, 1_000)
    _store(run, state, arriving, links)
    for after in ("a stop", "kill -9"):
        with Server(run, state) as server:
            what = f"restart with {links:,} links after {after}, until ready"
            yield Row(what, server.start_seconds, 20, "<=", "s")
            if after == "kill -9":
                yield from _scores_among(server, arriving, links, size)
            server.stop(signal.SIGKILL)


def _scores_among(server: Server, arriving: Arriving, links: int, size: Size) -> Iterator[Row]:
    """Scores while links arrive; and of a node with a tenth of all links, against one with 100."""
    count = int(RATE * size.seconds)
    pairs = zip(*Arriving(size.nodes, 0, seed=1).take(count)[:2], strict=True)
    scores = [post("/v1/score", {"src": u, "dst": v}) for u, v in pairs]
    added = arriving.batches(100 * max(int(BESIDE / 100 * size.seconds), 1), 100)
    batches = [post("/v1/links", dict(zip(("src", "dst", "t"), batch, strict=True))) for batch in added]

    async def both() -> list[float]:
        found, _ = await asyncio.gather(
            open_loop(server.port, scores, RATE, CONNECTIONS), open_loop(server.port, batches, BESIDE / 100, 4)
        )
        return found

    found = asyncio.run(both())
    detail = f"p50 {percentile(found, 0.5):.1f} ms; longest {max(found) * 1e3:.0f} ms"
    what = f"p99 of a score among {links:,} links, {RATE} requests/s with {BESIDE:,} links/s"
    yield Row(what, percentile(found, 0.99), 25, "<=", "ms", detail)
    yield Row(f"memory of the server with {links:,} links", server.resident_bytes() / 1e9, 7, "<=", "GB")
    asked = [[post("/v1/score", {"src": name, "dst": f"n{i % size.nodes}"}) for i in range(count)] for name in NAMED]
    hub, quiet = (percentile(asyncio.run(closed_loop(server.port, some, 1)), 0.99) for some in asked)
    what = f"p99 of a score over HTTP, node with {links // 10:,} links against one with 100"
    yield Row(what, hub / quiet, 1.5, "<=", detail=f"{hub:.1f} and {quiet:.1f} ms")


def _store(run: Path, state: Path, arriving: Arriving, links: int) -> None:
    """Add links to a live state in this process: every tenth of "hub", the last 100 of "quiet"."""
    predictor, store = open_state(run, state, device="cpu")
    writer = Writer(predictor, store, max_ahead=ANY_TIME)
    writer.start()
    hub, quiet = NAMED
    for src, dst, t in arriving.batches(links - 100, 10_000):
        src[::10] = [hub] * len(src[::10])
        writer.submit(SubmittedLinks(src, dst, t)).result()
    _, dst, t = arriving.take(100)
    writer.submit(SubmittedLinks([quiet] * 100, dst, t)).result()
    writer.stop()
    store.close()


def kill_rows(_folder: Path, _size: Size) -> Iterator[Row]:
    print("kill -9, links lost and doubled: python tools/server_kills.py --kills 200", file=sys.stderr)
    return iter(())


PARTS: dict[str, Callable[[Path, Size], Iterator[Row]]] = {
    "index": index_rows,
    "predictor": predictor_rows,
    "server": server_rows,
    "restart": restart_rows,
    "kills": kill_rows,
}


def _run(folder: Path, system: str, size: Size) -> Path:
    """The run of a system, which is trained if there is none yet."""
    return folder / system if (folder / system).exists() else train(folder, system, size.trained)


def _timed(call: Callable[[int], object], count: int) -> list[float]:
    """Seconds of each call."""
    seconds = []
    for i in range(count):
        start = time.perf_counter()
        call(i)
        seconds.append(time.perf_counter() - start)
    return seconds


def line(row: Row, *, quick: bool) -> str:
    figure = f"{row.measured:,.0f}" if row.measured >= 1_000 else f"{row.measured:.3g}"
    bar = "" if row.bar is None else f", bar {row.sign} {row.bar:,g}: {'-' if quick else 'yes' if row.passed else 'no'}"
    detail = f" ({row.detail})" if row.detail else ""
    return f"{row.what}: {figure} {row.unit}".rstrip() + bar + detail


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks serving", description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="very small; the bars do not apply")
    size.add_argument("--full", action="store_true", help="10 million links; needs an hour and 16 GB of memory")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--links", type=int, help="links of the measurement of memory")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    names = options.only.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    chosen = QUICK if options.quick else FULL if options.full else Size()
    if options.links:
        chosen = Size(**asdict(chosen) | {"memory": options.links})
    if not options.json:
        print(processor())
    rows = []
    warnings.filterwarnings("ignore", "t is ", UserWarning)  # far from the few links of the run
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for row in PARTS[name](Path(folder), chosen):
                rows.append(row)
                if not options.json:
                    print(line(row, quick=options.quick), flush=True)
    if options.json:
        print(json.dumps([asdict(row) | {"passed": row.passed} for row in rows], indent=2))
    return 0 if options.quick or all(row.passed for row in rows) else 1
