"""Results on the test links."""

from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.kernels.rng import seed_for
from cawn.learn import evaluation, metrics
from cawn.learn.negatives import part_negatives
from cawn.learn.run_info import run_info
from cawn.learn.splits import split
from cawn.learn.trainer import Trainer
from networks import random_events, with_columns
from small_runs import TINY


def test_results_rank_links_among_many(events) -> None:
    run = cawn.train(
        events, TINY.with_(epochs=1), seed=0, quiet=True, task=cawn.Task(negatives=("random", "historical"))
    )
    test = run.results.tests[0]
    ranks = test["ranks"]
    assert ranks["links"] == evaluation.RANKED_LINKS
    assert ranks["candidates"] == 100
    for figures in (test["model"], test["baselines"]["rates only"], test["baselines"]["recency"]):
        assert 0 < figures["mrr"] <= 1
        assert figures["hits@1"] <= figures["hits@3"] <= figures["hits@10"]
    assert "ranks" not in run.results.tests[1]


def test_own_negatives_are_tested_and_hidden_nodes_are_none(events) -> None:
    own = np.where(np.arange(len(events)) % 3 == 0, (events.dst + 1) % 60, -1)
    given = with_columns(events, negative=own)
    run = cawn.train(given, TINY.with_(epochs=1), task=cawn.Task("inductive", negatives=("random",)), quiet=True)
    rows = [row for row in run.results.tests if row["negatives"] == "own"]
    parts = split(given, "inductive", seed=0)
    counts = [int((own[part] >= 0).sum()) for part in parts.test.values()]
    assert [(row["links"], row["count"]) for row in rows] == [
        *zip(parts.test, counts, strict=True),
        ("all", sum(counts)),
    ]
    assert all(row["trained_with"] == "own, random" or row["trained_with"] == "own, mixed" for row in rows)
    trainer = Trainer(given, TINY, task="inductive", quiet=True)
    for negatives in (trainer.training.negatives(0), trainer.negatives):
        assert not trainer.split.hidden[negatives].any()


def test_all_inductive_links_are_also_evaluated_together(events) -> None:
    run = cawn.train(
        events, TINY.with_(epochs=1), task=cawn.Task("inductive", negatives=("random",), baselines=False), quiet=True
    )
    parts = split(events, "inductive", seed=0)
    rows = {row["links"]: row for row in run.results.tests}
    links = np.sort(np.concatenate(list(parts.test.values())))
    assert rows["all"]["count"] == len(links)
    true = run.scorer(events.src[links], events.dst[links], events.t[links])
    drawn = [part_negatives(events, parts, name, "random", seed_for(0, "test")) for name in parts.test]
    order = np.concatenate(list(parts.test.values())).argsort()
    false = np.concatenate([found.dst for found in drawn])[order]
    logits = true, run.scorer(events.src[links], false, events.t[links])
    for name, metric in (("auc", metrics.auc), ("ap", metrics.average_precision)):
        assert rows["all"]["model"][name] == pytest.approx(metric(*logits), abs=1e-6)
        assert rows["all"]["model"][f"{name}_batch30"] == pytest.approx(
            metrics.batch_mean(metric, *logits, 30), abs=1e-6
        )


def test_a_split_by_time_is_kept_with_the_run(events, tmp_path: Path) -> None:
    cuts = cawn.TimeSplit(train_until=events.t[400].item(), test_from=events.t[600].item())
    config = TINY.with_(epochs=1)
    events = events[:700]
    run = cawn.train(events, config, out=tmp_path, task=cawn.Task(split=cuts, negatives=("random",)), quiet=True)
    assert run.results.tests[0]["count"] == int((events.t >= cuts.test_from).sum())
    assert cawn.evaluate(tmp_path, negatives=("random",)).tests[0]["split"] == run.results.tests[0]["split"]
    again = cawn.train(events, config, out=tmp_path, resume=True, quiet=True, task=cawn.Task(negatives=("random",)))
    assert again.results == run.results
    with pytest.raises(cawn.QueryError, match=r"other cuts, split"):
        cawn.train(
            events, config, out=tmp_path, resume=True, task=cawn.Task(split=cawn.TimeSplit(train_share=0.5)), quiet=True
        )


def test_the_order_of_questions_does_not_depend_on_how_nodes_are_numbered() -> None:
    """So that on a GPU too, where the last bits depend on the batch, a run is evaluated to the same figures again."""
    rng = np.random.default_rng(0)
    (src, dst), t = rng.integers(0, 9, (2, 40)), rng.integers(0, 4, 40)
    renamed = rng.permutation(9)
    asked = []

    def scorer(src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> np.ndarray:
        asked.append((src, dst))
        return np.zeros(len(src))

    for number in (np.arange(9), renamed):
        questions = evaluation.Questions()
        questions.add(number[src], number[dst], t)
        questions.ask(scorer)
    for mine, theirs in zip(*asked, strict=True):
        np.testing.assert_array_equal(renamed[mine], theirs)


def test_dyglibs_protocol_gives_both_tasks_in_one_run(tmp_path: Path) -> None:
    events = random_events(4, num_nodes=80, num_links=1_500, span=900)
    run = cawn.train(events, TINY.with_(epochs=1), task=cawn.Task(protocol="dyglib"), out=tmp_path, quiet=True)
    tests = [(row["links"], row["negatives"]) for row in run.results.tests]
    kinds = ("random", "historical pairs", "inductive pairs")
    assert tests == [(links, kind) for links in ("transductive", "inductive") for kind in kinds]
    for row in run.results.tests:
        assert (row["protocol"], row["clock"]) == ("dyglib", "strict")
        assert {"ap", "ap_batch30", "ap_batch200", "auc_batch200"} <= row["model"].keys()
    assert run.results.tests[0]["model"]["ap"] != run.results.tests[0]["model"]["ap_batch200"]
    assert cawn.evaluate(tmp_path) == run.results
    assert cawn.evaluate(tmp_path, negatives=("historical",)).values("negatives") == ["historical"]
    assert run_info(tmp_path)["protocol"] == "dyglib"
