"""The shapes that a model relies on: scores per walk, discriminatory power, and the claims of the paper."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cawn
from cawn.caw.features import WALK_SEED
from cawn.explain.distinct_walks import distinct_walks, format_shape
from cawn.explain.law import LawLinks
from cawn.index.features import NO_SEQUENCES
from cawn.paper.experiments import Request
from cawn.paper.measurements import Task
from cawn.paper.results import Results
from cawn.paper.shapes import (
    PRINTED,
    Shapes,
    WalkGroups,
    discriminatory_power,
    measure,
    shape_table,
    walk_groups,
)
from networks import random_events
from paper_results import gather, result
from paper_results import row as metrics_row
from small_explanation import M, random_pairs
from tolerances import assert_same_scores


def request(folder: Path, **changes: object) -> Request:
    return Request({"uci": random_events(0)}, 1, Results(folder), changes)


def row(shape: str, score: float, positives: float, negatives: float) -> dict[str, Any]:
    found = {"shape": shape, "meaning": "", "steps": 3, "rank": 1, "score": score}
    return found | {"with_positives": positives, "with_negatives": negatives}


def value(rows: list[dict[str, Any]], power: float) -> dict[str, Any]:
    printed = next((one for one in rows if one["shape"] == PRINTED), None)
    found = {"shapes": rows, "printed": printed, "ranked": len(rows), "rare": 7}
    return found | {"pairs": 200, "power": [power, 0.01], "rows": [metrics_row(0.9)]}


def results(caws: list[dict[str, Any]], powers: tuple[float, float] = (0.8, 0.1)) -> Results:
    aws = [row("0 → 1 → 2 → 3", 0.1, 0.9, 0.9)]
    settings = {"task": "transductive", "seed": 0, "protocol": "strict", "ties": "strict"}
    return gather(
        *(
            result("shapes", f"Shapes of {kind}, transductive, seed 0", value(rows, power), settings)
            for kind, rows, power in zip(("CAWs", "AWs"), (caws, aws), powers, strict=True)
        )
    )


def power(shape: list[int], positive: list[bool], fold: list[int]) -> float:
    counts = np.ones(len(shape))
    return discriminatory_power(np.array(shape), np.array(positive), np.array(fold), counts)[0]


def test_power_by_hand() -> None:
    positive, fold = [True, False] * 2, [0, 0, 1, 1]
    assert power([0, 1, 0, 1], positive, fold) == 1.0
    assert power([0, 0, 0, 0], positive, fold) == 0.0
    assert power([0, 1, 1, 0], positive, fold) == -1.0  # what one part says, the other contradicts
    # Positives: three quarters shape 0; negatives: one quarter.
    shape = [0, 0, 0, 1, 0, 1, 1, 1] * 2
    assert power(shape, ([True] * 4 + [False] * 4) * 2, [0] * 8 + [1] * 8) == pytest.approx(0.5)


def test_rare_shapes_have_no_power_by_chance() -> None:
    """The plain distance of 1,000 walks each over 400 equally frequent shapes is about 0.35 though the law is one."""
    rng = np.random.default_rng(0)
    n, shapes = 2_000, 400
    positive, fold = np.arange(n) % 2 == 0, np.arange(n) // 2 % 10
    shape = rng.integers(0, shapes, n)
    found, half = discriminatory_power(shape, positive, fold, np.ones(n))
    assert abs(found) < 0.1
    assert abs(found) < 2 * half


def test_scores_of_walks_add_up_to_the_logits() -> None:
    """The mean of the scores of the 2M walks of a pair, and what it has without walks, is its logit."""
    changes = {"head": "linear", "sides": "joint", "rates": False, "directed": False, **NO_SEQUENCES}
    scorer, model, (src, dst, t) = random_pairs(**changes)
    negative, length = np.roll(dst, 1), scorer.config.length
    groups = list(walk_groups(scorer, LawLinks(src, dst, negative, t, np.ones(10, bool))))
    found = shape_table(groups, len(src), length, 2 * M)
    assert [some.positive for some in groups] == [True, False]
    for some, other in zip(groups, (dst, negative), strict=True):
        assert np.bincount(some.link, weights=some.count).tolist() == [2 * M] * len(src)
        batch = scorer.batcher.trace(src, other, t, seed=WALK_SEED)
        total = np.bincount(some.link, weights=some.contribution, minlength=len(src))
        assert_same_scores(total + model.head.bias.item(), scorer.logits_of(batch))
        names = {format_shape(shape, length) for shape in distinct_walks(batch).shapes}
        assert {one["shape"] for one in found["shapes"]} <= names or not some.positive
    scores = [one["score"] for one in found["shapes"]]
    assert scores == sorted(scores, reverse=True)


def test_scores_and_occurrences_by_hand() -> None:
    """Five positives have shape 1 -> 2 with 2 of 4 walks each; one negative has it; all have shape 1."""
    links, length = 5, 1
    both = np.tile([[1, 0], [1, 2]], (links, 1))
    pairs = np.repeat(np.arange(links), 2)
    positive = WalkGroups(True, pairs, both, np.tile([-0.5, 1.0], links), np.full(2 * links, 2.0))
    single = np.array([[1, 0]] * links + [[1, 2]])
    count, terms = np.array([3.0, 4, 4, 4, 4, 1]), np.array([-0.75, -1, -1, -1, -1, 0.5])
    negative = WalkGroups(False, np.array([0, 1, 2, 3, 4, 0]), single, terms, count)
    found = shape_table([positive, negative], links, length, 4)
    high, low = found["shapes"]
    assert (high["shape"], low["shape"]) == ("0 → 1", "0")
    assert (high["score"], low["score"]) == (pytest.approx(2.0), pytest.approx(4 * (-2.5 - 4.75) / 29))
    assert (high["with_positives"], high["with_negatives"]) == (1.0, pytest.approx(0.2))
    assert (high["steps"], low["steps"], high["rank"], low["rank"]) == (1, 0, 1, 2)
    assert (found["ranked"], found["rare"], found["printed"]) == (2, 0, None)


def test_plan_is_that_of_the_paper(tmp_path: Path) -> None:
    caw, aw = Shapes().plan(request(tmp_path))
    for measurement, identity in ((caw, "caw"), (aw, "aw")):
        config = measurement.settings["config"]
        assert (config["num_walks"], config["length"]) == (32, 3)
        assert (config["head"], config["pooling"], config["sides"]) == ("linear", "mean", "joint")
        assert config["identity"] == identity
    assert caw.label == "Shapes of CAWs, transductive, seed 0"
    assert Shapes().plan(request(tmp_path, num_walks=8))[0].settings["config"]["num_walks"] == 8


@pytest.mark.parametrize("identity", [0, 1], ids=["caw", "aw"])
def test_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, identity: int) -> None:
    rng = np.random.default_rng(0)
    events = cawn.Events(rng.integers(0, 6, 200), rng.integers(6, 12, 200), np.arange(200))
    monkeypatch.setattr(Task, "events", lambda self: events)
    settings = Shapes().plan(request(tmp_path, num_walks=4, dim=4, epochs=1, alpha=0.01))[identity].settings
    found = measure(Task("uci", dict(settings), {}, "cpu", 1, tmp_path / "run"), lambda _: None)
    assert 0 < found["pairs"] <= 60
    assert found["shapes"]
    if identity == 1:  # a walk in a bipartite network visits its two sides in turn
        orders = {"0 → 1 → 0 → 1", "0 → 1 → 0 → 2", "0 → 1 → 2 → 1", "0 → 1 → 2 → 3"}
        assert {one["shape"] for one in found["shapes"] if one["steps"] == 3} == orders
    assert found["rows"][0]["links"] == "all"


def test_claims_that_hold() -> None:
    caws = [row(PRINTED, 3.0, 0.2, 0.001), row("b", 2.0, 0.1, 0.0), row("c", 1.0, 0.1, 0.001)]
    caws += [row("d", 0.0, 0.5, 0.5), row("e", -1.0, 0.1, 0.5), row("f", -2.0, 0.1, 0.6), row("g", -3.0, 0.0, 0.6)]
    section = Shapes().show(results(caws))
    assert section is not None
    assert section.text[-1].count("**confirmed**") == 3
    assert "rank 1 of 7" in section.text[-1]
    assert [line[0] for line in section.tables[0].rows] == [PRINTED, "b", "c", "e", "f", "g"]
    assert section.tables[2].rows[0] == ["CAW", "0.80 ± 0.01", "90.00", "1"]
    assert len(section.plots) == 2


def test_claims_that_fail() -> None:
    caws = [row("a", 3.0, 0.2, 0.1), row("b", -3.0, 0.4, 0.6)]
    section = Shapes().show(results(caws, powers=(0.1, 0.095)))
    assert section is not None
    assert section.text[-1].count("**not confirmed**") == 3
    assert "too rare" in section.text[-1]


def test_nothing_to_show() -> None:
    assert Shapes().show(gather()) is None
