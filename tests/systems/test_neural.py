"""The base of systems on past links: each end is embedded once, and node attributes are averaged exactly."""

import numpy as np
import torch

import cawn
from cawn.systems.neural import distinct
from rivals.past_by_reading import UNIT, attributed_events, random_weights
from tolerances import assert_same_scores


def test_distinct_rows() -> None:
    nodes, t = torch.tensor([3, 1, 3, 3, 1]), torch.tensor([0.5, 0.5, 0.5, -2.0, 0.5], dtype=torch.float64)
    some, kind = distinct(nodes, t)
    assert sorted(some.tolist()) == [0, 1, 3]
    for column in (nodes, t):
        assert torch.equal(column[some][kind], column)
    assert [len(part) for part in distinct(nodes[:0], t[:0])] == [0, 0]


def test_an_end_that_several_pairs_share_is_embedded_once(monkeypatch) -> None:
    events = attributed_events(0)
    system, counts = random_weights("graphmixer", events), []
    embed = system.embed

    def counted(past: object, nodes: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        counts.append(len(nodes))
        return embed(past, nodes, *rest)

    monkeypatch.setattr(system, "embed", counted)
    src, dst, t = np.array([0, 0, 0, 1]), np.array([1, 2, 3, 0]), np.full(4, 50)
    scorer = system.scorer(events)
    found = scorer(src, dst, t)
    assert counts == [4]
    assert_same_scores(found, [scorer(src[[i]], dst[[i]], t[[i]])[0] for i in range(4)])


def test_gaps_are_exact() -> None:
    """A time encoding multiplies them by frequencies up to 1, so that float32 would change it."""
    events = cawn.Events([0, 0], [1, 2], [5, 1 << 60])
    system = random_weights("graphmixer", events)
    past, t = system.past(events), torch.tensor([123_456_796])
    links = past.recent(torch.tensor([0]), past.before(t), 3)
    assert system.gaps(t, links).tolist() == [[123_456_791 / UNIT, 0.0, 0.0]]
