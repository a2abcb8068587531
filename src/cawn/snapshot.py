"""Snapshot: the answers of a trained model on one version of its history, which never changes."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, cast
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cawn.checks import check_choice, check_flags, check_integer, check_words
from cawn.data.events import Events
from cawn.data.forms import Form
from cawn.data.hashing import digest
from cawn.data.names import Name, NameIndex, Names, as_name, as_names, near_names
from cawn.data.reading import Reading
from cawn.data.times import numbers_to_dates, parse_query_times, usual
from cawn.errors import QueryError, brief
from cawn.learn.calibration import FITTED_PRIOR, RollingCalibration, check_prior
from cawn.learn.runs import Record
from cawn.learn.testing import candidates_on, recalibrate
from cawn.rankings import MAX_DRAWS, NodeFacts, Ranked, Ranking, Rankings, Scores, names_column
from cawn.systems.base import Embedder, Scorer, Seeded, System
from cawn.systems.indexed import IndexedScorer
from cawn.systems.settings import Settings, memory_to
from cawn.walks.candidates import KINDS, Candidates

if TYPE_CHECKING:
    from cawn.explain.explanation import Explanation
    from cawn.explain.law import Law
    from cawn.explain.link import Background

Array = npt.NDArray[Any]
Pairs = tuple[Array, Array, Array]  # ids of sources and of destinations, and times: [B] each

DRAW_SEED = 0x5EED  # of the first sample, which `score` uses without draws
PAIRS_AT_ONCE = 1 << 14  # for several sources that are ranked together
EVERYONE = "all"


@dataclass(frozen=True)
class Model:
    """What a snapshot answers with, besides its history.

    Args:
        record: What is known of the training; None for a model without a run.
        folder: The run folder; None for a model that was never stored.
    """

    name: str  # of the system
    system: System
    config: Settings
    form: Form
    reading: Reading
    record: Record | None = None
    folder: Path | None = None

    @property
    def finished(self) -> bool:
        """Whether training is finished, so that probabilities are calibrated."""
        return self.record is None or self.record.finished

    def weights(self) -> dict[str, Array]:
        """The weights and buffers of the network by name."""
        return {name: value.detach().cpu().numpy() for name, value in self.system.module.state_dict().items()}


class Parts(NamedTuple):
    """What a snapshot needs to answer, which may take long to build."""

    scorer: Scorer
    candidates: Candidates


class FreeLock:
    """A lock that is free in copies, and in processes that were forked while another thread held it."""

    _alive: ClassVar[WeakSet[FreeLock]] = WeakSet()

    def __init__(self) -> None:
        self.free()
        self._alive.add(self)

    def free(self) -> None:
        self._lock = RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return FreeLock, ()

    @classmethod
    def free_all(cls) -> None:
        """In a forked process, no other thread is left to release a lock."""
        for lock in list(cls._alive):
            lock.free()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=FreeLock.free_all)


class PairQueries(ABC):
    """What can be asked of a trained model. A `Snapshot` answers; a `LinkPredictor` asks its newest one."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The present history and weights, which never change: for several questions about one version."""

    def score(
        self,
        src: Names,
        dst: Names,
        t: Any,
        *,
        prior: float = FITTED_PRIOR,
        draws: int | None = None,
        strict: bool = False,
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
            strict: Refuse names that are not in the network, which otherwise belong to nodes without links.
        """
        if draws is not None:
            check_integer(draws, "draws", 2, MAX_DRAWS)
        check_prior(prior)
        check_flags(strict=strict)
        state = self.snapshot()
        if strict:
            state.refuse_unknown(src, dst)
        with state.enough_memory():
            ends, asked = _distinct(state.model.config, state.pairs(src, dst, t))
            times = ends[2][asked]
            if draws is None:
                logits = in_time_order(state.scorer, *ends)[asked]
                return state.calibration.probability(logits, times, prior)
            scorer = state.require(Seeded, "draws no samples: omit draws")
            drawn = [in_time_order(partial(scorer.logits, seed=DRAW_SEED + i), *ends)[asked] for i in range(draws)]
            found = state.calibration.probability(np.stack(drawn), times, prior)  # [draws, B]
        return Scores(found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(draws))

    def embed(self, src: Names, dst: Names, t: Any) -> npt.NDArray[np.float32]:
        """The embedding of each pair, which the last layers turn into its logit: [B, width]."""
        state = self.snapshot()
        with state.enough_memory():
            ends, asked = _distinct(state.model.config, state.pairs(src, dst, t))
            scorer = state.require(Embedder, "has no embeddings of pairs")
            return np.asarray(in_time_order(scorer.embed, *ends)[asked])

    def score_table(
        self, src: Names, dst: Names, t: Any, *, prior: float = FITTED_PRIOR, draws: int | None = None
    ) -> pa.Table:
        """`score` as a table of src, dst, t (dates if the data had dates), probability and, with draws, error."""
        u, v, state = as_names(src), as_names(dst), self.snapshot()
        scores = state.score(u, v, t, prior=prior, draws=draws)
        found = scores._asdict() if isinstance(scores, Scores) else {"probability": scores}
        size = len(found["probability"])
        times = np.broadcast_to(state.times(t).reshape(-1), size)
        if self.reading.dates:
            times = numbers_to_dates(times, self.reading.unit)
        ends = {name: names_column(ends * size if len(ends) == 1 else ends) for name, ends in (("src", u), ("dst", v))}
        return pa.table(ends | {"t": pa.array(times)} | {name: pa.array(values) for name, values in found.items()})

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
        state, source = self.snapshot(), as_name(src, "src")
        if (times := state.times(t)).size != 1:
            raise QueryError(f"t has {times.size} times: rank takes one time, rank_many several")
        options: dict[str, Any] = {"candidates": candidates, "kinds": kinds, "prior": prior, "byte_budget": byte_budget}
        return next(state.rank_many([source], t, k, **options))

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
        check_integer(k, "k", 1)
        check_words(kinds, "kinds", KINDS)
        check_prior(prior)
        if byte_budget is not None:
            check_integer(byte_budget, "byte_budget", 1)
        state, sources = self.snapshot(), as_names(nodes)
        times = state.times(t).reshape(-1)
        if len(times) not in (1, len(sources)):
            raise QueryError(f"{len(sources)} nodes and {len(times)} times: give one time for all, or one for each")
        ids, times = state.ids(sources, 0), np.broadcast_to(times, len(sources))
        chosen = _Candidates.of(state, candidates, kinds)
        asked = (chosen.of_source(*each) for each in zip(sources, ids.tolist(), times, strict=True))

        def answers() -> Iterator[Ranking]:
            for group in _groups(asked):
                with state.enough_memory():
                    logits = _rank_logits(state, group, byte_budget)
                for each, found in zip(group, logits, strict=True):
                    yield _ranking(state, each, found, int(k), prior)

        return Rankings(answers())

    def nodes(self, side: Literal["src", "dst"] | None = None) -> list[Name]:
        """The names of all nodes, or of those that have been a source ("src") or a destination ("dst")."""
        state = self.snapshot()
        if side is None:
            return [state.model.form.names.shown(name) for name in state.names.all().tolist()]
        check_choice(side, "side", ("src", "dst"))
        ends = state.events.src if side == "src" else state.events.dst
        return [state.name(node) for node in np.unique(ends).tolist()]

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
        check_choice(background, "background", ("strangers", "pairs"))
        state = self.snapshot()
        state.require_walks()
        ends = state.pairs(*(given := (as_name(src, "src"), as_name(dst, "dst"))), t)
        if len(ends[0]) != 1:
            raise QueryError(f"t has {len(ends[0])} times: only one link can be explained at a time")
        for name, node in zip(given, ends[:2], strict=True):
            if node[0] >= len(state.names):
                raise QueryError(f"{brief(name)} is not in the network, so it has no history to explain a score with")
        calibration, reading = state.calibration.at(ends[2][0]), self.reading
        options: dict[str, Any] = {"draws": int(draws), "prior": prior, "background": background, "shapes": shapes}
        with state.enough_memory():
            found = explain_link(state.scorer, state.names, calibration, ends, reading=reading, **options)
            if not what_if:
                return found
            asked = ask_what_if(found, state.scorer, state.names, calibration, ends, reading)
        return replace(found, what_if=asked)

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
        state = self.snapshot()
        state.require_walks()
        if state.model.folder is None:
            raise QueryError("this predictor was not loaded from a run folder: train with out=")
        with state.enough_memory():
            return law_of_run(state.model.folder, state.scorer, state.events, int(links), progress)

    def node(self, name: Name, k: int = 20) -> NodeFacts:
        """The number of links of a node, the times of its first and last link, and its last k links."""
        check_integer(k, "k", 0)
        state = self.snapshot()
        events = state.events
        known = {
            node for side in (0, 1) if (node := int(state.ids([as_name(name, "name")], side)[0])) < len(state.names)
        }
        if isinstance(state.scorer, IndexedScorer):
            found = [state.scorer.history.links_of(node, max(int(k), 1)) for node in known]
            count, links = sum(each[0] for each in found), [each[1] for each in found]
        else:
            links = [np.flatnonzero((events.src == node) | (events.dst == node)) for node in known]
            count = len(np.unique(np.concatenate([[], *links])))
        ids = np.unique(np.concatenate([np.empty(0, np.int64), *links])).tolist()  # with the first and the last
        first, last = (events.t[ids[0]].item(), events.t[ids[-1]].item()) if ids else (None, None)
        recent = [(state.name(events.src[i]), state.name(events.dst[i]), events.t[i].item()) for i in ids[::-1][:k]]
        return NodeFacts(bool(known), count, first, last, recent)

    def knows(self, name: Name) -> bool:
        """Whether a node of this name is in the network."""
        state, names = self.snapshot(), [as_name(name, "name")]
        return any(state.ids(names, side)[0] < len(state.names) for side in (0, 1))

    @property
    def reading(self) -> Reading:
        """How the training data was read."""
        return self.snapshot().model.reading

    @property
    def calibration(self) -> RollingCalibration:
        """The calibration of the probabilities, refitted on all updates."""
        state = self.snapshot()
        _ = state.parts  # which may refit it
        return state.fitted

    @property
    def version(self) -> int:
        """Increases with every change of the history or of the weights."""
        return self.snapshot().number

    @property
    def watermark(self) -> Any:
        """The time of the newest link, in the data's unit; None without links."""
        t = self.snapshot().events.t
        return t[-1].item() if len(t) else None

    @property
    def finished(self) -> bool:
        """Whether training is finished, so that probabilities are calibrated."""
        return self.snapshot().model.finished

    @property
    def num_links(self) -> int:
        """The number of links in the history, including updates."""
        return len(self.snapshot().events)

    @property
    def num_nodes(self) -> int:
        """The number of nodes in the network."""
        return len(self.snapshot().names)

    @property
    def identity(self) -> str:
        """A digest of the model and the history."""
        state = self.snapshot()
        events, model = state.events, state.model
        facts = {} if model.record is None else model.record.description.get("facts", {})
        words = [model.name, model.config.to_toml(), facts, state.calibration.to_dict()]
        text = np.frombuffer(json.dumps(words, sort_keys=True).encode(), np.uint8)
        attributes = [array for array in (events.msg, events.x) if array is not None]
        names = [array for _, array in sorted(state.names.arrays.items())]
        return digest(*model.weights().values(), text, events.src, events.dst, events.t, *attributes, *names)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_links:,} links, {self.num_nodes:,} nodes)"


@dataclass(eq=False, repr=False)
class Snapshot(PairQueries):
    """A model and one version of its history, which never change; any number of threads may ask.

    Args:
        fitted: The calibration of the probabilities.
        recalibrates: Whether it is refitted when the parts are built.
        built: What answering needs; built when the first question is asked, if it is not given.
    """

    model: Model
    events: Events
    names: NameIndex
    fitted: RollingCalibration
    number: int = 0
    recalibrates: bool = False
    built: Parts | None = None
    _building: FreeLock = field(default_factory=FreeLock, init=False)

    def snapshot(self) -> Snapshot:
        """This snapshot."""
        return self

    @property
    def parts(self) -> Parts:
        """What answering needs. If building it fails, the next question tries again."""
        if self.built is None:
            with self._building, self.enough_memory():
                if self.built is None:
                    scorer = self.model.system.scorer(self.events)
                    if self.recalibrates:
                        self.fitted = recalibrate(self.fitted, scorer, self.events)
                        self.recalibrates = False
                    self.built = Parts(scorer, candidates_on(scorer, self.events, self.model.config))
        return self.built

    @property
    def scorer(self) -> Scorer:
        """Scores pairs of node ids."""
        return self.parts.scorer

    @property
    def candidates(self) -> Candidates:
        """Chooses destinations to rank."""
        return self.parts.candidates

    def adapted(self, model: Model, fitted: RollingCalibration, number: int) -> Snapshot:
        """The same history with other weights or another calibration."""
        built = self.built
        if built is not None and model is not self.model:
            built = built._replace(scorer=cast("IndexedScorer", built.scorer).with_module(model.system.module))
        return replace(self, model=model, fitted=fitted, number=number, built=built)

    def name(self, node: int) -> Name:
        """The name of a node."""
        return self.model.form.names.shown(self.names.name(int(node)))

    def ids(self, names: Names, side: int) -> npt.NDArray[np.int64]:
        """Ids of sources (side 0) or destinations (1). Unknown ones get the id len(names), or the next one."""
        return self.model.form.names.ids(self.names, as_names(names), side)

    def times(self, t: Any) -> Array:
        """Times of a query in the type and unit of the history."""
        return parse_query_times(t, self.events.t, self.model.form.times)

    def pairs(self, src: Names, dst: Names, t: Any) -> Pairs:
        """The ids and times of B pairs."""
        u, v, times = as_names(src), as_names(dst), self.times(t).reshape(-1)
        size = _one_size(src=u, dst=v, times=times)
        src_ids, dst_ids = (np.broadcast_to(self.ids(given, side), size).copy() for side, given in enumerate((u, v)))
        for i in np.flatnonzero((src_ids >= len(self.names)) & (dst_ids >= len(self.names))):
            if self.is_same(u[i if len(u) > 1 else 0], v[i if len(v) > 1 else 0]):
                dst_ids[i] = src_ids[i]
        return src_ids, dst_ids, np.broadcast_to(times, size).copy()

    def unknown(self, src: Names, dst: Names) -> list[Name]:
        """The names among these that are not in the network, each once."""
        given = [as_names(src), as_names(dst)]
        found = [np.flatnonzero(self.ids(names, side) >= len(self.names)) for side, names in enumerate(given)]
        return list(dict.fromkeys(names[i] for names, where in zip(given, found, strict=True) for i in where.tolist()))

    def count_unknown(self, src: Names, dst: Names) -> int:
        """The number of pairs with a node that is not in the network."""
        src_ids, dst_ids = (self.ids(names, side) for side, names in enumerate((src, dst)))
        _one_size(src=src_ids, dst=dst_ids)
        return int(((src_ids >= len(self.names)) | (dst_ids >= len(self.names))).sum())

    def refuse_unknown(self, src: Names, dst: Names) -> None:
        """Raise QueryError if a name is not in the network, with names that look like it."""
        if unknown := self.unknown(src, dst):
            near = near_names(self.names, unknown[0])
            hint = f"; did you mean {', '.join(map(brief, near))}?" if near else ""
            raise QueryError(f"{len(unknown):,} names are not in the network, such as {brief(unknown[0])}{hint}")

    def require(self, protocol: type[Any], reason: str) -> Any:
        """The scorer, if it implements this optional protocol."""
        if not isinstance(self.scorer, protocol):
            raise QueryError(f"the system {self.model.name!r} {reason}")
        return self.scorer

    def require_walks(self) -> None:
        """Refuse to explain the scores of a system without walks."""
        from cawn.explain.link import explains

        if not explains(self.model.config):
            raise QueryError(
                f"the system {self.model.name!r} uses no walks, so its scores cannot be explained; train 'cawn'"
            )

    def enough_memory(self) -> AbstractContextManager[None]:
        """Turns running out of memory during a query into one line."""
        return memory_to("answering", self.model.config, scoring=True)

    def is_same(self, u: Name, v: Name) -> bool:
        """Whether an unknown source and an unknown destination are the same node."""
        form = self.model.form.names
        return str(form.canonical(u, 0)) == str(form.canonical(v, 1))


def newest_time(state: PairQueries) -> Any:
    """The time that queries without one follow: that of the newest link; if the training had it, far from the other
    links, that of the newest of these."""
    held = state.snapshot()
    t = held.events.t
    odd = len(t) and t[-1] == held.model.form.times.last
    return t[usual(t)][-1].item() if odd else state.watermark


def _one_size(**columns: Sized) -> int:
    """The size of columns that have as many values each, or one for all."""
    sizes = {len(column) for column in columns.values()} - {1}
    if len(sizes) > 1:
        found = " and ".join(f"{len(column)} {name}" for name, column in columns.items())
        raise QueryError(f"{found}: give as many of each, or one for all")
    return sizes.pop() if sizes else 1


class _Asked(NamedTuple):
    """A source to rank for: its candidates, why they were chosen, and their names if they were given."""

    src: Name
    node: int
    t: Any
    candidates: Array  # [C]
    found: Sequence[str]
    names: list[Name] | None = None


class _Candidates(NamedTuple):
    """How candidates are chosen: names with their ids, all nodes, or some kinds."""

    state: Snapshot
    kinds: Sequence[str]
    names: list[Name] | None
    ids: Array

    @classmethod
    def of(cls, state: Snapshot, candidates: Names | None, kinds: Sequence[str]) -> _Candidates:
        if isinstance(candidates, str) and candidates == EVERYONE:
            kinds, candidates = (EVERYONE,), None
        names = None if candidates is None else list(dict.fromkeys(as_names(candidates)))
        return cls(state, kinds, names, state.ids(names or [], 1))

    def of_source(self, src: Name, node: int, t: Any) -> _Asked:
        if self.names is not None:
            known = node < len(self.state.names)
            ids = self.ids if known else self.state.pairs([src], self.names, t)[1]  # it may be one of them
            return _Asked(src, node, t, ids, ["given"] * len(ids), self.names)
        if EVERYONE in self.kinds:
            ids = self.state.candidates.everyone(node, t)
            return _Asked(src, node, t, ids, [EVERYONE] * len(ids))
        found = self.state.candidates.choose(node, t, tuple(self.kinds))
        return _Asked(src, node, t, np.array(list(found), np.int64), list(found.values()))


def _rank_logits(state: Snapshot, sources: Sequence[_Asked], byte_budget: int | None) -> list[Array]:
    """The logits of the candidates of each source."""
    sizes = [len(each.candidates) for each in sources]
    src = np.repeat(np.array([each.node for each in sources], np.int64), sizes)
    dst = np.concatenate([each.candidates for each in sources])
    t = np.repeat(np.array([each.t for each in sources], state.events.t.dtype), sizes)
    most = max(len(src), 1)
    if byte_budget is not None and isinstance(state.scorer, IndexedScorer):
        most = min(most, state.scorer.pairs_within(byte_budget))
    parts = [slice(i, i + most) for i in range(0, len(src), most)]
    found = [in_time_order(state.scorer, src[part], dst[part], t[part]) for part in parts]
    return np.split(np.concatenate([np.empty(0), *found]), np.cumsum(sizes)[:-1])


def _ranking(state: Snapshot, asked: _Asked, logits: Array, k: int, prior: float) -> Ranking:
    """The k best candidates, in an order that does not depend on node ids."""
    probability = state.calibration.at(asked.t).probability(logits, prior)
    best = np.argsort(-probability, kind="stable")
    if len(best) > k:
        best = best[: np.searchsorted(-probability[best], -probability[best[k - 1]], side="right")]
    names = {i: state.name(asked.candidates[i]) if asked.names is None else asked.names[i] for i in best.tolist()}
    ranked = [Ranked(name, float(probability[i]), asked.found[i]) for i, name in names.items()]
    ranked.sort(key=lambda r: (-r.probability, isinstance(r.name, str), r.name))
    return Ranking(asked.src, ranked[:k])


def in_time_order(scorer: Callable[[Array, Array, Array], Array], src: Array, dst: Array, t: Array) -> Array:
    """Call a scorer, which needs ascending times, with pairs in any order."""
    if not (t[1:] < t[:-1]).any():
        return scorer(src, dst, t)
    order = np.argsort(t, kind="stable")
    ordered = scorer(src[order], dst[order], t[order])
    found = np.empty_like(ordered)
    found[order] = ordered
    return found


def _distinct(config: Settings, ends: Pairs) -> tuple[Pairs, Any]:
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


def _groups(asked: Iterator[_Asked]) -> Iterator[list[_Asked]]:
    """Groups of sources to score together, each with about PAIRS_AT_ONCE candidates."""
    group: list[_Asked] = []
    pairs = 0
    for source in asked:
        group.append(source)
        pairs += len(source.candidates)
        if pairs >= PAIRS_AT_ONCE:
            yield group
            group, pairs = [], 0
    if group:
        yield group
