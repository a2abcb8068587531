"""The live state: what is acknowledged is there once, before and after a restart, whatever else happens."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cawn.data.updates import UpdateRules
from cawn.errors import CawnError
from cawn.predictor import LinkPredictor
from cawn.serve.links import SubmittedLinks
from live import Disk, Live, failing_disk

SEQUENCES = int(os.environ.get("CAWN_SEQUENCES", "30"))
SPAN = 900


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
KEYS = st.one_of(st.none(), st.sampled_from(["k1", "k2", "k3"]))


def groups(*columns: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Some submissions of some links."""
    batches = st.lists(st.tuples(*columns, ATTRIBUTES), min_size=1, max_size=4)
    return st.lists(st.tuples(batches, KEYS), min_size=1, max_size=5)


ODD = groups(NAMES, NAMES, TIMES, IDS)
PLAIN = groups(st.integers(1, 16), st.sampled_from([3, "5", "7.0", "n3"]), st.integers(SPAN - 50, SPAN + 90), IDS)
GROUP = st.one_of(ODD, PLAIN)


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
        self.number, self.offset = 0, None  # of submissions; the offset of the last one that was stored
        self.open()

    def open(self) -> None:
        self.live = Live(self.run, self.state_folder, late="insert" if self.late else "refuse")
        self.predictor = self.live.predictor

    def links(self, batch: list[tuple[Any, ...]]) -> SubmittedLinks:
        src, dst, t, ids, attributes = map(list, zip(*batch, strict=True))
        return SubmittedLinks(src, dst, t, attributes if self.kind == "text" else None, ids)

    def one_by_one(self, links: SubmittedLinks, key: str | None) -> Any:
        """What the twin says to a submission: its receipt, or an error."""
        if key is not None and key in self.receipts:
            first, result = self.receipts[key]
            return result if first == links else "conflict"
        try:
            form = self.twin.snapshot().model.form
            arrivals = form.arrivals(links.src, links.dst, links.t, links.attributes, links.id_hashes())
            extension = self.twin.extend([arrivals], UpdateRules(late=self.late))
            if isinstance(extension.results[0], CawnError):
                return "refused"
            self.twin.publish(extension)
        except CawnError:
            return "refused"
        if key is not None:
            self.receipts[key] = links, extension.results[0]
        return extension.results[0]

    def submit(self, group: list[Any]) -> list[tuple[int, Any]]:
        """Submissions that are stored together; their offsets, and their receipts or errors."""
        first, self.number = self.number, self.number + len(group)
        submissions = [
            (self.links(batch), {"key": key, "offsets": {"s": n}}) for n, (batch, key) in enumerate(group, first)
        ]
        return list(enumerate(self.live.submit_together(submissions), first))

    @rule(group=PLAIN)
    def add(self, group: list[Any]) -> None:
        self.add_odd_links(group)

    @rule(group=PLAIN)
    def add_more(self, group: list[Any]) -> None:
        self.add_odd_links(group)

    @rule(group=ODD)
    def add_odd_links(self, group: list[Any]) -> None:
        for (batch, key), (number, found) in zip(group, self.submit(group), strict=True):
            is_repeated = key in self.receipts
            expected = self.one_by_one(self.links(batch), key)
            if expected in ("refused", "conflict"):
                assert isinstance(found, CawnError), (batch, key, found)
            else:
                assert tuple(found[:3]) == tuple(expected), (batch, key)
                self.offset = self.offset if is_repeated else number

    @rule(group=GROUP, statement=st.sampled_from(["INSERT INTO commits", "INSERT OR REPLACE INTO keys", "COMMIT"]))
    def fail(self, group: list[Any], statement: str) -> None:
        before, Disk.failing = self.predictor.snapshot(), statement
        for number, found in self.submit([(batch, None) for batch, _ in group]):
            if not isinstance(found, CawnError):
                assert found.added == 0
                self.offset = number
        Disk.failing = None
        assert self.predictor.snapshot() is before

    @rule(statement=st.sampled_from(["DELETE", "INSERT INTO commits", "COMMIT", "VACUUM"]), keep=st.integers(1, 50))
    def fail_to_remove(self, statement: str, keep: int) -> None:
        before, Disk.failing = self.predictor.snapshot(), statement
        with suppress(CawnError):
            assert self.live.writer.remove(links=keep) == 0
        Disk.failing = None
        if statement == "VACUUM":  # they are removed, but their bytes may be left in the file
            self.twin.retain(links=keep)
        else:
            assert self.predictor.snapshot() is before

    @rule(name=NAMES)
    def forget(self, name: Any) -> None:
        for forget in (lambda: self.live.writer.remove(name=name), lambda: self.twin.forget(name)):
            try:
                forget()
            except CawnError:
                assert not self.twin.knows(name)

    @rule(link_id=st.sampled_from(["a", "b", 1]))
    def undo(self, link_id: Any) -> None:
        assert self.live.writer.remove(link_id=link_id) == self.twin.remove(link_id)

    @precondition(lambda self: self.predictor.num_links > 60)
    @rule(keep=st.integers(50, 120))
    def retain(self, keep: int) -> None:
        assert self.live.writer.remove(links=keep) == self.twin.retain(links=keep)

    @rule(killed=st.booleans())
    def restart(self, killed: bool) -> None:
        left = next(self.folder)
        if killed:  # what is on disk while the server runs
            shutil.copytree(self.state_folder, left)
        self.teardown()
        self.state_folder = left if killed else self.state_folder
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
        assert mine.identity == theirs.identity
        assert self.live.store.offsets.get("s") == self.offset
        asked = ["n3", 7, "7.0", 3, "stranger", " n3"], [5, 6, "n99", "N3", 8, 9], SPAN + 10
        np.testing.assert_array_equal(mine.score(*asked), theirs.score(*asked))

    def teardown(self) -> None:
        if hasattr(self, "live"):
            self.live.stop()


def test_a_group_commit_is_its_submissions_and_a_restart_changes_nothing(runs, tmp_path, monkeypatch) -> None:
    """H1 to H4, H16: groups, late links, odd names and times, failed commits, restarts and removals in any order."""
    failing_disk(monkeypatch)
    folders = (tmp_path / str(i) for i in range(1 << 30))
    machine = type("Machine", (LiveMachine,), {"runs": runs, "folder": folders})
    run_state_machine_as_test(machine, settings=settings(max_examples=SEQUENCES, stateful_step_count=14, deadline=None))
