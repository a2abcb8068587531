"""The live state: whatever arrives through whatever door, what is acknowledged is there once, before and after a restart."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import cawn
from cawn.errors import CawnError, StorageError
from cawn.predictor import LinkPredictor
from cawn.serve.links import Links
from cawn.serve.state import LiveState, open_state
from cawn.serve.store import Store
from cawn.serve.writer import Writer
from cawn.systems.rates import RatesSettings

SPAN = 900


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> dict[str, Path]:
    """A run whose names are integers, and one with text names and attributes."""
    folder, rng = tmp_path_factory.mktemp("live"), np.random.default_rng(0)
    src, dst, t = rng.integers(0, 8, 120), rng.integers(4, 12, 120), np.sort(rng.integers(0, SPAN, 120))
    plain = cawn.Events(src, dst, t, labels=np.arange(12) + 1)
    rows = [f"n{u},n{v},{when},{u * 1.5},{'EUR' if v % 2 else 'USD'}" for u, v, when in zip(src, dst, t, strict=True)]
    (folder / "paid.csv").write_text("src,dst,time,amount,currency\n" + "\n".join(rows) + "\n")
    paid = cawn.read(folder / "paid.csv", msg=["amount", "currency"])
    options: dict[str, Any] = {"quiet": True, "kinds": ("random",), "device": "cpu", "baselines": False}
    for name, events in (("integers", plain), ("text", paid)):
        cawn.train(events, RatesSettings(epochs=1), out=folder / name, **options)
    return {name: folder / name for name in ("integers", "text")}


class FailingStore:
    """A store whose next commits fail."""

    def __init__(self, store: Store) -> None:
        self._store, self.failing = store, False

    def commit(self, *arguments: Any) -> None:
        if self.failing:
            raise StorageError("the disk is full; nothing was stored")
        self._store.commit(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


NAMES = st.one_of(
    st.integers(1, 14),
    st.sampled_from(["7", "7.0", " 7", "07", "n3", "n3 ", "N3", "n99", "zoë", "", "+7", "1e3"]),
)
TIMES = st.one_of(
    st.integers(0, SPAN + 400),
    st.sampled_from(
        [SPAN + 5, SPAN + 5.0, 700.0, -3, -6 * 10**18, 6 * 10**18, 10**9, "33", "x", "2016-01-23", None, 0.5]
    ),
)
IDS = st.one_of(st.none(), st.sampled_from(["a", "b", "c", 1, "1", 2]))
ATTRIBUTES = st.sampled_from(
    [{"amount": 3.0, "currency": "EUR"}, {"amount": 1, "currency": "CHF"}, [2.5, "USD"], {"amount": 1.0}]
)
LINK = st.tuples(NAMES, NAMES, TIMES, IDS, ATTRIBUTES)
BATCH = st.lists(LINK, min_size=1, max_size=4)
GROUP = st.lists(st.tuples(BATCH, st.one_of(st.none(), st.sampled_from(["k1", "k2", "k3"]))), min_size=1, max_size=5)


class LiveMachine(RuleBasedStateMachine):
    """Submissions in groups, failures, restarts and removals, against a predictor that gets the same one by one."""

    runs: dict[str, Path]
    folder: Iterator[Path]

    @initialize(kind=st.sampled_from(["integers", "text"]), late=st.booleans())
    def begin(self, kind: str, late: bool) -> None:
        self.kind, self.late, self.run = kind, late, self.runs[kind]
        self.state_folder = next(self.folder)
        self.twin = LinkPredictor.load(self.run, device="cpu", threads=1)
        self.receipts: dict[str, tuple[Any, Any]] = {}
        self.rejected = 0
        self.open()

    def open(self) -> None:
        self.state: LiveState = open_state(self.run, self.state_folder, device="cpu", threads=1)
        self.store = FailingStore(self.state.store)
        self.predictor = self.state.predictor
        self.writer = Writer(self.predictor, self.store, late="insert" if self.late else "refuse")  # type: ignore[arg-type]
        self.writer.start()

    def links(self, batch: list[tuple[Any, ...]]) -> Links:
        src, dst, t, ids, attributes = map(list, zip(*batch, strict=True))
        return Links(src, dst, t, attributes if self.kind == "text" else None, ids)

    def one_by_one(self, links: Links, key: str | None) -> Any:
        """What the twin says to a submission: its receipt, or an error."""
        if key is not None and key in self.receipts:
            first, result = self.receipts[key]
            return result if first == links else "conflict"
        try:
            form = self.twin.snapshot().model.form
            arrivals = form.arrivals(links.src, links.dst, links.t, links.attributes, links.id_hashes())
            extension = self.twin.extend([arrivals], cawn.data.updates.Rules(late=self.late))
            if isinstance(extension.results[0], CawnError):
                return "refused"
            self.twin.publish(extension)
        except CawnError:
            return "refused"
        if key is not None:
            self.receipts[key] = links, extension.results[0]
        return extension.results[0]

    def submit(self, group: list[Any]) -> list[Any]:
        """Submissions that are stored together; their receipts, or errors."""
        futures: list[Any] = []

        def queue() -> None:
            for batch, key in group:
                try:
                    futures.append(self.writer.submit(self.links(batch), key=key))
                except CawnError as error:
                    futures.append(error)

        self.writer.between(queue)
        return [each if isinstance(each, CawnError) else each.exception() or each.result() for each in futures]

    @rule(group=GROUP)
    def add(self, group: list[Any]) -> None:
        for (batch, key), found in zip(group, self.submit(group), strict=True):
            expected = self.one_by_one(self.links(batch), key)
            if expected in ("refused", "conflict"):
                assert isinstance(found, CawnError), (batch, key, found)
            else:
                assert tuple(found[:3]) == tuple(expected), (batch, key)

    @rule(group=GROUP)
    def fail(self, group: list[Any]) -> None:
        before, self.store.failing = self.predictor.snapshot(), True
        for found in self.submit([(batch, None) for batch, _ in group]):
            assert isinstance(found, CawnError) or found.added == 0
        self.store.failing = False
        assert self.predictor.snapshot().events is before.events

    @rule(name=NAMES)
    def forget(self, name: Any) -> None:
        for forget in (lambda: self.writer.remove(name=name), lambda: self.twin.forget(name)):
            try:
                forget()
            except CawnError:
                assert not self.twin.knows(name)

    @rule(link_id=st.sampled_from(["a", "b", 1]))
    def undo(self, link_id: Any) -> None:
        assert self.writer.remove(link_id=link_id) == self.twin.remove(link_id)

    @precondition(lambda self: self.predictor.num_links > 60)
    @rule(keep=st.integers(50, 120))
    def retain(self, keep: int) -> None:
        assert self.writer.remove(links=keep) == self.twin.retain(links=keep)

    @rule()
    def restart(self) -> None:
        self.teardown()
        self.open()

    @invariant()
    def it_is_what_it_would_be_one_by_one(self) -> None:
        if not hasattr(self, "twin"):
            return
        mine, theirs = self.predictor.snapshot(), self.twin.snapshot()
        for column in ("src", "dst", "t", "msg", "link_id"):
            a, b = (getattr(state.events, column) for state in (mine, theirs))
            if column == "link_id" and (a is None or b is None):
                assert not any(each.any() for each in (a, b) if each is not None)
            else:
                np.testing.assert_array_equal(a, b)
        assert mine.names.all().tolist() == theirs.names.all().tolist()
        asked = ["n3", 7, "7.0", 3, "stranger", " n3"], [5, 6, "n99", "N3", 8, 9], SPAN + 10
        np.testing.assert_array_equal(mine.score(*asked), theirs.score(*asked))

    def teardown(self) -> None:
        if hasattr(self, "writer"):
            self.writer.stop()
            self.state.store.close()


def test_a_group_commit_is_its_submissions_and_a_restart_changes_nothing(runs, tmp_path) -> None:
    """H1 to H4, H16: groups, late links, odd names and times, failed commits, restarts and removals in any order."""
    folders = (tmp_path / str(i) for i in range(1 << 30))
    machine = type("Machine", (LiveMachine,), {"runs": runs, "folder": folders})
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(machine, settings=settings(max_examples=40, stateful_step_count=12, deadline=None))
