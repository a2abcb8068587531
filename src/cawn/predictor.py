"""LinkPredictor: a trained model with a history of links that grows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cawn.checks import check_flags, check_integer, check_number, check_path, check_threads
from cawn.data.events import Events
from cawn.data.forms import Arrivals, Form, NameForm, bipartite_prefixes
from cawn.data.hashing import hash_ids
from cawn.data.names import Name, NameIndex, Names, as_name, as_names
from cawn.data.readers import read_like
from cawn.data.reading import Reading
from cawn.data.times import TimeForm
from cawn.data.updates import Draft, GrowingEvents, KnownIds, NewLinks, Update, UpdateRules, is_apart, named, without
from cawn.devices import Device, check_device, pick_device
from cawn.errors import CawnError, QueryError, brief
from cawn.files import make_folder, temporary_folder
from cawn.learn.calibration import Calibration, RollingCalibration
from cawn.learn.prequential import accuracy_on
from cawn.learn.runs import (
    StoredRun,
    load_system,
    read_run,
    refuse_existing,
    write_report,
    write_run,
    write_served,
)
from cawn.learn.splits import ALL_LINKS
from cawn.learn.testing import recalibrate
from cawn.rankings import Scores
from cawn.snapshot import FreeLock, Model, PairQueries, Parts, Snapshot
from cawn.systems.base import System
from cawn.systems.indexed import IndexedScorer, IndexedSystem

if TYPE_CHECKING:
    from torch import Tensor

    from cawn.learn.testing import Run

__all__ = ["LinkPredictor", "NextSnapshot", "Scores", "Snapshot"]

Array = npt.NDArray[Any]
Result = Update | CawnError


@dataclass(frozen=True, slots=True)
class NextSnapshot:
    """The next snapshot of a predictor, which nobody sees until it is published.

    Args:
        base: The snapshot that it extends.
        links: The links that it adds, in the order of time; None if it removes links.
        results: What each batch added, or why it was refused.
        removed: The number of links that it lacks.
    """

    base: Snapshot
    snapshot: Snapshot
    links: NewLinks | None = None
    results: Sequence[Result] = ()
    removed: int = 0


class LinkPredictor(PairQueries):
    """A trained model with a history of links.

    Nodes are identified by their names in the data; unknown names are allowed and have no history. Times are numbers in
    the data's unit, or dates if the data had dates. Only links strictly before the query time are used.

    Threads may query and update concurrently. Every answer is computed from one `Snapshot`, which includes all updates
    that returned before the question; an update replaces it at once. With the systems `cawn` and `rates`, an update
    extends the index in time proportional to the number of new links, and queries never wait. With others, the first
    query after an update rebuilds what the system needs, and queries wait for that.
    """

    def __init__(
        self,
        model: Model,
        events: Events,
        names: NameIndex,
        calibration: RollingCalibration,
        *,
        recalibrate: bool = True,
        max_ahead: float | None = None,
    ) -> None:
        """See `load` and `of`, which most callers need instead."""
        check_flags(recalibrate=recalibrate)
        if max_ahead is not None:
            check_number(max_ahead, "max_ahead", "a number of 0 or more", lambda value: value >= 0)
        fitted = calibration.known_since(events.t[-1].item()) if len(events) else calibration
        self.recalibrates, self.max_ahead = recalibrate and model.finished, max_ahead
        self._state = Snapshot(model, events, names, fitted)
        self._growing: GrowingEvents | None = None
        self._known: KnownIds | None = None  # ids of links, once they are needed
        self._writing = FreeLock()  # held by whoever replaces `_state`

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
        max_ahead: float | None = None,
    ) -> LinkPredictor:
        """Load a run folder. Every file is checked first, in time linear in its size.

        Args:
            verify: Whether to compare checksums; types, shapes and ranges are always checked.
            cache: Whether to cache the index in the folder if building it from the links takes more than a second. A
                cached index is used in any case.
            recalibrate: Whether `update` also refits the calibration of the probabilities.
            max_ahead: How far ahead new links may be: of the clock, in seconds, where the data has dates (by default a
                day); else of the newest link, in the data's unit (by default ten times the span of the links).
        """
        path = check_path(folder, "folder")
        check_device(device)
        check_flags(verify=verify, cache=cache)
        check_threads(threads)
        run = read_run(path, verify=verify)
        system = load_system(run, pick_device(device), threads, verify=verify, cache=cache)
        return cls.of_stored(run, system, recalibrate=recalibrate, max_ahead=max_ahead)

    @classmethod
    def of_stored(
        cls, run: StoredRun, system: System, *, recalibrate: bool = True, max_ahead: float | None = None
    ) -> LinkPredictor:
        """The predictor of a run that was read from its folder, and of its system; most callers need `load`."""
        reading = run.reading or Reading()
        model = Model(run.description["system"], system, run.config, run.form, reading, run.record, run.folder)
        return cls(model, run.events, run.names, run.calibration, recalibrate=recalibrate, max_ahead=max_ahead)

    @classmethod
    def of(cls, run: Run, *, recalibrate: bool = True, max_ahead: float | None = None) -> LinkPredictor:
        """The predictor of a run that has just been trained; options as for `load`."""
        if not hasattr(run, "system") or not hasattr(run, "events"):
            raise QueryError(f"run is {brief(run)}: give the result of cawn.train")
        events, reading = run.events, run.events.reading or Reading()
        names = NameForm.of(events.names, bipartite_prefixes(events))
        form = Form.of(names, TimeForm.of(events.t, reading), events, reading)
        model = Model(run.record.description["system"], run.system, run.config, form, reading, run.record, run.folder)
        calibration = RollingCalibration.of(run.calibration)
        return cls(model, events, events.names, calibration, recalibrate=recalibrate, max_ahead=max_ahead)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_growing": None}  # has room for more links

    def snapshot(self) -> Snapshot:
        """The present history and weights, which never change: for several questions about one version."""
        return self._state

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a new run folder with this model and all links, including updates."""
        target = check_path(folder, "folder")
        refuse_existing(target)
        state = self.snapshot()
        if (record := state.model.record) is None:
            raise QueryError("this predictor was not made from a run: use LinkPredictor.load or LinkPredictor.of")
        own, description = state.model.weights(), record.description | changes_of(state)
        make_folder(target.absolute().parent)
        with temporary_folder(target.absolute()) as part:
            write_report(part, record.evaluated or own, record.report, record.results, record.metrics)
            if record.evaluated is not None:
                write_served(part, own, record.report)
            write_run(part, state.model.config, state.events, description, state.names)
            part.rename(target)

    # Links

    def update(
        self,
        new_events: Any,
        *,
        once: bool = False,
        on_accuracy: Callable[[dict[str, Any]], object] | None = None,
        **columns: Any,
    ) -> Update:
        """Add links to the history: Events, or anything `cawn.read` reads with these `columns`. Nodes may be new.

        Columns that are not given default to those of the training data, if the file or table has them. The index of
        the systems `cawn` and `rates` is extended, in time proportional to the number of new links; others rebuild what
        they need at the next query. The calibration is refitted too, if enough links are newer than those it was fitted
        on (see `load`): up to 2,000 of them are scored, each with the links before it.

        If links have ids (`link_id="column"`, or Events with `link_id`), those with known ids are skipped. Without ids,
        links that the history has already are added again, with a warning that counts them.

        Args:
            once: Skip links that the history has already, with the same ends, time and attributes.
            on_accuracy: Called with the accuracy on the new links, as `evaluate` returns it.
        """
        check_flags(once=once)
        if on_accuracy is not None and not callable(on_accuracy):
            raise QueryError(f"on_accuracy is {brief(on_accuracy)}: give a function of the accuracy")
        arrivals = self._arrivals(new_events, columns)
        with self._writing:
            if (
                not once
                and arrivals.link_id is None
                and (repeated := int(self._draft(UpdateRules()).is_repeated(arrivals).sum()))
            ):
                warnings.warn(
                    f"{repeated:,} of these {len(arrivals):,} links are in the history already and are added again; "
                    "give once=True or link ids to skip known links",
                    stacklevel=2,
                )
            extension = self.extend([arrivals], UpdateRules(max_ahead=self.max_ahead, once=once))
            done = _accepted(extension)
            if on_accuracy is not None and done.added and (accuracy := _accuracy(extension)) is not None:
                on_accuracy(accuracy)
            self.publish(extension)
        if done.added and self.snapshot().built is not None and self.recalibrates:
            self.recalibrate()
        return done

    def evaluate(self, new_events: Any, **columns: Any) -> dict[str, Any]:
        """The accuracy on links that arrived after the training, without adding them; arguments as for `update`.

        Each of up to 2,000 of them is scored from the links before it, against destinations of earlier links: AP and
        AUC against one, MRR among 20, of the model and of the recency baseline.
        """
        arrivals = self._arrivals(new_events, columns)
        extension = self.extend([arrivals], UpdateRules(max_ahead=self.max_ahead, once=True))
        if not _accepted(extension).added:
            raise QueryError("the history has all of these links already: give links that it does not have")
        if (found := _accuracy(extension)) is None:
            raise QueryError("no new link has another destination before it, so there is nothing to compare it with")
        return found

    def _arrivals(self, new_events: Any, columns: dict[str, Any]) -> Arrivals:
        new = read_like(new_events, self.reading, **({"bipartite": False} | columns))
        return self.snapshot().model.form.events(new)

    def append(
        self, src: Names, dst: Names, t: Any, *, attributes: Any = None, link_id: npt.ArrayLike | None = None
    ) -> Update:
        """Add links given as columns; the next query uses them. If it raises, nothing was added.

        Args:
            src: Names of the sources.
            dst: Names of the destinations.
            t: Times, as for `score`.
            attributes: Link attributes, if the data has any, as numbers or names of categories: columns by name,
                `{"amount": [17.5], "currency": ["EUR"]}`, or one row per link, by name or in the order of the columns.
            link_id: Ids, as for `Events`; links with known ids are skipped.
        """
        arrivals = self.snapshot().model.form.arrivals(src, dst, t, attributes, link_id)
        with self._writing:
            extension = self.extend([arrivals])
            done = _accepted(extension)
            self.publish(extension)
        return done

    def extend(self, batches: Sequence[Arrivals], rules: UpdateRules | None = None) -> NextSnapshot:
        """The next snapshot, with these batches of links: nobody sees it until `publish`, and it has no other effect.

        Batches have the effect that they would have one by one: a batch that cannot be added does not affect others.
        Without any, the index is copied into the form that grows, which the first extension does otherwise.
        """
        with self._writing:
            held, results = self._state, list[Result | None]()
            draft = self._draft(rules or UpdateRules(max_ahead=self.max_ahead))
            for batch in batches:
                try:
                    draft.add(batch)
                    results.append(None)
                except CawnError as error:
                    results.append(error)
            new, updates = draft.finish()
            done = iter(updates)
            found = [next(done) if each is None else each for each in results]
            return NextSnapshot(held, self._extended(held, new) if len(new) or not batches else held, new, found)

    def _draft(self, rules: UpdateRules) -> Draft:
        held = self._state.events
        if self._known is None:
            self._known = KnownIds(held.link_id)
        return Draft(held, self._state.names, self._state.model.form, self._known, rules)

    def _extended(self, held: Snapshot, new: NewLinks) -> Snapshot:
        growing, self._growing = self._growing, None  # made again if this fails
        if growing is None or growing.events is not held.events:
            growing = GrowingEvents(held.events)
        events, kept = growing.add(new)
        self._growing = growing
        later = replace(held, events=events, names=new.names, number=held.number + bool(len(new)), built=None)
        if held.built is None or not isinstance(held.scorer, IndexedScorer) or new.attributes:
            return replace(later, recalibrates=self.recalibrates)
        scorer = held.scorer.extended(events, kept)
        history = scorer.history if isinstance(scorer, IndexedScorer) else None
        return replace(later, built=Parts(scorer, held.candidates.extended(events, kept, history)))

    def publish(self, extension: NextSnapshot) -> Snapshot:
        """Replace the present snapshot by its extension, which must have been made from the present history."""
        with self._writing:
            held, later = self._state, extension.snapshot
            if held.events is not extension.base.events:
                raise QueryError("the history has changed since this extension was made: make another")
            if later is extension.base:
                return held
            if (new := extension.links) is None:
                self._known = self._growing = None
            elif self._known is not None and new.link_id is not None:
                self._known.add(new.link_id)
            if held is not extension.base:  # other weights, or another calibration
                later = later.adapted(held.model, held.fitted, held.number + 1)
            self._state = later
            return later

    # Removing links

    def forget(self, name: Name) -> int:
        """Remove a node: all its links, its name and its attributes; returns the number of links.

        What remains equals a history without them. Names whose last links are removed go as well.
        """
        return self._publish_removal(name=as_name(name, "name"))

    def remove(self, link_id: Names) -> int:
        """Remove the links with these ids; returns their number."""
        return self._publish_removal(link_id=as_names(link_id))

    def retain(self, *, since: Any = None, links: int | None = None) -> int:
        """Remove all links before a time, or all but the newest ones; returns their number."""
        return self._publish_removal(since=since, links=links)

    def _publish_removal(self, **removed: Any) -> int:
        with self._writing:
            reduced = self.reduce(**removed)
            self.publish(reduced)
        return reduced.removed

    def reduce(
        self, *, name: Name | None = None, link_id: Names | None = None, since: Any = None, links: int | None = None
    ) -> NextSnapshot:
        """The next snapshot without some links: nobody sees it until `publish`, and it has no other effect."""
        held, gone = self._state, list[int]()
        events, form = held.events, held.model.form.names
        if name is not None:
            gone = named(name, held.names, form)
            keep = is_apart(events, gone)
        elif link_id is not None:
            ids = np.zeros(len(events), np.uint64) if events.link_id is None else events.link_id
            keep = ~np.isin(ids, hash_ids(as_names(link_id)))
        else:
            most = len(events) if links is None else check_integer(links, "links", 1)
            keep = np.arange(len(events)) >= max(_first_since(held, since), len(events) - most)
        if keep.all() and not gone:
            return NextSnapshot(held, held)
        events, names = without(events, held.names, form, keep, gone)
        state = replace(held, events=events, names=names, number=held.number + 1, built=None)
        if held.built is not None:
            _ = state.parts
        return NextSnapshot(held, state, removed=int((~keep).sum()))

    # Weights and calibration

    def recalibrate(self, calibration: Calibration | None = None, t: Any = None) -> bool:
        """Refit the calibration on links that are newer than the last fit; False if there are too few.

        `update` does this too; `append` does not. Up to 2,000 links are scored, each from the links before it.

        Args:
            calibration: Fitted by the caller on links up to time t (in the data's unit), to be used for later queries.
        """
        held = self.snapshot()
        if not self.finished:
            return False
        if calibration is None:
            fitted = recalibrate(held.calibration, held.scorer, held.events)
        else:
            fitted = held.calibration.then(calibration, t)
        with self._writing:
            if fitted is held.calibration or self._state.calibration is not held.calibration:
                return False
            self._state = self._state.adapted(self._state.model, fitted, self._state.number)
        return True

    def replace_weights(
        self, weights: Mapping[str, Tensor], calibration: Calibration | RollingCalibration | None = None
    ) -> None:
        """Use other weights of the same network from the next query on; queries in progress use the old ones.

        When the predictor is saved, the weights that the run's results were measured with are kept as well.

        Args:
            calibration: That of the new weights; the current one by default.
        """
        model = self._state.model
        if not isinstance(model.system, IndexedSystem):
            raise QueryError(f"the weights of the system {model.name!r} cannot be replaced while it is in use")
        module = deepcopy(model.system.module)
        try:
            module.load_state_dict(dict(weights))
        except (RuntimeError, TypeError, AttributeError) as error:
            raise QueryError("the weights do not fit this model") from error
        with self._writing:
            state, record = self._state, model.record
            if record is not None and record.evaluated is None:
                record = replace(record, evaluated=model.weights(), report=record.report | {"served": ALL_LINKS})
            fitted = state.calibration if calibration is None else RollingCalibration.of(calibration)
            changed = replace(model, system=model.system.with_module(module), record=record)
            self._state = state.adapted(changed, fitted.known_since(self.watermark), state.number + 1)


def changes_of(state: Snapshot) -> dict[str, Any]:
    """What updates changed in the description of a run, and the form of its links."""
    trained = None if state.model.record is None else state.model.record.description.get("links")
    changed = state.model.form.to_dict() | {"updated": trained is not None and trained != len(state.events)}
    return changed | ({"calibration": state.calibration.to_dict()} if state.model.finished else {})


def _accepted(extension: NextSnapshot) -> Update:
    """The result of the only batch of an extension, unless it was refused."""
    if isinstance(result := extension.results[0], CawnError):
        raise result
    return result


def _accuracy(extension: NextSnapshot) -> dict[str, Any] | None:
    """The accuracy on the links that an extension adds."""
    assert extension.links is not None
    t, state = extension.links.t, extension.snapshot
    links = np.searchsorted(extension.base.events.t, t, side="right") + np.arange(len(t))
    return accuracy_on(state.scorer, state.events, links)


def _first_since(held: Snapshot, since: Any) -> int:
    """The position of the first link from a time on."""
    times = held.times([] if since is None else since).reshape(-1)
    if since is not None and len(times) != 1:
        raise QueryError(f"since is {brief(since)}: give one time")
    return int(np.searchsorted(held.events.t, times).sum())
