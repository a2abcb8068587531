"""LinkPredictor: what a user holds. Names and times in, probabilities out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cawn.batches import PAIRS_PER_BATCH, WALK_SEED, Batch, Batcher, ahead, pairs_within
from cawn.calibration import FITTED_PRIOR, Calibration
from cawn.candidates import KINDS, Candidates
from cawn.devices import Device
from cawn.engines import Engine, engine_of, load_engine
from cawn.errors import DataError, QueryError
from cawn.events import Events, as_array, as_times
from cawn.name_index import UNKNOWN, Name, NameIndex, two_sided
from cawn.readers import read
from cawn.readers.tables import Source
from cawn.readers.tables import as_times as times_of
from cawn.runs import (
    read_batcher,
    read_calibration,
    read_description,
    read_network,
    write_index,
    write_network,
)
from cawn.splits import digest
from cawn.walks import query_times

if TYPE_CHECKING:
    from cawn.training import Run

Array = npt.NDArray[Any]
Names = Name | Iterable[Name]

MAX_DRAWS = 1_000


class Scores(NamedTuple):
    """Probabilities, and how far they would move by other walks: the standard error over the draws. [B] each."""

    probability: npt.NDArray[np.float64]
    error: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ranked:
    """One candidate: its name, the probability, and why it was considered."""

    name: Name
    probability: float
    found: str  # "given", or the kind of candidate


class LinkPredictor:
    """A trained model with the history it walks on.

    Nodes are called by the names they had in the data; unknown ones are allowed and have no history. Times are numbers
    in the data's unit, or dates where the data had dates. Only links strictly before a query's time count.
    """

    def __init__(
        self,
        engine: Engine,
        batcher: Batcher,
        names: NameIndex,
        calibration: Calibration,
        *,
        prefixes: tuple[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self._engine, self._batcher, self._names, self._calibration = engine, batcher, names, calibration
        self._prefixes, self._folder = prefixes, folder
        self._pending: list[Events] = []

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], *, device: Device = "auto", threads: int | None = None
    ) -> LinkPredictor:
        """From a run folder; nothing large is read before it is needed."""
        path = Path(folder)
        found = read_description(path)
        events, names = read_network(path)
        batcher = read_batcher(path, events, threads)
        engine = load_engine(path, batcher, device, threads)
        prefixes = tuple(found["prefixes"]) if found.get("prefixes") else None
        return cls(engine, batcher, names, read_calibration(path), prefixes=prefixes, folder=path)

    @classmethod
    def of(cls, run: Run) -> LinkPredictor:
        """From a run that has just been trained."""
        events, names = run.batcher.events, NameIndex.of(run.batcher.events.labels)
        return cls(engine_of(run.model), run.batcher, names, run.calibration, prefixes=two_sided(events))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """A new run folder with this predictor and all links it knows by now."""
        if self._folder is None:
            raise QueryError("this predictor was not loaded from a run folder: train with out= to have one")
        target = Path(folder)
        if target.exists():
            raise QueryError(f"{target}: exists already; choose another folder")
        batcher, names = self._current()
        target.mkdir(parents=True)
        for name in ("config.toml", "run.json", "weights.safetensors", "report.json", "results.json", "metrics.jsonl"):
            if (self._folder / name).exists():
                shutil.copyfile(self._folder / name, target / name)
        events = batcher.events
        write_network(
            target,
            Events(events.src, events.dst, events.t, events.msg, x=events.x, labels=names.all(), num_nodes=len(names)),
        )
        write_index(target, batcher)

    # What is asked.

    def score(
        self,
        src: Names,
        dst: Names,
        t: Any,
        *,
        prior: float = FITTED_PRIOR,
        draws: int | None = None,
    ) -> npt.NDArray[np.float64] | Scores:
        """The probability that each src and dst link at time t: [B].

        Args:
            src, dst: Names, one or a list of equal length; a single one serves all.
            t: Times, likewise.
            prior: The share of true links among what is asked about. Probabilities were calibrated for one half.
            draws: Average over so many sets of walks, and also return the standard error: `Scores`.
        """
        if draws is not None and (not isinstance(draws, int) or not 2 <= draws <= MAX_DRAWS):
            raise QueryError(f"draws is {draws!r}: give an integer from 2 to {MAX_DRAWS:,}")
        batcher, ends = self._question(src, dst, t)
        seeds = [WALK_SEED] if draws is None else [WALK_SEED + i for i in range(draws)]
        drawn = np.stack([self._probabilities(batcher, *ends, seed, prior) for seed in seeds])  # [draws, B]
        if draws is None:
            return np.asarray(drawn[0])
        return Scores(drawn.mean(axis=0), drawn.std(axis=0, ddof=1) / np.sqrt(draws))

    def embed(self, src: Names, dst: Names, t: Any) -> npt.NDArray[np.float32]:
        """What the network makes of each pair before it decides: [B, width]."""
        batcher, ends = self._question(src, dst, t)
        parts = [self._engine.embed(batch) for batch in self._batches(batcher, *ends, WALK_SEED)]
        return np.concatenate(parts) if parts else np.empty((0, self._engine.width), np.float32)

    def rank(
        self,
        src: Name,
        t: Any,
        k: int = 10,
        *,
        candidates: Names | None = None,
        kinds: Sequence[str] = KINDS,
        prior: float = FITTED_PRIOR,
        byte_budget: int = 1 << 28,
    ) -> list[Ranked]:
        """The k most probable destinations of src at time t, best first.

        Args:
            candidates: Whom to consider; chosen from the history if not given.
            kinds: How to choose them: "recent" partners, "two hops" away, "popular" destinations.
            byte_budget: Memory for the tensors of one pass; src's walks are sampled once, whatever it is.
        """
        if not isinstance(k, int) or k < 1:
            raise QueryError(f"k is {k!r}: give a positive number")
        if unknown := [kind for kind in kinds if kind not in KINDS]:
            raise QueryError(f"candidates of kind {unknown[0]!r}: there are {', '.join(KINDS)}")
        batcher, names = self._current()
        now = self._times(t, batcher)
        if now.size != 1:
            raise QueryError(f"t has {now.size} times: rank asks about one")
        node = int(self._ids(names, [src], 0)[0])
        if candidates is None:
            choice = Candidates(batcher.events, batcher.history).choose(node, now.reshape(-1)[0], tuple(kinds))
            found: list[tuple[Name, str]] = [(names.name(other), kind) for other, kind in choice.items()]
            ids = np.array(list(choice), np.int64)
        else:
            given = list(dict.fromkeys(_listed(candidates)))
            found, ids = [(name, "given") for name in given], self._ids(names, given, 1)
        if len(ids) == 0:
            return []
        pieces = batcher.one_against_many(
            node, ids, now.reshape(-1)[0], pairs_within(byte_budget, batcher.config), seed=WALK_SEED
        )
        logits = np.concatenate([self._engine.logits(batch) for batch in pieces])
        probability = self._calibration.probability(logits, prior)
        best = np.argsort(-probability, kind="stable")[:k]
        return [Ranked(found[i][0], float(probability[i]), found[i][1]) for i in best.tolist()]

    def update(self, new_events: Any) -> None:
        """New links become history: Events, or whatever `cawn.read` reads. Nodes may be new.

        The index is rebuilt when the next question is asked, in time linear in all links; many small updates cost one.
        """
        events = read(new_events)
        held = self._batcher.events
        if self._batcher.config.attributes and (held.msg is None) != (events.msg is None):
            raise DataError(
                "the new links have attributes, the model's have none"
                if held.msg is None
                else "the model's links have attributes: give the new ones theirs (msg)"
            )
        if held.msg is not None and events.msg is not None and held.msg.shape[1] != events.msg.shape[1]:
            raise DataError(f"the new links have {events.msg.shape[1]} attributes, the model's {held.msg.shape[1]}")
        query_times(events.t, held.t.dtype)
        self._pending.append(events)

    def knows(self, name: Name) -> bool:
        """Whether a node of this name is in the network."""
        _, names = self._current()
        return bool(self._ids(names, [name], 0)[0] < len(names) or self._ids(names, [name], 1)[0] < len(names))

    @property
    def identity(self) -> str:
        """A name for exactly this model and history."""
        batcher, _ = self._current()
        weights = self._engine.weights.values()
        ends = [np.array([len(batcher.events), *batcher.history.alpha]), batcher.events.t[-1:]]
        return digest(*weights, *ends)

    @property
    def num_links(self) -> int:
        """How many links the history has."""
        return len(self._batcher.events) + sum(map(len, self._pending))

    # How it is answered.

    def _current(self) -> tuple[Batcher, NameIndex]:
        """The batcher and the names, with all updates in them."""
        if self._pending:
            for events in self._pending:
                self._append(events)
            self._pending = []
            old = self._batcher
            rebuilt = Batcher.of(old.config, old.events, old.history.alpha, old.unit, threads=old.threads)
            self._batcher = rebuilt
        return self._batcher, self._names

    def _append(self, new: Events) -> None:
        held, labels = self._batcher.events, new.labels.tolist()
        ids = self._names.ids(labels)
        strangers = [labels[i] for i in np.flatnonzero(ids == UNKNOWN)]
        if strangers:
            ids[ids == UNKNOWN] = len(self._names) + np.arange(len(strangers))
            self._names = self._names.extended(strangers)
        msg = None if held.msg is None or new.msg is None else np.concatenate([held.msg, new.msg])
        x = None
        if held.x is not None:
            x = np.zeros((len(self._names), held.x.shape[1]), np.float32)
            x[: len(held.x)] = held.x
            if new.x is not None:
                x[ids] = new.x
        joined = Events(
            np.concatenate([held.src, ids[new.src]]),
            np.concatenate([held.dst, ids[new.dst]]),
            np.concatenate([held.t, query_times(new.t, held.t.dtype)]),
            msg,
            x=x,
            num_nodes=len(self._names),
        )
        self._batcher = replace(self._batcher, events=joined)

    def _question(self, src: Names, dst: Names, t: Any) -> tuple[Batcher, tuple[Array, Array, Array]]:
        """Ids and times of B pairs, and the batcher to ask."""
        batcher, names = self._current()
        u, v = _listed(src), _listed(dst)
        times = self._times(t, batcher).reshape(-1)
        sizes = {len(u), len(v), len(times)} - {1}
        if len(sizes) > 1:
            raise QueryError(f"{len(u)} src, {len(v)} dst and {len(times)} times: give as many of each, or one for all")
        size = sizes.pop() if sizes else 1
        ids = []
        for side, given in enumerate((u, v)):
            found = self._ids(names, given, side)
            ids.append(np.repeat(found, size) if len(given) == 1 else found)
        strangers = (ids[0] >= len(names)) & (ids[1] >= len(names))
        for i in np.flatnonzero(strangers):  # the same stranger on both ends is one node
            if str(u[i if len(u) > 1 else 0]) == str(v[i if len(v) > 1 else 0]):
                ids[1][i] = ids[0][i]
        return batcher, (ids[0], ids[1], np.repeat(times, size) if len(times) == 1 else times)

    def _ids(self, names: NameIndex, given: list[Name], side: int) -> npt.NDArray[np.int64]:
        """Ids of names; a stranger gets one beyond all nodes, another on either side."""
        ids = names.ids(given)
        missing = np.flatnonzero(ids == UNKNOWN)
        if self._prefixes is not None and len(missing):
            ids[missing] = names.ids([f"{self._prefixes[side]}:{given[i]}" for i in missing])
        return np.where(ids == UNKNOWN, len(names) + side, ids)

    def _times(self, t: Any, batcher: Batcher) -> Array:
        """Times in the type of the history's; dates as Unix seconds."""
        times = as_array(t, "t")
        if times.dtype.kind in "UO":
            column = pa.chunked_array([pa.array([str(moment) for moment in times.reshape(-1).tolist()])])
            times = times_of(column, "t", Source("t")).reshape(times.shape)
        if times.dtype.kind == "M":
            times = as_times(times.reshape(-1)).reshape(times.shape)
        return query_times(times, batcher.events.t.dtype)

    def _probabilities(self, batcher: Batcher, src: Array, dst: Array, t: Array, seed: int, prior: float) -> Array:
        logits = [self._engine.logits(batch) for batch in self._batches(batcher, src, dst, t, seed)]
        return self._calibration.probability(np.concatenate(logits) if logits else np.empty(0), prior)

    def _batches(self, batcher: Batcher, src: Array, dst: Array, t: Array, seed: int) -> Iterable[Batch]:
        def task(part: slice) -> Any:
            return lambda: batcher.pairs(src[part], dst[part], t[part], seed=seed)

        return ahead([task(slice(i, i + PAIRS_PER_BATCH)) for i in range(0, len(src), PAIRS_PER_BATCH)], 1)

    def __repr__(self) -> str:
        return f"LinkPredictor({self.num_links:,} links, {len(self._names):,} nodes)"


def _listed(names: Names) -> list[Name]:
    if isinstance(names, str | int | np.integer):
        return [names if isinstance(names, str) else int(names)]
    listed: list[Name] = as_array(names, "names").reshape(-1).tolist()  # type: ignore[arg-type]
    if not all(isinstance(name, str | int) and not isinstance(name, bool) for name in listed):
        raise QueryError("node names are integers or strings")
    return listed
