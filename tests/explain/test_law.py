"""The planted law of a network has most of the evidence and the highest-scored shape; without a law, nothing has."""

import json

import numpy as np
import pytest
from benchmarks.explaining import caused_law

import cawn
from cawn.caw.system import WalkScorer
from cawn.data import laws
from cawn.explain.game import Game
from cawn.explain.law import LawLinks, explain_law
from cawn.learn.metrics import auc, average_precision
from small_explanation import random_pairs
from tolerances import SCORES


@pytest.mark.parametrize("name", ["triadic closure", "feed-forward"])
def test_the_planted_law_is_the_top_shape(law_run, name: str) -> None:
    """The walk from the destination through the common neighbour to the source: its last link is the older one."""
    law = cawn.LinkPredictor.load(law_run(name)).law()
    top = law.shapes[0]
    assert top.meaning == "destination → common node → source"
    assert top.score > 0.5
    assert top.lift > 5
    assert top.significant
    assert top.with_true > 0.1 > 0.02 > top.with_false
    assert not any(row.significant for row in law.orders)  # walks that forget the others cannot see it


@pytest.mark.parametrize("name", ["triadic closure", "feed-forward", "two pairs"])
def test_the_part_that_holds_the_law_has_most_of_the_evidence(law_run, name: str) -> None:
    network = {
        "triadic closure": lambda: laws.triadic_closure(300, 12_000, seed=1, noise=0.1),
        "feed-forward": lambda: laws.feed_forward(300, 12_000, seed=1, noise=0.1),
        "two pairs": lambda: laws.two_pairs(50, 80),
    }[name]()
    law = caused_law(cawn.LinkPredictor.load(law_run(name)), network.caused)
    first, second = sorted(law.parts, key=lambda part: -part.evidence)[:2]
    assert first.name == ("pair" if name == "two pairs" else "common")
    assert first.low > second.high  # their intervals hold simultaneously with 95 % confidence
    assert law.in_words[0].startswith("Links tend to " + ("repeat" if name == "two pairs" else "close triangles"))


def test_pairs_that_stay_together(law_run) -> None:
    """Who was with whom before: the walk that goes to the other end and comes back."""
    law = cawn.LinkPredictor.load(law_run("two pairs")).law()
    top = law.shapes[0]
    assert top.shape in ("(0,1) → (1,0) → (0,1)", "(1,0) → (0,1) → (1,0)")
    assert top.significant
    assert top.with_true == 1.0
    assert top.with_false == 0.0


def test_no_law_no_part_and_no_shape(law_run) -> None:
    """All intervals of a table hold at once with 95 % confidence: so often is there no false alarm in each of three."""
    law = cawn.LinkPredictor.load(law_run("null")).law()
    assert not any(part.significant for part in law.parts)
    assert law.in_words == [
        "No law was found: nothing that the model uses reliably separates true links from false ones."
    ]
    assert len(law.shapes) > 10
    assert not any(row.significant for row in [*law.shapes, *law.orders])


def some_links() -> tuple[WalkScorer, LawLinks]:
    scorer, _, _ = random_pairs()
    rng, events = np.random.default_rng(0), scorer.batcher.events
    links = np.sort(rng.choice(np.arange(50, 150), 40, replace=False))
    old = np.arange(10) < 7
    return scorer, LawLinks(events.src[links], events.dst[links], rng.integers(0, 10, 40), events.t[links], old)


def test_a_law_is_a_mean_over_links() -> None:
    """Every figure of the table of parts, computed again link by link."""
    scorer, links = some_links()
    law = explain_law(scorer, links)
    found = [Game(scorer, links.src, dst, links.t).contributions() for dst in (links.dst, links.negative)]
    true, false = (one.parts for one in found)
    logits = [one.table[:, -1] for one in found]
    assert law.evidence == pytest.approx(logits[0].mean() - logits[1].mean(), abs=SCORES)
    assert (law.auc, law.ap) == (auc(*logits), average_precision(*logits))
    assert sum(part.evidence for part in law.parts) == pytest.approx(law.evidence, abs=1e-9)
    assert sum(part.share for part in law.parts) == pytest.approx(1.0 if law.significant else 0.0)
    everything = found[0].table.shape[1] - 1
    for i, part in enumerate(law.parts):
        assert part.evidence == pytest.approx((true - false)[:, i].mean(), abs=SCORES)
        assert (part.low + part.high) / 2 == pytest.approx(part.evidence)
        without = [one.table[:, everything - (1 << i)] for one in found]
        assert part.auc_without == pytest.approx(auc(*without), abs=0.01)
        groups = {(mean.links, mean.nodes): mean for mean in part.means}
        old = links.old[links.src] & links.old[links.dst]
        mean = groups["true", "old"]
        assert mean.count == old.sum()
        assert mean.mean == pytest.approx(true[old, i].mean(), abs=SCORES)
        assert mean.mean_absolute == pytest.approx(np.abs(true[old, i]).mean(), abs=SCORES)
        assert groups["true", "new"].count == (~old).sum()
        assert groups["false", "old"].count + groups["false", "new"].count == len(links.src)


def test_scores_of_shapes_are_means_of_walk_contributions() -> None:
    scorer, links = some_links()
    law = explain_law(scorer, links)
    total: dict[str, dict[tuple[bool, int], float]] = {}
    for positive, dst in ((True, links.dst), (False, links.negative)):
        game = Game(scorer, links.src, dst, links.t)
        contribution = game.contributions().walks
        for i, shape in enumerate(game.walks.shapes):
            text = " → ".join(f"({u},{v})" for u, v in shape.tolist() if u >= 0).replace("3", "∞")
            pairs = total.setdefault(text, {})
            key = positive, int(game.walks.pair[i])
            pairs[key] = pairs.get(key, 0.0) + contribution[i]
    assert len(law.shapes) > 5
    for row in law.shapes:
        assert row.score == pytest.approx(np.mean(list(total[row.shape].values())), abs=SCORES)
        assert row.with_true == sum(positive for positive, _ in total[row.shape]) / 40


def test_progress_is_reported() -> None:
    scorer, links = some_links()
    seen: list[tuple[int, int]] = []
    explain_law(scorer, links, lambda done, total: seen.append((done, total)))
    assert seen == [(40, 40)]


def test_without_significant_evidence_there_are_no_shares() -> None:
    """A share of a sum that may be zero, or negative, says nothing."""
    scorer, links = some_links()
    law = explain_law(scorer, links._replace(negative=links.dst))
    assert law.evidence == pytest.approx(0.0, abs=1e-9)
    assert not law.significant
    assert {part.share for part in law.parts} == {0.0}
    assert law.in_words[0].startswith("No law was found")
    json.dumps(law.to_dict(), allow_nan=False)


def test_one_link_is_not_enough() -> None:
    scorer, links = some_links()
    one = LawLinks(*(values[:1] for values in links[:4]), links.old)
    with pytest.raises(cawn.QueryError, match="1 test links with a negative: explaining a model needs at least two"):
        explain_law(scorer, one)
