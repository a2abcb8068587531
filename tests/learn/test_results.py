"""Results as a tidy table, and its pivots: means over seeds that may be averaged."""

import pytest

import cawn
from small_results import a_test, results

RECENCY = {"recency": {"auc": 0.5, "ap": 0.6}}
FOUND = results(
    a_test(0.7, seed=0, baselines=RECENCY),
    a_test(0.9, seed=1, baselines=RECENCY),
    a_test(0.4, seed=0, negatives="historical"),
)


def test_a_row_for_each_metric_of_each_system() -> None:
    assert len(FOUND) == 5 + 5 + 2
    assert FOUND[3] == FOUND[4] | {"metric": "auc", "value": 0.5}
    assert FOUND[4] == {
        "system": "recency",
        "baseline": True,
        "task": "transductive",
        "seed": 0,
        "links": "all",
        "negatives": "random",
        "protocol": "strict",
        "clock": "strict",
        "split": "d1",
        "count": 9,
        "metric": "ap",
        "value": 0.6,
    }
    assert FOUND.values("system") == ["a", "recency"]
    same = results(a_test(system="recency", baselines=RECENCY))
    assert same.values("system") == ["recency", "recency (baseline)"]


def test_rows_are_chosen_with_their_tests() -> None:
    chosen = FOUND.where(seed=0, metric=("auc", "ap"), baseline=False)
    assert [(row["negatives"], row["value"]) for row in chosen] == [("random", 0.7)] * 2 + [("historical", 0.4)] * 2
    assert chosen.tests == (FOUND.tests[0], FOUND.tests[2])
    assert FOUND.where(metric="ap", negatives="random", system="a").by_seed() == {0: 0.7, 1: 0.9}
    with pytest.raises(cawn.QueryError, match="no column 'metrics': there are system, baseline"):
        FOUND.where(metrics="ap")


def test_a_pivot_has_means_with_intervals() -> None:
    table = FOUND.pivot(metrics=("ap", "mrr"))
    assert table.to_markdown().splitlines() == [
        "| links | system | AP random | AP historical | MRR random |",
        "| --- | --- | ---: | ---: | ---: |",
        "| all | a | **80.00 ± 127.06** | **40.00** | **40.00 ± 63.53** |",  # Student's t with one degree of freedom
        "| all | recency | 60.00 ± 0.00 |  |  |",
    ]
    assert "<b>80.00 ± 127.06</b>" in FOUND._repr_html_()
    assert table.to_pandas().loc[("all", "recency"), "AP random"] == 0.6
    by_seed = FOUND.where(negatives="random").pivot(("seed",), ("system", "metric"), ("ap",))
    assert by_seed.to_markdown().splitlines()[-1] == "| 1 | **90.00** | **60.00** |"
    assert list(FOUND.to_pandas()["value"]) == [row["value"] for row in FOUND]
    ours, theirs = (FOUND.where(metric="ap", negatives="random", system=name) for name in ("a", "recency"))
    assert f"{ours.gain(theirs):+}" == "+20.00 ± 127.06"
    (row, *_) = FOUND.mean_rows()
    assert (row["system"], row["metric"], row["mean"], row["seeds"]) == ("a", "auc", pytest.approx(0.8), 2)


def test_only_what_differs_in_the_seed_alone_is_averaged() -> None:
    with pytest.raises(cawn.QueryError, match="results that differ in clock cannot be averaged"):
        results(a_test(0.7), a_test(0.8, clock="event")).means("metric")
    with pytest.raises(cawn.QueryError, match="differ in split"):
        results(a_test(0.7), a_test(0.8, seed=1, split="d2")).means("metric")
    hidden = [a_test(0.7, seed=seed, task="inductive", split=f"d{seed}") for seed in (0, 1)]
    assert results(*hidden).means("metric")["ap",].seeds == 2  # hidden nodes depend on the seed
    twice = results(a_test(0.7), a_test(0.7)).means("metric")
    assert twice["ap",].seeds == 1
    clocks = results(a_test(0.7), a_test(0.8, clock="event")).pivot(metrics=("ap",))
    assert clocks.names == ("clock", "links", "system")


def test_results_without_rows() -> None:
    assert len(results()) == 0
    assert results().where(metric="ap").values("system") == []
    assert results().pivot().to_markdown().startswith("| links | system |")
