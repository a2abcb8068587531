"""Estimates of what an index will take, before there is one: bytes by formula, time by a trial on this machine."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cawn.data.decays import ladder
from cawn.data.events import Events
from cawn.errors import QueryError
from cawn.index.features import PairParts
from cawn.index.files import write_index
from cawn.index.index import MAX_EVENTS
from cawn.index.sizes import LINK_BYTES, LinkCounts, index_bytes, memory_to_build, temporary_bytes
from cawn.progress import progress

_TRIAL = 1 << 19  # links
_LEAST = 48 << 20  # bytes of memory of a trial


class Estimate(NamedTuple):
    """What an index takes; bytes and seconds."""

    memory: int  # of the index and its links, if they are in memory
    building: int  # of memory while it is built there
    disk: int  # of an index folder, without attributes and names
    temporary: int  # of disk while the folder is written within `limit`; 0 if the index is built in memory
    seconds: float  # to write its files, without reading the log


def parse_counts(given: list[str]) -> LinkCounts:
    """Counts from "links=1e9", "nodes=1e8", ..."; nodes are a tenth of the links if not given."""
    found = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            found[name.strip()] = int(float(value))
        except (ValueError, OverflowError):
            found[name] = 0
        if name.strip() not in LinkCounts._fields or found[name.strip()] < 1:
            raise QueryError(f"--estimate is {text!r}: give links=1e9, and nodes=, pairs= or transitions= alike")
    if "links" not in found:
        raise QueryError("--estimate lacks links=N")
    if (links := found["links"]) >= MAX_EVENTS:
        raise QueryError(f"{links:,} links: one index holds fewer than 2**30; split the log by time")
    return LinkCounts.at_most(**{"nodes": max(links // 10, 1)} | found)


def settings_to_estimate(config: Any) -> tuple[int, PairParts]:
    """The number of decays of a system's settings, and its features of pairs."""
    if not hasattr(config, "pair_parts"):
        raise QueryError("this system has no index; use cawn or rates")
    alpha = getattr(config, "alpha", None)
    number = isinstance(alpha, int | float)
    return 1 if number else len(alpha) if isinstance(alpha, tuple) else 8, config.pair_parts


def estimate(counts: LinkCounts, num_decays: int, parts: PairParts, limit: int, threads: int | None = None) -> Estimate:
    """What the index of so many links takes, built within a limit of memory.

    Time is that of a smaller network in the same proportions, within a limit of memory in the same proportion.
    """
    links, index = counts.links * LINK_BYTES, index_bytes(counts, num_decays, parts)
    building = memory_to_build(counts, num_decays, parts)
    temporary = temporary_bytes(counts, parts) if building > limit else 0
    share = min(_TRIAL / counts.links, 1.0)
    quiet: Any = partial(progress, quiet=True)
    for scale in (0.01 * share, share):  # the first one compiles
        events = _network(LinkCounts(*(max(int(scale * count), 2) for count in counts)))
        memory = 1 << 62
        if building > limit:
            needed = memory_to_build(LinkCounts.at_most(len(events), events.num_nodes), num_decays, parts)
            memory = max(int(share * limit), _LEAST)
            memory = memory if needed > memory else _LEAST // 4
        decays = tuple(ladder(1.0)[:1]) * num_decays
        with tempfile.TemporaryDirectory(prefix="cawn-") as folder:
            start = time.perf_counter()
            write_index(events, decays, 1.0, parts, Path(folder), memory=memory, threads=threads, report=quiet)
            seconds = time.perf_counter() - start
    return Estimate(index + links, building, index + links, temporary, seconds / len(events) * counts.links)


def _network(counts: LinkCounts) -> Events:
    """Random links with about these numbers of nodes and pairs."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, counts.nodes, (2, max(counts.pairs, 1)))
    src, dst = pairs[:, rng.integers(0, pairs.shape[1], counts.links)]
    return Events(src, dst, np.arange(counts.links), num_nodes=counts.nodes)
