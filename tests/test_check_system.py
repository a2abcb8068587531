"""`cawn.testing.check_system` finds each promise that a system breaks, and nothing in one that keeps them all."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import cawn
from cawn.errors import QueryError
from cawn.systems import Entry, register
from cawn.systems.neural import NeighbourScorer
from cawn.testing import PROMISES, check_system
from example_files import example

SHARED = example("own_system")
GOOD = SHARED.SharedSettings(batch_size=50, epochs=2, lr=0.01)


@dataclass(frozen=True)
class FaultySettings(SHARED.SharedSettings):
    """Settings of a system with a fault."""


class Faulty(SHARED.SharedNeighbours):
    """The example's system with one of the faults below."""

    fault = ""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.steps = 0
        if self.fault == "bounded memory":
            self.pairs_per_pass = 1 << 20

    def logits(self, past: Any, src: Tensor, dst: Tensor, t: Tensor, visible: Tensor) -> Tensor:
        if self.fault == "ignores the future":
            visible = past.before(t + 1)
        found = super().logits(past, src, dst, t, visible)
        match self.fault:
            case "follows the past":
                return found * 0 + 1
            case "answers each pair alone":
                return found - found.mean()
            case "answers threads":
                return found + float(threading.current_thread() is not threading.main_thread())
            case "ignores names":
                return found + src
            case "ignores the order of ties":
                return found + past.given[visible - 1]
            case "knows new nodes":
                return torch.where(dst < past.num_nodes, found, torch.nan)
            case "takes attributes" if self.link_width:
                return found / 0
        return found

    def updates(self, *step: Any) -> Iterator[Tensor]:
        for loss in super().updates(*step):
            self.steps += 1
            match self.fault:
                case "learns":
                    yield 0 * loss + 1
                case "resumes":
                    yield self.steps * loss
                case _:
                    yield loss

    def past(self, events: cawn.Events) -> Any:
        past = super().past(events)
        past.given = torch.from_numpy(events.src.copy())  # in the order of rows
        return past

    def scorer(self, events: cawn.Events) -> NeighbourScorer:
        return FaultyScorer(self, self._past_of(events))


class FaultyScorer(NeighbourScorer):
    def score_after(self, src: Any, dst: Any, t: Any, visible: Any) -> Any:
        if Faulty.fault == "sees what it may":
            return self(src, dst, t)
        return super().score_after(src, dst, t, visible)


register("faulty", Entry(f"{__name__}:Faulty", f"{__name__}:FaultySettings", "for tests"))


def test_a_good_system_passes() -> None:
    check_system(FaultySettings(batch_size=50, epochs=2, lr=0.01))  # without a fault


@pytest.mark.parametrize("promise", PROMISES)
def test_every_broken_promise_is_found(promise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Faulty, "fault", promise)
    with pytest.raises(AssertionError, match=rf"faulty breaks 1 of 1 promises\n  {promise}: \S.*"):
        check_system(FaultySettings(batch_size=50, epochs=2, lr=0.01, recent=40), [promise])


def test_all_broken_promises_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Faulty, "fault", "ignores names")
    asked = ["follows the past", "ignores names", "knows new nodes"]
    with pytest.raises(AssertionError, match="breaks 1 of 3 promises\n  ignores names: nodes were renamed: the score"):
        check_system(FaultySettings(batch_size=50), asked)


def test_unknown_promises_and_unregistered_systems_are_refused() -> None:
    with pytest.raises(QueryError, match="promise 'is fast': there are follows the past, "):
        check_system(GOOD, ["is fast"])
    with pytest.raises(QueryError, match="give the settings of a system"):
        check_system(cawn.systems.settings.Settings())


def test_a_network_without_ties_cannot_show_their_order() -> None:
    rows = np.arange(300)
    events = cawn.Events(rows % 7, rows % 5 + 7, rows)
    with pytest.raises(AssertionError, match="no simultaneous links; give another"):
        check_system(GOOD, ["ignores the order of ties"], events=events)
