"""LinkPredictor: a trained model that turns names and times into probabilities."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cawn.checks import check_flags, check_integer, check_path, check_threads, check_words
from cawn.data.events import Events
from cawn.data.hashing import digest
from cawn.data.names import (
    Name,
    NameIndex,
    Names,
    Spelling,
    as_name,
    as_names,
    bipartite_prefixes,
    number_names,
)
from cawn.data.readers import read_like
from cawn.data.reading import Reading
from cawn.data.times import check_span, numbers_to_dates, parse_query_times
from cawn.data.updates import (
    ExtendedNames,
    GrowingEvents,
    KnownLinks,
    Update,
    batch_digest,
    convert_link_times,
    merged,
    new_links,
)
from cawn.devices import Device, check_device, pick_device
from cawn.errors import DataError, QueryError, brief
from cawn.files import FolderLock, make_folder, temporary_folder
from cawn.learn.calibration import FITTED_PRIOR, Calibration, RollingCalibration, check_prior
from cawn.learn.runs import (
    Record,
    StoredRun,
    load_system,
    read_run,
    refuse_existing,
    replace_links,
    write_report,
    write_run,
    write_served,
)
from cawn.learn.splits import ALL_LINKS
from cawn.learn.testing import candidates_on, recalibrate
from cawn.rankings import MAX_DRAWS, NodeFacts, Ranked, Ranking, Rankings, Scores, names_column
from cawn.systems.base import (
    Bounded,
    Embedder,
    Growing,
    HasHistory,
    Replaceable,
    Scorer,
    Seeded,
    System,
    Trainable,
)
from cawn.systems.compiling import compile_growth
from cawn.systems.settings import Settings, memory_to
from cawn.walks.candidates import KINDS, Candidates

if TYPE_CHECKING:
    from torch import Tensor

    from cawn.explain.law import Law
    from cawn.explain.link import Background, Explanation
    from cawn.learn.testing import Run

Array = npt.NDArray[Any]
Method = TypeVar("Method", bound=Callable[..., Any])

DRAW_SEED = 0x5EED  # of the first sample, which `score` uses without draws
PAIRS_AT_ONCE = 1 << 14  # for several sources that are ranked together
EVERYONE = "all"


def _answering(method: Method) -> Method:
    """Turns running out of memory during a query into one line."""

    @wraps(method)
    def answer(self: LinkPredictor, *args: Any, **options: Any) -> Any:
        with memory_to("answering", self._config, scoring=True):
            return method(self, *args, **options)

    return cast("Method", answer)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A consistent, immutable state of the history."""

    events: Events
    scorer: Scorer
    names: NameIndex
    candidates: Candidates
    calibration: RollingCalibration
    version: int = 0


class _State(NamedTuple):
    """A snapshot and the updates it does not include yet. Replaced as a whole; `pending` grows under a lock."""

    snapshot: Snapshot
    pending: list[Events]


class _Considered(NamedTuple):
    """The candidates of a source: ids [C], why they were chosen, and their names if the user gave them."""

    ids: Array
    found: Sequence[str]
    given: list[Name] | None

    def named(self, i: int, names: NameIndex) -> Name:
        return names.name(int(self.ids[i])) if self.given is None else self.given[i]


class LinkPredictor:
    """A trained model with a history of links.

    Nodes are identified by their names in the data; unknown names are allowed and have no history. Times are numbers in
    the data's unit, or dates if the data had dates. Only links strictly before the query time are used.

    Threads may query and update concurrently. Every result is computed from one immutable state of the history, which
    includes all updates that returned before the query; an update replaces that state at once. With the systems `cawn`
    and `rates`, an update extends the index in time proportional to the number of new links, and queries never wait.
    With others, the first query after an update rebuilds what the system needs, and queries wait for that.
    """

    def __init__(
        self,
        system: System,
        config: Settings,
        events: Events,
        names: NameIndex,
        calibration: Calibration | RollingCalibration,
        *,
        name: str = "",
        prefixes: tuple[str, str] | None = None,
        reading: Reading | None = None,
        folder: Path | None = None,
        record: Record | None = None,
        recalibrate: bool = True,
    ) -> None:
        """See `load` and `of`, which most callers need instead."""
        check_flags(recalibrate=recalibrate)
        self._system, self._config, self._name, self._recalibrate = system, config, name, recalibrate
        fitted = RollingCalibration.of(calibration)
        fitted = fitted.known_since(events.t[-1].item()) if len(events) else fitted
        self._state = _State(self._snapshot_of(events, names, fitted), [])
        self._watermark = _newest(events)
        updates = [] if record is None else record.description.get("updates", [])
        self._known, self._all_names = KnownLinks(updates), ExtendedNames(names, Spelling(prefixes))
        self._growing: GrowingEvents | None = None
        self._frozen = False
        self._spelling, self._folder, self._record = Spelling(prefixes), folder, record
        self.reading = events.reading = reading or Reading()
        self._renew_locks()

    def _renew_locks(self) -> None:
        self._updating = Lock()  # one update at a time
        self._rebuilding = Lock()  # one rebuild at a time
        self._swapping = Lock()  # held briefly, while `_state` is replaced or its queue grows
        _ALIVE.add(self)

    def __getstate__(self) -> dict[str, Any]:
        with self._updating, self._swapping:
            held = {name: value for name, value in self.__dict__.items() if not isinstance(value, type(Lock()))}
            return held | {"_state": _State(self._state.snapshot, list(self._state.pending)), "_growing": None}

    def __setstate__(self, held: dict[str, Any]) -> None:
        self.__dict__.update(held)
        self._renew_locks()

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        device: Device = "auto",
        threads: int | None = None,
        verify: bool = True,
        recalibrate: bool = True,
        cache: bool = True,
    ) -> LinkPredictor:
        """Load a run folder. Every file is checked first, in time linear in its size.

        Args:
            verify: Whether to compare checksums; types, shapes and ranges are always checked.
            cache: Whether to cache the index in the folder if building it from the links takes more than a second. A
                cached index is used in any case.
            recalibrate: Whether `update` also refits the calibration of the probabilities.
        """
        path = check_path(folder, "folder")
        check_device(device)
        check_flags(verify=verify, cache=cache)
        check_threads(threads)
        run = read_run(path, verify=verify)
        system = load_system(run, pick_device(device), threads, verify=verify, cache=cache)
        return cls.of_stored(run, system, recalibrate=recalibrate)

    @classmethod
    def of_stored(cls, run: StoredRun, system: System, *, recalibrate: bool = True) -> LinkPredictor:
        """The predictor of a run that was read from its folder, and of its system; most callers need `load`."""
        return cls(
            system,
            run.config,
            run.events,
            run.names,
            run.calibration,
            prefixes=run.prefixes,
            reading=run.reading,
            folder=run.folder,
            record=run.record,
            name=run.description["system"],
            recalibrate=recalibrate,
        )

    @classmethod
    def of(cls, run: Run, *, recalibrate: bool = True) -> LinkPredictor:
        """The predictor of a run that has just been trained; `recalibrate` as for `load`."""
        if not hasattr(run, "system") or not hasattr(run, "events"):
            raise QueryError(f"run is {brief(run)}: give the result of cawn.train")
        events = run.events
        return cls(
            run.system,
            run.config,
            events,
            events.names,
            run.calibration,
            prefixes=bipartite_prefixes(events),
            reading=events.reading,
            folder=run.folder,
            record=run.record,
            name=run.record.description["system"],
            recalibrate=recalibrate,
        )

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a new run folder with this model and all links, including updates."""
        target = check_path(folder, "folder")
        refuse_existing(target)
        self.saver()(target)

    def saver(self) -> Callable[[Path], None]:
        """Capture the present state; the returned function writes it, as `save` does, while links may still arrive."""
        if self._record is None:
            raise QueryError("this predictor was not made from a run: use LinkPredictor.load or LinkPredictor.of")
        snapshot, changes = self._links()
        record = replace(self._record, description=self._record.description | changes)
        own = self._weights()

        def write(target: Path) -> None:
            refuse_existing(target)
            make_folder(target.absolute().parent)
            with temporary_folder(target.absolute()) as part:
                write_report(part, record.evaluated or own, record.report, record.results, record.metrics)
                if record.evaluated is not None:
                    write_served(part, own, record.report)
                write_run(part, self._config, snapshot.events, record.description, snapshot.names)
                part.rename(target)

        return write

    def save_links(self, lock: FolderLock) -> None:
        """Write all links, including updates, to the run folder it was loaded from; the caller holds its lock."""
        if self._folder is None:
            raise QueryError("this predictor was not loaded from a run folder: use save")
        snapshot, changes = self._links()
        replace_links(self._folder, snapshot.events, names=snapshot.names, lock=lock, **changes)

    def _links(self) -> tuple[Snapshot, dict[str, Any]]:
        """The present state, and what updates changed in run.json: the digests of exactly the batches that it includes,
        and the calibration."""
        with self._updating:
            snapshot = self._snapshot()
            changes: dict[str, Any] = {"updates": list(self._known.digests)}
        if self.finished:
            changes["calibration"] = snapshot.calibration.to_dict()
        return snapshot, changes

    def _weights(self) -> dict[str, Array]:
        return {name: value.detach().cpu().numpy() for name, value in self._system.module.state_dict().items()}

    # Queries

    @_answering
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

        In the same batch, on the same machine with the same number of threads, a query gives the same bits. In another
        batch or on another CPU, its logits a and b agree to within 1e-4 (1 + |b|).

        Args:
            src: Names, one or B of them; a single one is used for all pairs.
            dst: Names, likewise.
            t: Times, likewise.
            prior: The assumed share of positives among the pairs; 0.5, one negative per positive, by default.
            draws: Average over this number of walk samples and return `Scores`, with the standard error.
        """
        if draws is not None:
            check_integer(draws, "draws", 2, MAX_DRAWS)
        check_prior(prior)
        snapshot, ends = self._question(src, dst, t)
        t, (ends, asked) = ends[2], _distinct(self._config, ends)
        if draws is None:
            return snapshot.calibration.probability(in_time_order(snapshot.scorer, *ends)[asked], t, prior)
        scorer = self._require(snapshot.scorer, Seeded, "draws no samples: omit draws")
        logits = [in_time_order(partial(scorer.logits, seed=DRAW_SEED + i), *ends) for i in range(draws)]
        drawn = snapshot.calibration.probability(np.stack(logits)[:, asked], t, prior)  # [draws, B]
        return Scores(drawn.mean(axis=0), drawn.std(axis=0, ddof=1) / np.sqrt(draws))

    @_answering
    def embed(self, src: Names, dst: Names, t: Any) -> npt.NDArray[np.float32]:
        """The embedding of each pair, which the last layers turn into its logit: [B, width]."""
        snapshot, ends = self._question(src, dst, t)
        ends, asked = _distinct(self._config, ends)
        scorer = self._require(snapshot.scorer, Embedder, "has no embeddings of pairs")
        return np.asarray(in_time_order(scorer.embed, *ends)[asked])

    def score_table(
        self, src: Names, dst: Names, t: Any, *, prior: float = FITTED_PRIOR, draws: int | None = None
    ) -> pa.Table:
        """`score` as a table of src, dst, t (dates if the data had dates), probability and, with draws, error."""
        u, v = as_names(src), as_names(dst)
        scores = self.score(u, v, t, prior=prior, draws=draws)
        found = scores._asdict() if isinstance(scores, Scores) else {"probability": scores}
        size = len(found["probability"])
        times = np.broadcast_to(self._times(t, self._events).reshape(-1), size)
        if self.reading.dates:
            times = numbers_to_dates(times, self.reading.unit)
        ends = {name: names_column(ends * size if len(ends) == 1 else ends) for name, ends in (("src", u), ("dst", v))}
        return pa.table(ends | {"t": pa.array(times)} | {name: pa.array(values) for name, values in found.items()})

    @_answering
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
    ) -> Ranking:
        """The k most probable destinations of src at time t, best first; ties are ordered by name.

        Args:
            candidates: The names to rank; "all" for every node that has been a destination before t; chosen from the
                history by default.
            kinds: How to choose candidates: "recent" partners, nodes "two hops" away, "popular" destinations.
            byte_budget: Memory for the tensors of one pass; by default chosen for the device. The walks of src are
                sampled once in any case.

        Returns a list of `Ranked`, which unpack as (name, probability, found); its `to_table()` returns a table.
        """
        _check_ranking(k, kinds, prior, byte_budget)
        snapshot = self._snapshot()
        now = self._times(t, snapshot.events)
        if now.size != 1:
            raise QueryError(f"t has {now.size} times: rank takes one time, rank_many several")
        src, moment = as_name(src, "src"), now.reshape(-1)[0]
        node = int(self._spelling.ids(snapshot.names, [src], 0)[0])
        considered = self._considered(snapshot, src, node, moment, self._given(snapshot, candidates), kinds)
        (logits,) = self._rank_logits(snapshot, [(src, node, moment, considered)], byte_budget)
        return self._ranking(snapshot, src, moment, considered, logits, int(k), prior)

    def rank_many(
        self,
        nodes: Names,
        t: Any,
        k: int = 10,
        *,
        candidates: Names | None = None,
        kinds: Sequence[str] = KINDS,
        prior: float = FITTED_PRIOR,
        byte_budget: int | None = None,
    ) -> Rankings:
        """Rank for many sources; yields one ranking after another, in constant memory, or all with `to_table()`.

        Sources are scored together, so that the walks of common candidates are sampled and encoded once: much faster
        than calling `rank` for each. All rankings use the history at the time of this call.

        Args:
            nodes: The sources; `nodes()` for all.
            t: One time for all, or one for each.
            k: The number of candidates in a ranking, as for `rank`.
            candidates: As for `rank`.
            kinds: As for `rank`.
            prior: As for `rank`.
            byte_budget: As for `rank`.
        """
        _check_ranking(k, kinds, prior, byte_budget)
        snapshot, sources = self._snapshot(), as_names(nodes)
        times = self._times(t, snapshot.events).reshape(-1)
        if len(times) not in (1, len(sources)):
            raise QueryError(f"{len(sources)} nodes and {len(times)} times: give one time for all, or one for each")
        ids, times = self._spelling.ids(snapshot.names, sources, 0), np.broadcast_to(times, len(sources))
        given = self._given(snapshot, candidates)
        asked = (
            (src, int(node), now, self._considered(snapshot, src, int(node), now, given, kinds))
            for src, node, now in zip(sources, ids, times, strict=True)
        )

        def answers() -> Iterator[Ranking]:
            for group in _groups(asked):
                with memory_to("answering", self._config, scoring=True):
                    logits = self._rank_logits(snapshot, group, byte_budget)
                for (src, _, now, considered), found in zip(group, logits, strict=True):
                    yield self._ranking(snapshot, src, now, considered, found, int(k), prior)

        return Rankings(answers())

    def nodes(self, side: Literal["src", "dst"] | None = None) -> list[Name]:
        """The names of all nodes, or of those that have been a source ("src") or a destination ("dst")."""
        snapshot = self._snapshot()
        if side is None:
            names: list[Name] = snapshot.names.all().tolist()
            return names
        if not isinstance(side, str) or side not in ("src", "dst"):
            raise QueryError(f"side is {brief(side)}: give 'src' or 'dst', or omit it")
        ends = snapshot.events.src if side == "src" else snapshot.events.dst
        return [snapshot.names.name(node) for node in np.unique(ends).tolist()]

    def node_names(self, first: int, stop: int) -> list[Name]:
        """`nodes()[first:stop]`, without listing all nodes."""
        names = self._names
        return [names.name(node) for node in range(first, min(stop, len(names)))]

    @_answering
    def explain(
        self,
        src: Name,
        dst: Name,
        t: Any,
        *,
        draws: int = 8,
        prior: float = FITTED_PRIOR,
        background: Background = "strangers",
        shapes: bool = False,
        what_if: bool = False,
    ) -> Explanation:
        """Explain the score of src and dst at time t: what each part of the input, and each walk, contributes to it.

        Args:
            draws: Number of walk samples for the probability and its error. The walks shown are those of the first.
            prior: As for `score`.
            background: What contributions are measured against: "strangers", two nodes without any links, or "pairs",
                the average of 32 random pairs, each the source of one earlier link and the destination of another.
            shapes: Whether to compute the contributions of single walk shapes too; sampled, if there are many.
            what_if: Whether to look for the fewest earlier links without which the prediction would flip, and for the
                effect of one more link; takes seconds, since the network is indexed again for each try.
        """
        from cawn.explain.link import explain_link
        from cawn.explain.what_if import ask_what_if

        check_integer(draws, "draws", 2, MAX_DRAWS)
        check_prior(prior)
        check_flags(shapes=shapes, what_if=what_if)
        if not isinstance(background, str) or background not in ("strangers", "pairs"):
            raise QueryError(f"background is {brief(background)}: give 'strangers' or 'pairs'")
        self._require_walks()
        given = as_name(src, "src"), as_name(dst, "dst")
        snapshot, ends = self._question(*given, t)
        names = snapshot.names
        if len(ends[0]) != 1:
            raise QueryError(f"t has {len(ends[0])} times: only one link can be explained at a time")
        for name, node in zip(given, ends[:2], strict=True):
            if node[0] >= len(names):
                raise QueryError(f"{brief(name)} is not in the network, so it has no history to explain a score with")
        calibration = snapshot.calibration.at(ends[2][0])
        found = explain_link(
            snapshot.scorer,
            names,
            calibration,
            ends,
            draws=int(draws),
            prior=prior,
            background=background,
            shapes=shapes,
            reading=self.reading,
        )
        if not what_if:
            return found
        return replace(found, what_if=ask_what_if(found, snapshot.scorer, names, calibration, ends, self.reading))

    @_answering
    def law(self, links: int = 5_000, *, progress: Callable[[int, int], object] | None = None) -> Law:
        """What the model relies on, over test links of its run and as many negatives: parts of its input, walk shapes.

        Args:
            links: Number of test links to use, at least 2; they are spread over the test period.
            progress: Called with the number of links done, and of all.
        """
        from cawn.explain.law import law_of_run

        check_integer(links, "links", 2)
        if progress is not None and not callable(progress):
            raise QueryError(f"progress is {brief(progress)}: give a function of the links done and of all")
        self._require_walks()
        if self._folder is None:
            raise QueryError("this predictor was not loaded from a run folder: train with out=")
        return law_of_run(self._folder, self._snapshot().scorer, self._events, int(links), progress)

    def update(self, new_events: Any, *, once: bool = False, **columns: Any) -> Update:
        """Add links to the history: Events, or anything `cawn.read` reads with these `columns`. Nodes may be new.

        Columns that are not given default to those of the training data, if the file or table has them. The index of
        the systems `cawn` and `rates` is extended, in time proportional to the number of new links; others rebuild what
        they need at the next query. The calibration is refitted too, if enough links are newer than those it was fitted
        on (see `load`): up to 2,000 of them are scored, each with the links before it.

        If links have ids (`link_id="column"`, or Events with `link_id`), those with known ids are skipped. Without ids,
        links that were added before are added again, with a warning.

        Args:
            once: Skip the whole batch if the same links, in any order, were added as one batch before.
        """
        check_flags(once=once)
        self._refuse_snapshot()
        new, encoder = self._read(new_events, columns), self._state.snapshot.events.encoder
        if encoder is not None:
            new = encoder.transform(new)
        self._refuse_misfits(new)
        with self._updating:
            done = self._add(new, once=once)
        if done.added and self._grows and self._recalibrate:
            self.recalibrate()
        return done

    def append(
        self, src: Names, dst: Names, t: Any, *, msg: Any = None, link_id: npt.ArrayLike | None = None
    ) -> Update:
        """Add links given as columns; the next query uses them. If it raises, nothing was added.

        Args:
            src: Names of the sources.
            dst: Names of the destinations.
            t: Times, as for `score`.
            msg: Link attributes [E, d], if the data has any.
            link_id: Ids, as for `Events`; links with known ids are skipped.
        """
        return self.append_all([self.prepare(src, dst, t, msg=msg, link_id=link_id)])[0]

    def append_all(self, batches: Sequence[Events]) -> list[Update]:
        """Add several batches of links made with `prepare`; a query uses either all of them or none."""
        self._refuse_snapshot()
        with self._updating:
            held, known = self._state.snapshot.events, self._known
            added = []
            with known.adding():
                for new in batches:
                    added.append(new[known.is_unknown(held, new)])
                    known.add(added[-1])
                nodes = self._add_links(added)
            return [
                Update(len(some), len(new) - len(some), count)
                for new, some, count in zip(batches, added, nodes, strict=True)
            ]

    def append_parts(self, batch: Events, sizes: Sequence[int]) -> list[Update]:
        """Add a batch made with one call of `prepare` that consists of several parts; returns the result of each part.

        Args:
            sizes: The number of links of each part, in the order given to `prepare`.
        """
        self._refuse_snapshot()
        with self._updating:
            nodes_before = self._count_nodes()
            unknown = self._known.is_unknown(self._state.snapshot.events, batch)
            added = batch[unknown]
            with self._known.adding():
                self._known.add(added)
                self._add_links([added])
            part = np.repeat(np.arange(len(sizes)), sizes)[batch.rows][unknown]  # of each link that was added
            counts = np.bincount(part, minlength=len(sizes)).tolist()
            nodes = self._new_nodes(added, part, len(sizes), nodes_before)
            return [Update(count, size - count, new) for count, size, new in zip(counts, sizes, nodes, strict=True)]

    def _new_nodes(self, added: Events, part: Array, parts: int, before: int) -> list[int]:
        """The number of nodes that each part added, given the part of each link and the number of nodes before."""
        first = np.full(self._count_nodes() - before, parts)  # the first part with each new node
        if len(first):
            names: Any = self._state.snapshot.names if self._grows else self._all_names
            for side, ends in enumerate((added.src, added.dst)):
                labels = added.labels.tolist()
                ids = self._spelling.ids(names, labels, side) if self._grows else names.ids(labels, side)
                new = ids[ends] - before
                np.minimum.at(first, new[new >= 0], part[new >= 0])
        found: list[int] = np.bincount(first, minlength=parts)[:parts].tolist()
        return found

    @property
    def _grows(self) -> bool:
        return isinstance(self._state.snapshot.scorer, Growing)

    def _count_nodes(self) -> int:
        """The number of nodes, including those of queued links."""
        return len(self._state.snapshot.names) if self._grows else len(self._all_names)

    def prepare_to_grow(self) -> None:
        """Copy the index into its growing form and compile what `append` needs; else the first `append` does this.

        Results do not change. Does nothing for systems whose index cannot grow.
        """
        self._refuse_snapshot()
        if not self._grows or not isinstance(self._system, Replaceable):
            return
        with self._updating:
            held = self._snapshot()
            if len(held.events):
                compile_growth(self._system, held.events, held.names)
            if held.events.link_id is not None:
                self._known.has_ids(held.events, held.events.link_id[:0])
            msg = None if held.events.msg is None else held.events.msg[:0]
            self._grow([Events([], [], held.events.t[:0], msg)])

    def check_links(self, src: Names, dst: Names, t: Any, *, msg: Any = None) -> Array:
        """The times of new links in the data's unit [E]; raises what `append` would raise, and changes nothing."""
        new = self.prepare(src, dst, t, msg=msg)
        times = np.empty_like(new.t)
        times[new.rows] = new.t
        return times

    def knows_link_ids(self, link_id: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Which of these hashes of ids (see `hash_ids`) belong to links of the history: [n]."""
        with self._updating:
            return self._known.has_ids(self._state.snapshot.events, link_id)

    @property
    def version(self) -> int:
        """Increases with every change of the history or of the weights."""
        state = self._state
        return state.snapshot.version + len(state.pending)

    @property
    def watermark(self) -> Any:
        """The time of the newest link, in the data's unit."""
        return self._watermark

    def prepare(
        self, src: Names, dst: Names, t: Any, *, msg: Any = None, link_id: npt.ArrayLike | None = None
    ) -> Events:
        """Links as for `append`, checked against the history but not added; `append_all` adds them."""
        held, ends = self._state.snapshot.events, (as_names(src), as_names(dst))
        times = self._times(t, held).reshape(-1)
        if not len(ends[0]) == len(ends[1]) == len(times):
            raise QueryError(f"{len(ends[0])} src, {len(ends[1])} dst and {len(times)} times: give as many of each")
        u, v, labels = number_names(*ends)
        new = Events(u, v, times, msg, labels=labels, link_id=link_id)
        new.reading = self.reading
        if held.encoder is not None:
            new = held.encoder.transform(new)
        self._refuse_misfits(new)
        return new

    def _read(self, source: Any, columns: dict[str, Any]) -> Events:
        # `Spelling` adds the prefixes of a bipartite network, whatever the columns are called.
        return read_like(source, self.reading, **({"bipartite": False} | columns))

    def _refuse_misfits(self, new: Events) -> None:
        """Refuse links that cannot be added."""
        held = self._state.snapshot.events
        for what, mine, theirs in (("link", held.msg, new.msg), ("node", held.x, new.x)):
            width, given = (0 if array is None else array.shape[1] for array in (mine, theirs))
            if width != given and not (what == "node" and given == 0):
                raise DataError(f"the new links have {given} {what} attributes, but the model needs {width}")
        if len(new):
            times = convert_link_times(new, held)
            check_span(np.array([min(held.t[0], times[0]), max(held.t[-1], times[-1])]))

    def _add(self, new: Events, *, once: bool) -> Update:
        """Add the links that are new. Called by one thread at a time."""
        known, (held, names) = self._known, (self._state.snapshot.events, self._state.snapshot.names)
        if not known.digests:
            sides = [[names.name(i) for i in np.unique(ends).tolist()] for ends in (held.src, held.dst)]
            known.digests.append(batch_digest(held, sides, held))
        sides = [new.labels[np.unique(ends)].tolist() for ends in (new.src, new.dst)]
        spelled = [[names.canonical(self._spelling.spelled(n, i)) for n in side] for i, side in enumerate(sides)]
        batch = batch_digest(new, spelled, held)
        repeated = batch in known.digests and len(new) > 0
        if once and repeated:
            return Update(0, len(new), 0)
        unknown = known.is_unknown(held, new)
        if repeated and unknown.any() and new.link_id is None:
            warnings.warn(
                f"the same {len(new):,} links were added before and are now added again; give once=True or link ids "
                "to skip known links",
                stacklevel=3,
            )
        added = new[unknown]
        with known.adding():
            known.add(added, batch)
            (nodes,) = self._add_links([added])
        return Update(len(added), len(new) - len(added), nodes)

    def _refuse_snapshot(self) -> None:
        if self._frozen:
            raise QueryError("this is a snapshot, which never changes: change the predictor it was taken from")

    def _add_links(self, batches: list[Events]) -> list[int]:
        """Add links that are new; returns the number of nodes that each batch adds. Called by one thread at a time."""
        if not any(map(len, batches)):
            return [0] * len(batches)
        return self._grow(batches) if self._grows else self._queue(batches)

    def _grow(self, batches: list[Events]) -> list[int]:
        """Extend the index, and replace the snapshot; if that fails, the state is unchanged."""
        held = self._state.snapshot
        new, nodes = new_links(held.events, held.names, batches, self._spelling)
        if new.attributes:
            built = self._snapshot_of(merged(held.events, new), new.names, held.calibration)
        else:
            growing, self._growing = self._growing, None  # made again if this fails
            if growing is None or growing.events is not held.events:
                growing = GrowingEvents(held.events)
            events, kept = growing.add(new)
            self._growing = growing
            scorer = cast("Growing", held.scorer).extended(events, kept)
            history = scorer.history if isinstance(scorer, HasHistory) else None
            candidates = held.candidates.extended(events, kept, history)
            built = Snapshot(events, scorer, new.names, candidates, held.calibration)
        self._watermark = _newest(built.events)
        self._state = _State(replace(built, version=held.version + any(map(len, batches))), [])
        return nodes

    def _queue(self, batches: list[Events]) -> list[int]:
        """Queue links for the next query."""
        nodes = []
        for added in batches:
            before = len(self._all_names.added)
            for i, ends in enumerate((added.src, added.dst)):
                self._all_names.ids(added.labels[np.unique(ends)].tolist(), i)
            nodes.append(len(self._all_names.added) - before)
            if len(added):
                newest = convert_link_times(added, self._state.snapshot.events)[-1].item()
                self._watermark = newest if self._watermark is None else max(self._watermark, newest)
                with self._swapping:
                    self._state.pending.append(added)
        return nodes

    def recalibrate(self) -> bool:
        """Refit the calibration on links that are newer than the last fit; False if there are too few.

        `update` does this too; `append` does not. Up to 2,000 links are scored, each from the links before it.
        """
        self._refuse_snapshot()
        held = self._snapshot()
        if not self.finished:
            return False
        calibration = recalibrate(held.calibration, held.scorer, held.events)
        with self._updating, self._swapping:
            state = self._state
            if calibration is held.calibration or state.snapshot.calibration is not held.calibration:
                return False
            self._state = state._replace(snapshot=replace(state.snapshot, calibration=calibration))
        return True

    def add_calibration(self, calibration: Calibration, t: Any) -> None:
        """Use a calibration, fitted by the caller on links up to time t (in the data's unit), for later queries."""
        self._refuse_snapshot()
        with self._updating:
            held = self._snapshot()
            with self._swapping:
                built = replace(held, calibration=held.calibration.then(calibration, t))
                self._state = self._state._replace(snapshot=built)

    def snapshot(self) -> LinkPredictor:
        """A predictor with the present history that never changes, for several queries on one version."""
        found = LinkPredictor.__new__(LinkPredictor)
        found.__dict__.update(self.__dict__ | {"_state": _State(self._snapshot(), []), "_frozen": True})
        return found

    def replace_weights(
        self, weights: Mapping[str, Tensor], calibration: Calibration | RollingCalibration | None = None
    ) -> None:
        """Use other weights of the same network from the next query on; queries in progress use the old ones.

        When the predictor is saved, the weights that the run's results were measured with are kept as well.

        Args:
            calibration: That of the new weights; the current one by default.
        """
        self._refuse_snapshot()
        if not isinstance(self._system, Replaceable) or not isinstance(self._state.snapshot.scorer, Trainable):
            raise QueryError(f"the weights of the system {self._name!r} cannot be replaced while it is in use")
        module = deepcopy(self._system.module)
        try:
            module.load_state_dict(dict(weights))
        except (RuntimeError, TypeError, AttributeError) as error:
            raise QueryError("the weights do not fit this model") from error
        with self._updating:
            snapshot, system = self._snapshot(), self._system.with_module(module)
            fitted = snapshot.calibration if calibration is None else RollingCalibration.of(calibration)
            fitted = fitted.known_since(self._watermark)
            record, report = self._record, {} if self._record is None else self._record.report
            if record is not None and record.evaluated is None:
                record = replace(record, evaluated=self._weights(), report=report | {"served": ALL_LINKS})
            scorer = cast("Trainable", snapshot.scorer).with_module(module)
            with self._swapping:
                self._system, self._record = system, record
                replaced = replace(snapshot, scorer=scorer, calibration=fitted, version=snapshot.version + 1)
                self._state = _State(replaced, self._state.pending)

    def node(self, name: Name, k: int = 20) -> NodeFacts:
        """The number of links of a node, the times of its first and last link, and its last k links."""
        check_integer(k, "k", 0)
        snapshot = self._snapshot()
        events, names = snapshot.events, snapshot.names
        sides = {int(self._spelling.ids(names, [as_name(name, "name")], side)[0]) for side in (0, 1)}
        known = [node for node in sides if node < len(names)]
        if isinstance(snapshot.scorer, HasHistory):
            found = [snapshot.scorer.history.links_of(node, max(int(k), 1)) for node in known]
            count, links = sum(each[0] for each in found), [each[1] for each in found]
        else:
            links = [np.flatnonzero((events.src == node) | (events.dst == node)) for node in known]
            count = len(np.unique(np.concatenate([[], *links])))
        ids = np.unique(np.concatenate([np.empty(0, np.int64), *links])).tolist()  # with the first and the last
        first, last = (events.t[ids[0]].item(), events.t[ids[-1]].item()) if ids else (None, None)
        recent = [
            (names.name(int(events.src[i])), names.name(int(events.dst[i])), events.t[i].item()) for i in ids[::-1][:k]
        ]
        return NodeFacts(bool(known), count, first, last, recent)

    def knows(self, name: Name) -> bool:
        """Whether a node of this name is in the network."""
        names = self._names
        return any(self._spelling.ids(names, [as_name(name, "name")], side)[0] < len(names) for side in (0, 1))

    def num_unknown(self, src: Names, dst: Names) -> int:
        """The number of pairs with a node that is not in the network."""
        names = self._names
        u, v = (self._spelling.ids(names, as_names(ends), side) >= len(names) for side, ends in enumerate((src, dst)))
        if len(u) != len(v) and 1 not in (len(u), len(v)):
            raise QueryError(f"{len(u)} src and {len(v)} dst: give as many of each, or one for all")
        return int((u | v).sum())

    @property
    def finished(self) -> bool:
        """Whether training is finished, so that probabilities are calibrated."""
        return self._record is None or self._record.finished

    @property
    def recalibrates(self) -> bool:
        """Whether the calibration follows further links; see `load`."""
        return self._recalibrate and self.finished

    @property
    def identity(self) -> str:
        """A digest of the model and the history."""
        snapshot = self._snapshot()
        events, facts = snapshot.events, {} if self._record is None else self._record.description.get("facts", {})
        words = json.dumps([self._name, self._config.to_toml(), facts, snapshot.calibration.to_dict()], sort_keys=True)
        attributes = [array for array in (events.msg, events.x) if array is not None]
        names = [array for _, array in sorted(snapshot.names.arrays.items())]
        network = (events.src, events.dst, events.t, *attributes, *names)
        return digest(*self._weights().values(), np.frombuffer(words.encode(), np.uint8), *network)

    @property
    def num_links(self) -> int:
        """The number of links in the history, including updates."""
        with self._swapping:
            return len(self._state.snapshot.events) + sum(map(len, self._state.pending))

    @property
    def num_nodes(self) -> int:
        """The number of nodes in the network."""
        return len(self._names)

    # Implementation

    def _snapshot(self) -> Snapshot:
        """The history with all updates; if rebuilding fails, the state is unchanged."""
        state = self._state
        if not state.pending:
            return state.snapshot
        with self._rebuilding:
            state = self._state
            with self._swapping:
                pending = list(state.pending)
            if not pending:
                return state.snapshot
            held = state.snapshot
            new, _ = new_links(held.events, held.names, pending, self._spelling)
            built = self._snapshot_of(merged(held.events, new), new.names, held.calibration)
            built = replace(built, version=held.version + len(pending))
            if self.recalibrates:
                built = replace(built, calibration=recalibrate(built.calibration, built.scorer, built.events))
            with self._swapping:
                self._state = _State(built, state.pending[len(pending) :])
            return built

    def _snapshot_of(self, events: Events, names: NameIndex, calibration: RollingCalibration) -> Snapshot:
        scorer = self._system.scorer(events)
        return Snapshot(events, scorer, names, candidates_on(scorer, events, self._config), calibration)

    @property
    def calibration(self) -> RollingCalibration:
        """The calibration of the probabilities, refitted on all updates."""
        return self._snapshot().calibration

    def _require(self, scorer: Scorer, protocol: type[Any], reason: str) -> Any:
        """The scorer, if it implements this optional protocol."""
        if not isinstance(scorer, protocol):
            raise QueryError(f"the system {self._name!r} {reason}")
        return scorer

    def _require_walks(self) -> None:
        """Refuse to explain the scores of a system without walks."""
        from cawn.explain.link import explains

        if not explains(self._state.snapshot.scorer):
            raise QueryError(
                f"the system {self._name!r} uses no walks, so its scores cannot be explained; train 'cawn'"
            )

    def _rank_logits(self, snapshot: Snapshot, sources: Sequence[Asked], byte_budget: int | None) -> list[Array]:
        """The logits of the candidates of each source."""
        sizes = [len(considered.ids) for *_, considered in sources]
        src = np.repeat(np.array([node for _, node, _, _ in sources], np.int64), sizes)
        dst = np.concatenate([considered.ids for *_, considered in sources])
        t = np.repeat(np.array([now for _, _, now, _ in sources], snapshot.events.t.dtype), sizes)
        most = max(len(src), 1)
        if byte_budget is not None and isinstance(snapshot.scorer, Bounded):
            most = min(most, snapshot.scorer.pairs_within(byte_budget))
        parts = [slice(i, i + most) for i in range(0, len(src), most)]
        found = [in_time_order(snapshot.scorer, src[part], dst[part], t[part]) for part in parts]
        return np.split(np.concatenate([np.empty(0), *found]), np.cumsum(sizes)[:-1])

    @property
    def _events(self) -> Events:
        return self._snapshot().events

    @property
    def _names(self) -> NameIndex:
        return self._snapshot().names

    def _given(self, snapshot: Snapshot, candidates: Names | None) -> _Considered | str | None:
        """The user's choice of candidates: names with their ids, "all" or None."""
        if candidates is None or (isinstance(candidates, str) and candidates == EVERYONE):
            return candidates
        given = list(dict.fromkeys(as_names(candidates)))
        return _Considered(self._spelling.ids(snapshot.names, given, 1), ["given"] * len(given), given)

    def _considered(
        self, snapshot: Snapshot, src: Name, node: int, t: Any, given: _Considered | str | None, kinds: Sequence[str]
    ) -> _Considered:
        """The candidates of one source."""
        if isinstance(given, _Considered) and given.given is not None:
            if node < len(snapshot.names):
                return given
            same = [
                bool(i >= len(snapshot.names) and self._spelling.same(src, name))
                for i, name in zip(given.ids, given.given, strict=True)
            ]
            return given._replace(ids=np.where(same, node, given.ids))
        if given == EVERYONE:
            ids = snapshot.candidates.everyone(node, t)
            return _Considered(ids, [EVERYONE] * len(ids), None)
        choice = snapshot.candidates.choose(node, t, tuple(kinds))
        return _Considered(np.array(list(choice), np.int64), list(choice.values()), None)

    def _ranking(
        self, snapshot: Snapshot, src: Name, t: Any, considered: _Considered, logits: Array, k: int, prior: float
    ) -> Ranking:
        """The k best candidates, in an order that does not depend on node ids."""
        probability = snapshot.calibration.at(t).probability(logits, prior)
        best = np.argsort(-probability, kind="stable")
        if len(best) > k:
            best = best[: np.searchsorted(-probability[best], -probability[best[k - 1]], side="right")]
        ranked = [
            Ranked(considered.named(i, snapshot.names), float(probability[i]), considered.found[i])
            for i in best.tolist()
        ]
        ranked.sort(key=lambda r: (-r.probability, isinstance(r.name, str), r.name))
        return Ranking(src, ranked[:k])

    def _question(self, src: Names, dst: Names, t: Any) -> tuple[Snapshot, tuple[Array, Array, Array]]:
        """The current snapshot, and the ids and times of B pairs."""
        snapshot = self._snapshot()
        names = snapshot.names
        u, v = as_names(src), as_names(dst)
        times = self._times(t, snapshot.events).reshape(-1)
        sizes = {len(u), len(v), len(times)} - {1}
        if len(sizes) > 1:
            raise QueryError(f"{len(u)} src, {len(v)} dst and {len(times)} times: give as many of each, or one for all")
        size = sizes.pop() if sizes else 1
        ids = []
        for side, given in enumerate((u, v)):
            found = self._spelling.ids(names, given, side)
            ids.append(np.repeat(found, size) if len(given) == 1 else found)
        both_unknown = (ids[0] >= len(names)) & (ids[1] >= len(names))
        for i in np.flatnonzero(both_unknown):
            if self._spelling.same(u[i if len(u) > 1 else 0], v[i if len(v) > 1 else 0]):
                ids[1][i] = ids[0][i]
        return snapshot, (ids[0], ids[1], np.repeat(times, size) if len(times) == 1 else times)

    def _times(self, t: Any, events: Events) -> Array:
        """Query times in the type and unit of the history."""
        return parse_query_times(t, events.t, self.reading)

    def __repr__(self) -> str:
        return f"LinkPredictor({self.num_links:,} links, {len(self._state.snapshot.names):,} nodes)"


def _newest(events: Events) -> Any:
    """The time of the newest link, None without links."""
    return events.t[-1].item() if len(events) else None


_ALIVE: WeakSet[LinkPredictor] = WeakSet()


def _after_fork() -> None:
    """Replace the locks: one that another thread held during the fork would never be released in the child."""
    for predictor in list(_ALIVE):
        predictor._renew_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def in_time_order(scorer: Callable[[Array, Array, Array], Array], src: Array, dst: Array, t: Array) -> Array:
    """Call a scorer, which needs ascending times, with pairs in any order."""
    if not (t[1:] < t[:-1]).any():
        return scorer(src, dst, t)
    order = np.argsort(t, kind="stable")
    found = scorer(src[order], dst[order], t[order])
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return found[back]


def _distinct(config: Settings, ends: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array, Array], Any]:
    """The pairs to score, and the position among them of each given pair.

    If the order of the two nodes does not matter, the smaller id comes first and each pair is scored once, so that both
    orders have bit-identical scores.
    """
    if not config.symmetric or len(ends[0]) == 0:
        return ends, slice(None)
    columns = np.minimum(*ends[:2]), np.maximum(*ends[:2]), ends[2]
    order = np.lexsort(columns)
    changes = np.any([column[order[1:]] != column[order[:-1]] for column in columns], axis=0)
    asked = np.empty(len(order), np.int64)
    asked[order] = np.cumsum(np.append(0, changes))
    first = order[np.append(True, changes)]
    low, high, t = (column[first] for column in columns)
    return (low, high, t), asked


def _check_ranking(k: Any, kinds: Any, prior: Any, byte_budget: Any) -> None:
    """Refuse invalid arguments of a ranking."""
    check_integer(k, "k", 1)
    check_words(kinds, "kinds", KINDS)
    check_prior(prior)
    if byte_budget is not None:
        check_integer(byte_budget, "byte_budget", 1)


Asked = tuple[Name, int, Any, _Considered]


def _groups(asked: Iterator[Asked]) -> Iterator[list[Asked]]:
    """Groups of sources to score together, each with about PAIRS_AT_ONCE candidates."""
    group: list[Asked] = []
    pairs = 0
    for source in asked:
        group.append(source)
        pairs += len(source[3].ids)
        if pairs >= PAIRS_AT_ONCE:
            yield group
            group, pairs = [], 0
    if group:
        yield group
