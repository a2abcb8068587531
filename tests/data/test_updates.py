"""New links in a predictor: none lost, none twice, none that cannot be; answers come from one state of the history."""

import os
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier, Event, Thread
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import cawn
from cawn.caw.config import Config
from cawn.caw.system import CawnSystem, WalkScorer
from cawn.data import laws
from cawn.data.columns import GrowingArray
from cawn.data.names import NameIndex
from cawn.data.reading import Reading
from cawn.data.updates import Update, UpdateRules
from cawn.errors import QueryError
from cawn.index.growing import GrowingIndex
from cawn.predictor import LinkPredictor
from cawn.snapshot import newest_time

SMALL = Config(alpha=0.01, num_walks=4, length=1, dim=4, frequencies=2, epochs=1)


@pytest.fixture(scope="module")
def run():
    plain = laws.triadic_closure(30, 400, seed=0).events
    events = cawn.Events(plain.src, plain.dst, plain.t, labels=[f"n{i}" for i in range(30)])
    return cawn.train(events, SMALL, quiet=True, task=cawn.Task(negatives=("random",)))


@pytest.fixture
def predictor(run) -> LinkPredictor:
    return LinkPredictor.of(run)


@pytest.fixture
def now(run) -> int:
    return int(run.events.t[-1]) + 1


def link(src: str, dst: str, t: int, **columns) -> cawn.Events:
    return cawn.Events([0], [1], [t], labels=[src, dst], **columns)


def test_no_update_is_lost_and_no_answer_mixes_two_states(run, now) -> None:
    """Each update repeats one link; the pair's score says how many there are, so every score must be one of those."""
    updates, threads = 12, 4
    reference, possible = LinkPredictor.of(run), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(updates * threads + 1):
            possible.append(float(reference.score("n1", "n2", now + 5)[0]))
            reference.update(link("n1", "n2", now))
    assert len(set(possible)) > 3
    predictor, start, seen = LinkPredictor.of(run), Barrier(2 * threads), []

    def update(thread: int) -> None:
        start.wait()
        for i in range(updates):
            predictor.update(link("n1", "n2", now, link_id=[f"{thread}/{i}"]))

    def ask() -> None:
        start.wait()
        for _ in range(updates):
            seen.append(float(predictor.score("n1", "n2", now + 5)[0]))

    running = [Thread(target=update, args=(i,)) for i in range(threads)] + [Thread(target=ask) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert predictor.num_links == len(run.events) + updates * threads
    assert len(predictor.snapshot().events) == predictor.num_links
    assert set(seen) <= set(possible)
    assert float(predictor.score("n1", "n2", now + 5)[0]) == possible[updates * threads]


def test_updates_extend_the_index(predictor, now, monkeypatch) -> None:
    predictor.score("n1", "n2", now)
    built = []
    monkeypatch.setattr(CawnSystem, "scorer", lambda *args: built.append(1))
    for i in range(10):
        predictor.update(link("n1", f"new {i}", now + i // 3))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: predictor.score("n1", "new 3", now + 9), range(4)))
    assert not built
    assert predictor.version == 10


def test_a_query_does_not_wait_for_an_update(predictor, now, monkeypatch) -> None:
    before, extend, found = predictor.score("n1", "n2", now + 1), WalkScorer.extended, []

    def query_meanwhile(*args):
        thread = Thread(target=lambda: found.append(predictor.score("n1", "n2", now + 1)))
        thread.start()
        thread.join(30)
        assert not thread.is_alive()
        return extend(*args)

    monkeypatch.setattr(WalkScorer, "extended", query_meanwhile)
    predictor.update(link("n1", "n2", now))
    assert found == [before]
    assert predictor.score("n1", "n2", now + 1) != before


@pytest.mark.parametrize(
    ("owner", "call", "late"), [(GrowingIndex, 1, 0), (GrowingArray, 1, 0), (GrowingArray, 2, 1), (GrowingArray, 4, 1)]
)
def test_an_update_that_fails_changes_nothing(predictor, now, monkeypatch, owner: type, call: int, late: int) -> None:
    """Whichever part of it fails, also of late links: nodes are forgotten, and the same links may come again."""
    predictor.append(["first"], ["second"], [now], link_id=["first"])
    calls, append, asked = [], owner.append, (["n1", "first"], ["n2", "second"], now + 2)

    def fail(*args):
        append(*args)
        calls.append(None)
        if len(calls) == call:
            raise MemoryError

    def state() -> tuple:
        events = predictor.snapshot().events
        links = [column.tolist() for column in (events.src, events.dst, events.t, events.link_id)]
        return predictor.score(*asked).tolist(), predictor.nodes(), predictor.version, links

    before, batch = state(), link("lost", "gone", now - late, link_id=["a"])
    for add in (
        lambda: predictor.append(["lost"], ["gone"], [now - late], link_id=["a"]),
        lambda: predictor.update(batch),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(owner, "append", fail)
            with pytest.raises(MemoryError):
                add()
        calls.clear()
        assert state() == before
    assert predictor.append(["third"], ["n1"], [now]) == Update(1, 0, 1)
    assert predictor.update(batch, once=True) == Update(1, 0, 2)
    assert predictor.nodes() == [*before[1], "third", "lost", "gone"]
    assert predictor.update(batch, once=True) == Update(0, 1, 0)


def test_neither_a_snapshot_nor_a_pickle_follows_the_predictor(predictor, now) -> None:
    predictor.update(link("n1", "newcomer", now))
    snapshot, copy = predictor.snapshot(), pickle.loads(pickle.dumps(predictor))
    before = snapshot.score("n1", "n2", now + 1)
    predictor.update(link("n1", "n2", now))
    copy.update(link("n1", "another", now))
    assert snapshot.score("n1", "n2", now + 1) == before != predictor.score("n1", "n2", now + 1)
    assert (snapshot.version, predictor.version) == (1, 2)
    assert (copy.knows("newcomer"), copy.knows("another"), predictor.knows("another")) == (True, True, False)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_lock_held_while_forking_does_not_stop_the_child(predictor, now) -> None:
    """The process is forked while another thread updates."""
    before, updating, forked = predictor.num_links, Event(), Event()
    wait = lambda _: updating.set() or forked.wait(600)  # noqa: E731
    other = Thread(target=predictor.update, args=[link("n1", "n2", now)], kwargs={"on_accuracy": wait})
    other.start()
    assert updating.wait(600)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            predictor.update(link("n1", "n3", now))
            os._exit(0 if predictor.num_links == before + 1 else 1)
        finally:
            os._exit(2)
    forked.set()
    other.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_known_links_are_skipped_or_counted(run, predictor, now) -> None:
    """By id; with `once` by row, in any order and company: of n equal links, as many as the history has."""
    first = cawn.Events([0, 0, 1], [1, 1, 2], [now] * 3, labels=["n1", "n2", "new"], link_id=["a", "a", "b"])
    numbered = pa.table({"src": ["n1", "n1"], "dst": ["n2", "n5"], "t": [now, now + 1], "number": ["b", "c"]})
    rows = pa.table({"src": ["n1", "n2", "n3"], "dst": ["n2", "n5", "n6"], "t": [now + 2, now + 2, now + 3]})
    more = {"src": ["n1", "n1", "n2", "x"], "dst": ["n2", "n2", "n5", "n1"], "t": [now + 2, now + 2, now + 4, now + 2]}
    for links, options, expected in (
        (first, {}, Update(2, 1, 1)),
        (first, {}, Update(0, 3, 0)),
        (numbered, {"link_id": "number"}, Update(1, 1, 0)),
        (rows, {"once": True}, Update(3, 0, 0)),
        (rows.take([2, 1, 0]), {"once": True}, Update(0, 3, 0)),
        (pa.table(more), {"once": True}, Update(3, 1, 1)),
        (run.events, {"once": True}, Update(0, 400, 0)),
    ):
        assert predictor.update(links, **options) == expected
        assert pickle.loads(pickle.dumps(predictor)).update(links, **options) == Update(0, len(links), 0)
    assert predictor.num_links == len(predictor.snapshot().events) == 409
    with pytest.warns(UserWarning, match="3 of these 3 links are in the history already"):
        assert predictor.update(rows).added == 3
    with pytest.warns(UserWarning, match="400 of these 400 links"):
        predictor.update(run.events)


# Attributes by name


def paid() -> LinkPredictor:
    """A predictor whose links have an amount and a currency."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 12, (2, 120))
    columns = {"amount": rng.random(120), "currency": rng.choice(["EUR", "USD"], 120)}
    ends = {"src": [f"n{u}" for u in src], "dst": [f"n{v}" for v in dst], "t": np.arange(120.0) * 7}
    events = cawn.read(pa.table(ends | columns), msg=["amount", "currency"])
    return LinkPredictor.of(
        cawn.train(events, "rates", quiet=True, task=cawn.Task(negatives=("random",)), device="cpu")
    )


GIVEN = [
    {"amount": [17.5, 3], "currency": ["EUR", "CHF"]},
    {"currency": np.array(["EUR", "CHF"]), "amount": np.array([17.5, 3])},
    [{"amount": 17.5, "currency": "EUR"}, {"currency": "CHF", "amount": 3}],
    [[17.5, "EUR"], (3.0, "CHF")],
]


@pytest.mark.parametrize("given", GIVEN)
def test_attributes_are_given_by_name(given) -> None:
    """U1: as numbers and names of categories, with the effect that they have in `update`, unknown levels too."""
    predictor, other = paid(), paid()
    assert predictor.append(["n1", "n2"], ["n2", "n3"], [900.0, 901.0], attributes=given).added == 2
    table = {"src": ["n1", "n2"], "dst": ["n2", "n3"], "t": [900.0, 901.0]}
    other.update(pa.table(table | {"amount": [17.5, 3], "currency": ["EUR", "CHF"]}))
    np.testing.assert_array_equal(predictor.snapshot().events.msg, other.snapshot().events.msg)
    for changed, added in (({}, 0), ({"amount": [2.5, 3]}, 1), ({"currency": ["USD", "CHF"]}, 1)):  # one row is known
        columns = {"amount": [17.5, 3], "currency": ["EUR", "CHF"]} | changed
        assert other.update(pa.table(table | columns), once=True, msg=["amount", "currency"]).added == added


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "the model needs .* .amount, currency."),
        ({"amount": [1.0, 2.0]}, "attribute .currency. is None"),
        ({"amount": [1.0, "x"], "currency": ["EUR"] * 2}, "amount.* is 'x'"),
        ({"amount": [1.0, float("nan")], "currency": ["EUR"] * 2}, "give a finite number"),
        ({"amount": [1.0], "currency": ["EUR", "USD"]}, "1 values for 2 links"),
        (7, "attributes is 7"),
        ("EUR", "attributes is 'EUR'"),
        ({"price": [1.0, 2.0]}, "price.*amount, currency"),
        ([[1.0, "EUR"]], "1 rows of attributes for 2 links"),
        ([[1.0, "EUR"], [2.0]], r"attributes\[1\] has 1 values"),
        ([{"amount": 1.0}, {"sum": 2}], r"attributes\[1\] has 'sum'"),
        ({"amount": 1.0, "currency": "EUR"}, "attribute .amount. is 1.0: give one value for each link"),
    ],
)
def test_attributes_that_do_not_fit(given, message: str) -> None:
    predictor = paid()
    with pytest.raises(cawn.CawnError, match=message) as caught:
        predictor.append(["n1", "n2"], ["n2", "n3"], [900.0, 901.0], attributes=given)
    assert "\n" not in str(caught.value)
    assert predictor.num_links == 120


# Times that cannot be


def predictor_at(t: object, reading: Reading | None = None) -> LinkPredictor:
    """A predictor with links at these times."""
    rng = np.random.default_rng(0)
    events = cawn.Events(*rng.integers(0, 9, (2, len(t))), t)
    events.reading = events.reading if reading is None else reading
    return LinkPredictor.of(
        cawn.train(events, "popularity", quiet=True, task=cawn.Task(negatives=("random",)), device="cpu")
    )


NOW = 1_780_000_000
SECONDS = NOW - 90 * 86_400 + np.arange(60) * 86_400  # the last 90 days, in Unix seconds
NUMBERS = np.arange(60)


@pytest.fixture
def clock(monkeypatch) -> None:
    monkeypatch.setattr("cawn.data.updates.time", SimpleNamespace(time=lambda: float(NOW)))


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("t", "new", "message"),
    [
        (SECONDS, int(SECONDS[-1]) * 1_000, "too far ahead.*milliseconds"),
        (SECONDS, int(SECONDS[-1]) * 10**6, "too far ahead.*microseconds"),
        (SECONDS, "2052-01-01", "2052.*too far ahead"),
        (SECONDS * 1_000, int(SECONDS[-1]), "long before.*milliseconds"),
        (SECONDS.astype("datetime64[s]"), np.datetime64("2052-01-01"), "too far ahead"),
        (NUMBERS + 10**6, 10**9, "too far ahead.*1,000 times"),
        (NUMBERS, 59 + 591, "too far ahead"),
        *(
            (t, may_be, None)
            for t, may_be in ((SECONDS, NOW), (SECONDS, "1990-01-01"), (NUMBERS, 649), (NUMBERS, -500))
        ),
    ],
)
def test_times_that_cannot_be_are_refused(t, new, message: str | None) -> None:
    """Through every door; a unit that is off is named; nothing is added."""
    predictor = predictor_at(t)
    if message is None:
        assert predictor.append([1], [2], [new]).added == 1
        return
    doors = (
        lambda: predictor.append([1], [2], [new]),
        lambda: predictor.update(pa.table({"src": [1], "dst": [2], "t": np.array([new])})),
        lambda: predictor.append([1, 1], [2, 2], [predictor.watermark, new]),
    )
    for add in doors:
        with pytest.raises(cawn.DataError, match=message) as caught:
            add()
        assert "\n" not in str(caught.value)
    assert predictor.num_links == 60
    predictor.max_ahead = 1e17
    assert predictor.append([1], [2], [new]).added == 1


def test_a_link_of_the_training_that_is_far_from_all_others_is_no_default_time() -> None:
    predictor = predictor_at(np.append(np.arange(150), 10**6))
    assert (newest_time(predictor), predictor.watermark) == (149, 10**6)
    predictor.append([1], [2], [200])
    assert newest_time(predictor) == 200
    predictor.append([1], [2], [2 * 10**6])  # a new link is news, however far
    assert newest_time(predictor) == 2 * 10**6


def test_a_batch_is_judged_by_those_before_it(predictor, now) -> None:
    """H3: two times that are too far apart, each valid alone, in one group; H1: nothing of a refused batch is left."""
    form = predictor.snapshot().model.form
    batches = [([1], 6 * 10**18), (["lost"], -6 * 10**18), (["7.0"], now)]
    given = [form.arrivals(src, [2], [t]) for src, t in batches]
    extension = predictor.extend(given, UpdateRules(max_ahead=1e20))
    assert extension.results[::2] == [Update(1, 0, 2), Update(1, 0, 1)]
    assert isinstance(extension.results[1], cawn.DataError)
    assert predictor.version == 0
    predictor.publish(extension)
    assert predictor.num_links == 402
    assert not predictor.knows("lost")
    with pytest.raises(QueryError, match="has changed since"):
        predictor.publish(extension)


# Names


def like(run, events: cawn.Events, reading: Reading | None = None, **form) -> LinkPredictor:
    """A predictor with other links, and the weights of this run."""
    held = LinkPredictor.of(run).snapshot()
    names = replace(held.model.form.names, **form)
    model = replace(held.model, form=replace(held.model.form, names=names), reading=reading or held.model.reading)
    return LinkPredictor(model, events, NameIndex.of(events.labels), held.calibration)


@pytest.mark.parametrize("names", [["99", "user:99"], ["user:99", "99"]])
def test_one_new_node_under_two_spellings(run, names: list[str]) -> None:
    events = cawn.Events([0, 1, 0], [2, 3, 3], [1, 2, 3], labels=["user:1", "user:2", "item:1", "item:2"])
    predictor = like(run, events, prefixes=("user", "item"))
    assert predictor.update(pa.table({"user": names, "item": ["1", "1"], "t": [10, 11]})) == Update(2, 0, 1)
    assert predictor.update(pa.table({"user": ["user:99"], "item": ["2"], "t": [12]})) == Update(1, 0, 0)
    assert sorted(predictor.nodes()) == ["item:1", "item:2", "user:1", "user:2", "user:99"]


def test_integers_have_one_spelling(run, now) -> None:
    """H4: before and after the first text name."""
    predictor = like(run, cawn.Events(run.events.src, run.events.dst, run.events.t), integers=True)
    table = pa.table({"src": ["77", "77.0", "x", "77.0"], "dst": ["1", "1.0", "1", "1"], "t": now + np.arange(4)})
    assert predictor.update(table[:2]) == Update(2, 0, 1)
    assert predictor.update(table[2:]) == Update(2, 0, 1)
    assert predictor.nodes()[-2:] == [77, "x"]
    assert predictor.knows("77.0")


def test_recorded_columns_are_used(run, now) -> None:
    predictor = like(run, run.events, Reading(src="rater", dst="ratee", time="when"))
    for source, links in (
        ("newcomer", {"when": [now], "ratee": ["n2"], "rater": ["newcomer"]}),
        ("usual", {"src": ["usual"], "dst": ["n1"], "t": [now]}),
    ):
        assert predictor.update(pa.table(links)) == Update(1, 0, 1)
        assert source in predictor.nodes("src")


def test_appended_columns_are_an_update(run, predictor, now) -> None:
    other, ends = LinkPredictor.of(run), (["n1", "stranger"], ["n2", "n3"])
    assert predictor.append(*ends, [now + 1, now], link_id=["a", "b"]) == Update(2, 0, 1)
    other.update(pa.table({"src": ends[0], "dst": ends[1], "t": [now + 1, now]}))
    np.testing.assert_array_equal(predictor.score("n1", "n2", now + 3), other.score("n1", "n2", now + 3))
    assert predictor.append(["n1"], ["n2"], [now], link_id=["b"]) == Update(0, 1, 0)
    for src, t, attributes in ((["n1"], [now + 0.5], None), (["n1", "n2"], [now], None), (["x"], [now], [[1.0]])):
        with pytest.raises(cawn.CawnError):
            predictor.append(src, ["n2"], t, attributes=attributes)
    assert (predictor.version, predictor.watermark, predictor.knows("x")) == (1, now + 1, False)


# Removing links


def test_what_remains_equals_a_history_without_the_links(run, predictor, now) -> None:
    """U4: bit for bit; also the calibration is kept, and links may be added again."""
    events, names = run.events, run.events.labels
    predictor.append(["n1", "x", "n2"], ["x", "friend", "n3"], [now, now, now + 1], link_id=["a", "b", "c"])
    assert predictor.forget("x") == 2
    assert not predictor.knows("x")
    assert not predictor.knows("friend")
    assert predictor.remove(["c", "unknown"]) == 1
    asked = [f"n{i}" for i in range(9)], [f"n{i}" for i in range(9, 18)], now + 5
    np.testing.assert_array_equal(predictor.score(*asked), LinkPredictor.of(run).score(*asked))
    assert predictor.append(["x"], ["n1"], [now], link_id=["a"]) == Update(1, 0, 1)
    assert predictor.retain(since=int(events.t[300])) == int(np.searchsorted(events.t, events.t[300]))
    before = predictor.num_links
    assert predictor.retain(links=50) == before - 50
    assert set(predictor.nodes()) <= {*names.tolist(), "x"}
    forget, retain = predictor.forget, predictor.retain
    for wrong in (lambda: forget("stranger"), lambda: forget(None), lambda: retain(links=0), lambda: retain(since=[])):
        with pytest.raises(QueryError):
            wrong()
    assert predictor.num_links == 50
