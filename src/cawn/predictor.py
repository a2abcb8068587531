"""LinkPredictor: what a user holds. Names and times in, probabilities out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cawn.batches import WALK_SEED, Batcher
from cawn.calibration import FITTED_PRIOR, Calibration
from cawn.candidates import KINDS, Candidates
from cawn.devices import Device
from cawn.engines import Engine, engine_of, load_engine
from cawn.errors import DataError, QueryError
from cawn.events import Events, as_array, as_times
from cawn.files import make_folder, temporary_folder
from cawn.kernels.jit import check_threads
from cawn.name_index import Name, NameIndex, two_sided
from cawn.node_names import Names, Spelling, listed, one
from cawn.readers import read
from cawn.readers.tables import Source
from cawn.readers.tables import as_times as times_of
from cawn.reading import Reading
from cawn.runs import Record, read_run, refuse_existing, write_report, write_run
from cawn.splits import digest
from cawn.updates import joined
from cawn.walks import query_times

if TYPE_CHECKING:
    from cawn.explain.law import Law
    from cawn.explain.link import Explanation
    from cawn.training import Run

Array = npt.NDArray[Any]

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
        reading: Reading | None = None,
        folder: Path | None = None,
        record: Record | None = None,
    ) -> None:
        self._engine, self._batcher, self._names, self._calibration = engine, batcher, names, calibration
        self._spelling, self._folder, self._record = Spelling(prefixes), folder, record
        self._pending: list[Events] = []
        self.reading = reading or Reading()

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        device: Device = "auto",
        threads: int | None = None,
        verify: bool = True,
    ) -> LinkPredictor:
        """From a run folder. Every file is checked first, in time linear in its size.

        Args:
            verify: Whether to compare checksums; types, shapes and ranges are checked in any case.
        """
        check_threads(threads)
        run = read_run(Path(folder), threads=threads, verify=verify)
        return cls(
            load_engine(run, device, threads),
            run.batcher,
            run.names,
            run.calibration,
            prefixes=run.prefixes,
            reading=run.reading,
            folder=run.folder,
            record=run.record,
        )

    @classmethod
    def of(cls, run: Run) -> LinkPredictor:
        """From a run that has just been trained."""
        events, names = run.batcher.events, NameIndex.of(run.batcher.events.labels)
        return cls(
            engine_of(run.model),
            run.batcher,
            names,
            run.calibration,
            prefixes=two_sided(events),
            reading=events.reading,
            folder=run.folder,
            record=run.record,
        )

    def save(self, folder: str | os.PathLike[str]) -> None:
        """A new run folder with this predictor and all links it knows by now."""
        if self._record is None:
            raise QueryError("this predictor was not made from a run: use LinkPredictor.load or LinkPredictor.of")
        target = Path(folder)
        refuse_existing(target)
        batcher, names = self._current()
        named, record = batcher.events.named(names.all()), self._record
        make_folder(target.absolute().parent)
        with temporary_folder(target.absolute()) as part:
            write_report(part, self._engine.network.weights, record.report, record.results, record.metrics)
            write_run(part, batcher.config, named, record.description, batcher)
            part.rename(target)

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

        Asked again in the same batch, on the same machine with the same number of threads, a score has the same bits.
        In another batch or on another CPU, logits a and b of the same question agree to within 2e-5 (1 + |b|).

        Args:
            src, dst: Names, one or a list of equal length; a single one serves all.
            t: Times, likewise.
            prior: The share of true links among what is asked about. Probabilities were calibrated for one half.
            draws: Average over so many sets of walks, and also return the standard error: `Scores`.
        """
        if draws is not None and (not isinstance(draws, int | np.integer) or not 2 <= draws <= MAX_DRAWS):
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
        return self._engine.embed(batcher, *ends, seed=WALK_SEED)

    def rank(
        self,
        src: Name,
        t: Any,
        k: int = 10,
        *,
        candidates: Names | None = None,
        kinds: Sequence[str] = KINDS,
        prior: float = FITTED_PRIOR,
        byte_budget: int | None = None,
    ) -> list[Ranked]:
        """The k most probable destinations of src at time t, best first.

        Args:
            candidates: Whom to consider; chosen from the history if not given.
            kinds: How to choose them: "recent" partners, "two hops" away, "popular" destinations.
            byte_budget: Memory for the tensors of one pass; as suits the device if not given. src's walks are sampled
                once, whatever it is.
        """
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
            raise QueryError(f"k is {k!r}: give a positive number")
        if unknown := [kind for kind in kinds if kind not in KINDS]:
            raise QueryError(f"candidates of kind {unknown[0]!r}: there are {', '.join(KINDS)}")
        batcher, names = self._current()
        now = self._times(t, batcher)
        if now.size != 1:
            raise QueryError(f"t has {now.size} times: rank asks about one")
        src = one(src, "src")
        node = int(self._spelling.ids(names, [src], 0)[0])
        if candidates is None:
            choice = Candidates(batcher.events, batcher.history).choose(node, now.reshape(-1)[0], tuple(kinds))
            found: list[tuple[Name, str]] = [(names.name(other), kind) for other, kind in choice.items()]
            ids = np.array(list(choice), np.int64)
        else:
            given = list(dict.fromkeys(listed(candidates)))
            found, ids = [(name, "given") for name in given], self._spelling.ids(names, given, 1)
            ids[
                [bool(i >= len(names) and self._spelling.same(src, name)) for i, name in zip(ids, given, strict=True)]
            ] = node
        if len(ids) == 0:
            return []
        logits = self._engine.logits_of_one(
            batcher, node, ids, now.reshape(-1)[0], seed=WALK_SEED, byte_budget=byte_budget
        )
        probability = self._calibration.probability(logits, prior)
        best = np.argsort(-probability, kind="stable")[:k]
        return [Ranked(found[i][0], float(probability[i]), found[i][1]) for i in best.tolist()]

    def explain(self, src: Name, dst: Name, t: Any, *, draws: int = 8, prior: float = FITTED_PRIOR) -> Explanation:
        """Why src and dst are scored as they are at time t: the walks behind it, and what each adds.

        Args:
            draws: So many sets of walks give the probability and its error. The walks shown are those of the first.
            prior: As for `score`.
        """
        from cawn.explain.link import explain_link

        if not isinstance(draws, int | np.integer) or not 2 <= draws <= MAX_DRAWS:
            raise QueryError(f"draws is {draws!r}: give an integer from 2 to {MAX_DRAWS:,}")
        given = one(src, "src"), one(dst, "dst")
        batcher, ends = self._question(*given, t)
        if len(ends[0]) != 1:
            raise QueryError(f"t has {len(ends[0])} times: one link is explained")
        _, names = self._current()
        for name, node in zip(given, ends[:2], strict=True):
            if node[0] >= len(names):
                raise QueryError(f"{name!r} is not in the network: it has no history to explain anything by")
        network = self._engine.network
        return explain_link(batcher, network, names, self._calibration, ends, draws=int(draws), prior=prior)

    def law(self, links: int = 5_000) -> Law:
        """What the model goes by: every shape of walk over test links of its run, and as many false ones.

        Args:
            links: How many test links to look at; they are spread over the test period.
        """
        from cawn.explain.runs import law_of_run

        if not isinstance(links, int | np.integer) or isinstance(links, bool) or links < 1:
            raise QueryError(f"links is {links!r}: give a positive number")
        if self._folder is None:
            raise QueryError("this predictor was not loaded from a run folder: train with out= to have one")
        batcher, _ = self._current()
        return law_of_run(self._folder, batcher, self._engine.network, int(links))

    def update(self, new_events: Any, **columns: Any) -> None:
        """New links become history: Events, or whatever `cawn.read` reads with these `columns`. Nodes may be new.

        The index is rebuilt when the next question is asked, in time linear in all links; many small updates cost one.
        """
        new, held = read(new_events, **columns), self._batcher.events
        if held.encoder is not None:
            new = held.encoder.transform(new)
        for what, mine, theirs in (("link", held.msg, new.msg), ("node", held.x, new.x)):
            width, given = (0 if array is None else array.shape[1] for array in (mine, theirs))
            if width != given and not (what == "node" and given == 0):
                raise DataError(f"the new links have {given} {what} attributes, the model's {width}; give as many")
        if len(new):
            times = query_times(new.t, held.t.dtype)
            as_times(np.array([min(held.t[0], times[0]), max(held.t[-1], times[-1])]))  # the span can be counted
            self._pending.append(new)

    def knows(self, name: Name) -> bool:
        """Whether a node of this name is in the network."""
        _, names = self._current()
        return any(self._spelling.ids(names, [one(name, "name")], side)[0] < len(names) for side in (0, 1))

    def num_unknown(self, src: Names, dst: Names) -> int:
        """How many of these pairs have an end that is not in the network."""
        _, names = self._current()
        u, v = (self._spelling.ids(names, listed(ends), side) >= len(names) for side, ends in enumerate((src, dst)))
        return int((u | v).sum())

    @property
    def finished(self) -> bool:
        """Whether training had come to its end, so that probabilities are calibrated."""
        return self._record is None or self._record.finished

    @property
    def identity(self) -> str:
        """A name for exactly this model and history."""
        batcher, names = self._current()
        events, calibration = batcher.events, self._calibration
        settings = np.frombuffer(batcher.config.to_toml().encode(), np.uint8)
        numbers = np.array([*batcher.history.alpha, batcher.unit, calibration.temperature, calibration.shift])
        attributes = [array for array in (events.msg, events.x) if array is not None]
        network = (events.src, events.dst, events.t, *attributes, *names.arrays.values())
        return digest(*self._engine.network.weights.values(), settings, numbers, *network)

    @property
    def num_links(self) -> int:
        """How many links the history has."""
        return len(self._batcher.events) + sum(map(len, self._pending))

    # How it is answered.

    def _current(self) -> tuple[Batcher, NameIndex]:
        """The batcher and the names, with all updates in them: all, or as before where that fails."""
        if self._pending:
            old, events, names = self._batcher, self._batcher.events, self._names
            for new in self._pending:
                events, names = joined(events, names, new, self._spelling)
            self._batcher = Batcher.of(old.config, events, old.history.alpha, old.unit, threads=old.threads)
            self._names, self._pending = names, []
        return self._batcher, self._names

    def _question(self, src: Names, dst: Names, t: Any) -> tuple[Batcher, tuple[Array, Array, Array]]:
        """Ids and times of B pairs, and the batcher to ask."""
        batcher, names = self._current()
        u, v = listed(src), listed(dst)
        times = self._times(t, batcher).reshape(-1)
        sizes = {len(u), len(v), len(times)} - {1}
        if len(sizes) > 1:
            raise QueryError(f"{len(u)} src, {len(v)} dst and {len(times)} times: give as many of each, or one for all")
        size = sizes.pop() if sizes else 1
        ids = []
        for side, given in enumerate((u, v)):
            found = self._spelling.ids(names, given, side)
            ids.append(np.repeat(found, size) if len(given) == 1 else found)
        strangers = (ids[0] >= len(names)) & (ids[1] >= len(names))
        for i in np.flatnonzero(strangers):
            if self._spelling.same(u[i if len(u) > 1 else 0], v[i if len(v) > 1 else 0]):
                ids[1][i] = ids[0][i]
        return batcher, (ids[0], ids[1], np.repeat(times, size) if len(times) == 1 else times)

    def _times(self, t: Any, batcher: Batcher) -> Array:
        """Times in the type of the history's; dates as Unix seconds."""
        times = as_array(t, "t")
        if times.dtype.kind in "UO":
            column = pa.chunked_array([pa.array([str(moment) for moment in times.reshape(-1).tolist()], pa.string())])
            try:
                times = times_of(column, "t", Source("t")).reshape(times.shape)
            except DataError as error:
                raise QueryError(f"t is {t!r}: give numbers in the data's unit of time, or ISO dates") from error
        if times.dtype.kind == "M":
            times = as_times(times.reshape(-1)).reshape(times.shape)
        return query_times(times, batcher.events.t.dtype)

    def _probabilities(self, batcher: Batcher, src: Array, dst: Array, t: Array, seed: int, prior: float) -> Array:
        return self._calibration.probability(self._engine.logits(batcher, src, dst, t, seed=seed), prior)

    def __repr__(self) -> str:
        return f"LinkPredictor({self.num_links:,} links, {len(self._names):,} nodes)"
