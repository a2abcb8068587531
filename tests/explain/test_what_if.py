"""What would change an answer: every probability is that of the changed network, scored by itself."""

import numpy as np
import pytest

import cawn
from cawn.data import laws
from cawn.explain.explanation import Addition, Removal, WhatIf
from cawn.explain.views import EarlierLink


@pytest.fixture(scope="module")
def predictor(law_run) -> cawn.LinkPredictor:
    return cawn.LinkPredictor.load(law_run("triadic closure"))


def closing_links(count: int) -> list[tuple[int, int, int]]:
    network = laws.triadic_closure(300, 12_000, seed=1, noise=0.1)
    events = network.events
    return [(int(events.src[i]), int(events.dst[i]), int(events.t[i])) for i in np.flatnonzero(network.caused)[-count:]]


def rescored(predictor: cawn.LinkPredictor, events: cawn.Events, link: tuple[int, int, int], draws: int) -> float:
    """The mean probability of a link on another network, with the same weights and calibration."""
    scorer = predictor.snapshot().model.system.scorer(events)
    ends = tuple(np.array([value]) for value in link)
    calibration = predictor.snapshot().calibration.at(link[2])
    logits = np.array([scorer.logits(*ends, seed=0x5EED + draw)[0] for draw in range(draws)])
    return float(calibration.probability(logits, 0.5).mean())


def test_the_fewest_links_are_those_of_the_triangle(predictor: cawn.LinkPredictor) -> None:
    """A link that closes a triangle no longer does once one of the other two is removed."""
    flipped, sizes = 0, []
    for link in closing_links(12):
        why = predictor.explain(*link, draws=2, what_if=True)
        removal = why.what_if.removal
        if why.probability < 0.5:
            continue
        flipped += removal.flipped
        sizes.append(len(removal.links))
        events = predictor.snapshot().events
        kept = np.ones(len(events), bool)
        kept[[one.event for one in removal.links]] = False
        assert rescored(predictor, events[kept], link, 2) == pytest.approx(removal.probability, abs=1e-4)
        assert (removal.probability < 0.5) == removal.flipped
        assert all(one.t < link[2] for one in removal.links)
    assert len(sizes) >= 8
    assert flipped >= len(sizes) - 1
    assert np.median(sizes) <= 2


def test_one_more_link_would_close_a_triangle(predictor: cawn.LinkPredictor) -> None:
    """For two nodes without a common neighbour, the link that would change most is one that makes one."""
    events = predictor.snapshot().events
    src, t = int(events.src[-1]), int(events.t[-1]) + 1  # it has just linked to someone
    scores = predictor.score([src] * 300, list(range(300)), t)
    dst = next(node for node in np.argsort(scores).tolist() if node not in (src, int(events.dst[-1])))
    link = src, dst, t
    why = predictor.explain(*link, draws=2, what_if=True)
    best = why.what_if.additions[0]
    assert best.probability > 0.5 > why.probability
    assert (best.src, best.dst) != link[:2]
    ends = (np.append(ends, end) for ends, end in ((events.src, best.src), (events.dst, best.dst)))
    more = cawn.Events(*ends, np.append(events.t, best.t), num_nodes=events.num_nodes)
    assert rescored(predictor, more, link, 2) == pytest.approx(best.probability, abs=1e-4)
    changes = [abs(one.probability - why.probability) for one in why.what_if.additions]
    assert changes == sorted(changes, reverse=True)


def test_a_question_that_no_single_link_answers(predictor: cawn.LinkPredictor) -> None:
    """A greedy search may find nothing; it then says so and does not pretend that the prediction flipped."""
    for link in closing_links(40)[::8]:
        other = (link[0], (link[1] + 7) % 300, link[2])
        if other[0] == other[1]:
            continue
        found = predictor.explain(*other, draws=2, what_if=True).what_if
        assert found.removal.flipped == ((found.probability >= 0.5) != (found.removal.probability >= 0.5))


def test_in_words() -> None:
    link = EarlierLink("a", "b", 5, 0, "Monday")
    more = [Addition("a", "c", 6, 0.74, "Tuesday")] * 5
    flips = WhatIf(0.81, Removal([link, link], 0.4, True), more).in_words
    assert flips[0] == "Without the links a → b at Monday, a → b at Monday, the prediction would flip: 0.81 → 0.40."
    assert flips[1] == "If a and c had linked at Tuesday: 0.81 → 0.74."
    assert len(flips) == 4
    stays = WhatIf(0.81, Removal([link], 0.7, False), []).in_words
    assert stays == ["Even without the link a → b at Monday, the prediction would not flip: 0.81 → 0.70."]
    assert "lowers the score" in WhatIf(0.81, Removal([], 0.81, False), []).in_words[0]
    assert "raises the score" in WhatIf(0.2, Removal([], 0.2, False), []).in_words[0]


def test_the_predictor_is_left_as_it_was(predictor: cawn.LinkPredictor) -> None:
    link = closing_links(1)[0]
    before = predictor.score([link[0]], [link[1]], link[2])
    predictor.explain(*link, draws=2, what_if=True)
    assert predictor.score([link[0]], [link[1]], link[2]) == before
