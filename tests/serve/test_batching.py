"""A predictor whose scores say which call they came from."""

from concurrent.futures import Future
from threading import Event

import numpy as np
import pytest

import cawn
from cawn.serve.batching import MicroBatcher, ScoredBatch
from cawn.serve.requests import Pairs
from cawn.serve.writer import QueueFull


class FakePredictor:
    """Scores a pair by its time; refuses negative times; waits until it may answer."""

    def __init__(self) -> None:
        self.calls: list[tuple[list, list, list, float]] = []
        self.version, self.watermark, self.events = 3, 100, cawn.Events([], [], [])
        self.free, self.entered = Event(), Event()
        self.free.set()

    def snapshot(self) -> "FakePredictor":
        return self

    def count_unknown(self, src, dst) -> int:
        return src.count("new")

    def score(self, src, dst, t, *, prior):
        self.entered.set()
        assert self.free.wait(600)
        self.calls.append((src, dst, t, prior))
        if any(not isinstance(each, str) and each < 0 for each in t):
            raise cawn.QueryError("t is negative")
        return np.array([float(len(each)) if isinstance(each, str) else each / 1000 for each in t])


@pytest.fixture
def predictor() -> FakePredictor:
    return FakePredictor()


@pytest.fixture
def batcher(predictor):
    made = []

    def make(**options) -> MicroBatcher:
        made.append(MicroBatcher(predictor, **options))
        return made[-1]

    yield make
    predictor.free.set()
    for each in made:
        each.close()


def pairs(*times, src: str = "a", prior: float = 0.5) -> Pairs:
    return Pairs([src] * len(times), ["b"] * len(times), list(times), prior)


def busy(batcher: MicroBatcher, predictor: FakePredictor) -> Future:
    """Start a batch that does not end before `predictor.free` is set, so that later requests wait."""
    predictor.free.clear()
    predictor.entered.clear()
    first = batcher.submit(pairs(1))
    assert predictor.entered.wait(600)
    return first


def test_requests_that_wait_are_scored_together(batcher, predictor) -> None:
    seen: list[ScoredBatch] = []
    scores = batcher(observer=seen.append)
    first = busy(scores, predictor)
    rest = [scores.submit(pairs(10, 20)), scores.submit(pairs(30, src="new"))]
    assert scores.waiting == 3
    predictor.free.set()
    assert [each.result(600).probability.tolist() for each in (first, *rest)] == [[0.001], [0.01, 0.02], [0.03]]
    assert rest[0].result().version == 3
    assert [call[2] for call in predictor.calls] == [[1], [10, 20, 30]]
    scores.close()
    assert [(batch.pairs, batch.unknown) for batch in seen] == [(1, 0), (3, 1)]


def test_a_batch_has_at_most_so_many_pairs(batcher, predictor) -> None:
    scores = batcher(max_pairs=3)
    busy(scores, predictor)
    answers = [scores.submit(pairs(*times)) for times in ((10, 20), (30, 40), (50,), (1, 2, 3, 4, 5))]
    predictor.free.set()
    assert [len(each.result(600).probability) for each in answers] == [2, 2, 1, 5]
    assert [call[2] for call in predictor.calls[1:]] == [[10, 20], [30, 40, 50], [1, 2, 3, 4, 5]]
    patient = batcher(max_pairs=2, max_wait=3600.0)  # which does not wait once a batch is full
    answers = [patient.submit(pairs(1)), patient.submit(pairs(2))]
    assert [each.result(600).probability.tolist() for each in answers] == [[0.001], [0.002]]
    assert len(predictor.calls) == 5


def test_times_of_different_types_and_priors_are_asked_apart(batcher, predictor) -> None:
    scores = batcher()
    busy(scores, predictor)
    large = 2**60 + 1  # which a float would round
    asked = [pairs(large), pairs(0.5), pairs("2016"), pairs(7, prior=0.1), pairs(2)]
    answers = [scores.submit(each) for each in asked]
    predictor.free.set()
    assert answers[2].result(600).probability.tolist() == [4.0]
    assert sorted((call[2], call[3]) for call in predictor.calls[1:] if "2016" not in call[2]) == [
        ([0.5], 0.5),
        ([7], 0.1),
        ([large, 2], 0.5),
    ]


def test_a_bad_request_fails_alone_and_a_cancelled_one_is_left_out(batcher, predictor) -> None:
    scores = batcher()
    busy(scores, predictor)
    good, bad, other, cancelled = (scores.submit(pairs(t)) for t in (5, -1, 6, 7))
    assert cancelled.cancel()
    predictor.free.set()
    assert good.result(600).probability.tolist() == [0.005]
    assert other.result(600).probability.tolist() == [0.006]
    assert not any(7 in call[2] for call in predictor.calls)
    with pytest.raises(cawn.QueryError, match="negative"):
        bad.result(600)


def test_the_default_time(batcher, predictor) -> None:
    assert batcher().submit(Pairs(["a"], ["b"], None)).result(600).probability.tolist() == [0.101]
    assert batcher(max_wait=0.001).submit(pairs()).result(600).probability.tolist() == []
    scores, predictor.watermark = batcher(), None
    busy(scores, predictor)
    without, given = scores.submit(Pairs(["a"], ["b"], None)), scores.submit(pairs(5))
    predictor.free.set()
    assert given.result(600).probability.tolist() == [0.005]
    with pytest.raises(cawn.QueryError, match="there are no links yet"):
        without.result(600)


def test_a_full_queue_is_refused(batcher, predictor) -> None:
    scores = batcher(max_queue=3)
    busy(scores, predictor)
    waiting = scores.submit(pairs(1, 2))
    with pytest.raises(QueueFull, match="2 pairs are waiting"):
        scores.submit(pairs(3, 4))
    assert scores.submit(pairs(3)) is not None
    predictor.free.set()
    assert len(waiting.result(600).probability) == 2
    assert scores.submit(pairs(1)).result(600).version == 3


def test_closing_answers_what_is_queued(batcher, predictor) -> None:
    scores = batcher(max_wait=3600.0, max_pairs=10)
    answer = scores.submit(pairs(1))
    scores.close()
    assert answer.result(0).probability.tolist() == [0.001]
    with pytest.raises(QueueFull, match="stopping"):
        scores.submit(pairs(1))
