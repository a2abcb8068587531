"""Counterfactuals: earlier links without which the prediction would flip, and the effect of one more link.

Every figure is computed by indexing the changed network and scoring the pair again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from cawn.caw.features import WALK_SEED
from cawn.caw.host import single_thread
from cawn.caw.system import WalkScorer
from cawn.checks import Array
from cawn.data.times import PER_SECOND
from cawn.explain.explanation import Addition, Explanation, Removal, WhatIf
from cawn.explain.game import Game
from cawn.explain.link import link_at, pair_links, time_format, walk_scorer
from cawn.learn.calibration import Calibration
from cawn.systems.base import Scorer

if TYPE_CHECKING:
    from cawn.data.names import NameIndex
    from cawn.data.reading import Reading

Ends = tuple[Array, Array, Array]

MOST_REMOVED = 10  # links
TRIES = 4  # links of which one is removed at each step
MOST_TRIES = 16  # if removing none of them helps
RECENT = 10  # newest links of each end and of the pair that may be removed, even if no walk uses them
PARTNERS = 3  # recent partners of each end to which the other might have linked
_DAY = 86_400  # seconds


@single_thread()
def ask_what_if(
    why: Explanation, scorer: Scorer, names: NameIndex, calibration: Calibration, ends: Ends, reading: Reading | None
) -> WhatIf:
    """What would change the prediction of an explanation."""
    changed = _Changed(walk_scorer(scorer), ends, why.draws, lambda logits: calibration.probability(logits, why.prior))
    texts = time_format(reading)
    removal, probability, flipped = _remove(changed, why.probability >= 0.5)
    additions = []
    for src, dst, t in _possible_links(changed, reading):
        found = changed.probability(changed.with_link(src, dst, t))
        additions.append(Addition(names.name(src), names.name(dst), t, found, texts(t)))
    additions.sort(key=lambda one: -abs(one.probability - why.probability))
    links = [link_at(changed.past, names, position, texts) for position in removal]
    return WhatIf(why.probability, Removal(links, probability, flipped), additions)


class _Changed:
    """The score of one pair on changed networks; later links change nothing and are left out."""

    def __init__(self, scorer: WalkScorer, ends: Ends, draws: int, calibrate: Callable[[Array], Array]) -> None:
        self.scorer, self.ends, self._draws, self._calibrate = scorer, ends, draws, calibrate
        events = scorer.batcher.events
        self.past = events[: int(np.searchsorted(events.t, ends[2][0]))]

    def without(self, removed: list[int]) -> WalkScorer:
        """Scores without some links."""
        return self.scorer.on(self.past[self.kept(removed)]) if removed else self.scorer

    def kept(self, removed: list[int]) -> Array:
        """Which links of the past are left: [E]."""
        kept = np.ones(len(self.past), bool)
        kept[removed] = False
        return kept

    def with_link(self, src: int, dst: int, t: Any) -> WalkScorer:
        """Scores with one more link, whose attributes are zero."""
        past = self.past
        at = int(np.searchsorted(past.t, t, side="right"))
        columns = {
            "src": np.insert(past.src, at, src),
            "dst": np.insert(past.dst, at, dst),
            "t": np.insert(past.t, at, t),
        }
        if past.msg is not None:
            columns["msg"] = np.insert(past.msg, at, 0, axis=0)
        return self.scorer.on(past.grown(columns, past.num_nodes))

    def logit(self, scorer: WalkScorer, draw: int = 0) -> float:
        return float(scorer.logits_of(scorer.batcher.pairs(*self.ends, seed=WALK_SEED + draw))[0])

    def probability(self, scorer: WalkScorer) -> float:
        """The mean over the samples of walks."""
        return float(self._calibrate(np.array([self.logit(scorer, draw) for draw in range(self._draws)])).mean())


def _remove(changed: _Changed, positive: bool) -> tuple[list[int], float, bool]:
    """Greedily remove links until the prediction flips: their positions, the probability, and whether it flipped."""
    removed: list[int] = []
    scorer, sign = changed.scorer, 1 if positive else -1
    probability = changed.probability(scorer)
    while (probability >= 0.5) == positive and len(removed) < MOST_REMOVED:
        step = _best_step(changed, scorer, removed, sign)
        if step is None:
            break
        scorer, link = step
        removed.append(link)
        probability = changed.probability(scorer)
    flipped = (probability >= 0.5) != positive
    for link in removed[:-1] if flipped else []:  # a link may have become unnecessary after others
        fewer = [other for other in removed if other != link]
        found = changed.probability(changed.without(fewer))
        if (found >= 0.5) != positive:
            removed, probability = fewer, found
    return removed, probability, flipped


def _best_step(changed: _Changed, scorer: WalkScorer, removed: list[int], sign: int) -> tuple[WalkScorer, int] | None:
    """The link whose removal moves the score most towards flipping, of the first few tried of which any does."""
    logit, candidates = changed.logit(scorer), _candidates(changed, scorer, removed, sign)
    for first in range(0, min(len(candidates), MOST_TRIES), TRIES):
        tried = [(changed.without([*removed, link]), link) for link in candidates[first : first + TRIES]]
        gains = [sign * (logit - changed.logit(other)) for other, _ in tried]
        if max(gains) > 0:
            return tried[int(np.argmax(gains))]
    return None


def _candidates(changed: _Changed, scorer: WalkScorer, removed: list[int], sign: int) -> list[int]:
    """Links whose removal may help, most promising first: on walks, of the pair, of each end, by contribution."""
    game = Game(scorer, *changed.ends)
    found = game.contributions()
    position = np.flatnonzero(changed.kept(removed)) if removed else np.arange(len(changed.past))
    value: dict[int, float] = {}

    def add(links: Array, contribution: float) -> None:
        """Divide a contribution among links, newest first, which count most."""
        weights = 1 / np.arange(1, len(links) + 1)
        for link, weight in zip(links.tolist(), (weights / weights.sum()).tolist(), strict=True):
            value[link] = value.get(link, 0.0) + sign * contribution * weight

    for events, share in zip(game.walks.events, found.walks.tolist(), strict=True):
        add(events[events >= 0], share)
    parts = dict(zip(game.parts.names, found.parts[0].tolist(), strict=True))
    src, dst, t = changed.ends
    recent = scorer.history.recent(np.concatenate([src, dst]), np.concatenate([t, t]), RECENT).events
    together = pair_links(scorer.batcher, changed.ends)[::-1][:RECENT]
    for name, links in (("pair", together), ("source", recent[0]), ("destination", recent[1])):
        add(links[links >= 0], parts.get(name, 0.0))
    return [int(position[link]) for link in sorted(value, key=lambda link: -value[link]) if value[link] > 0]


def _possible_links(changed: _Changed, reading: Reading | None) -> list[tuple[int, int, Any]]:
    """Links that might have happened shortly before: of the pair, and of each end with recent partners of the other."""
    past, (src, dst, t) = changed.past, changed.ends
    when = past.t[-1].item()  # the newest time before the query
    if reading is not None and reading.dates:
        when = max(past.t[0].item(), t[0].item() - _DAY * PER_SECOND[reading.unit])
    nodes, times = np.concatenate([src, dst]), np.concatenate([t, t])
    partners = changed.scorer.history.recent(nodes, times, 10 * PARTNERS).nodes
    of_src, of_dst = (list(dict.fromkeys(row[row >= 0].tolist())) for row in partners)
    u, v = int(src[0]), int(dst[0])
    found = [(u, v)]
    found += [(u, w) for w in of_dst if w not in (u, v) and w not in of_src][:PARTNERS]
    found += [(w, v) for w in of_src if w not in (u, v) and w not in of_dst][:PARTNERS]
    return [(a, b, when) for a, b in found]
