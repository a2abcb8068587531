"""The planted law of a network has the highest score; without a law, no shape is significant."""

import pytest

import cawn


@pytest.mark.parametrize("name", ["triadic closure", "feed-forward"])
def test_the_planted_law_is_the_top_shape(law_run, name: str) -> None:
    """The walk from the destination through the common neighbour to the source: its last link is the older one."""
    law = cawn.LinkPredictor.load(law_run(name)).law()
    top = law.shapes[0]
    assert top.shape == "(∞,0) → (1,1) → (0,2)"
    assert top.score > 1
    assert top.lift > 10
    assert top.significant
    assert top.with_true > 0.1 > 0.01 > top.with_false
    assert not any(row.significant for row in law.orders)  # walks that forget the others cannot see it


def test_pairs_that_stay_together(law_run) -> None:
    """Who was with whom before: the walk that goes to the other end and comes back."""
    law = cawn.LinkPredictor.load(law_run("two pairs")).law()
    top = law.shapes[0]
    assert top.shape in ("(0,1) → (1,0) → (0,1)", "(1,0) → (0,1) → (1,0)")
    assert top.significant
    assert top.with_true == 1.0
    assert top.with_false == 0.0


def test_no_law_no_shape(law_run) -> None:
    """All intervals of a table hold at once with 95 % confidence: so often is there no false alarm."""
    law = cawn.LinkPredictor.load(law_run("null")).law()
    assert len(law.shapes) > 10
    assert not any(row.significant for row in [*law.shapes, *law.orders])
