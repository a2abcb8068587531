"""Statistics of tables: means and intervals over seeds, paired differences, and what must never be averaged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import cawn
from cawn.paper.records import BySeed, Records, comparable, first_run, main_settings
from cawn.paper.results import Result
from paper_results import gather, row, trained

fractions = st.dictionaries(st.integers(0, 9), st.floats(0, 1), min_size=2)


def records(*results: Result) -> Records:
    return Records(gather(*results))


@given(fractions)
def test_mean_and_interval_are_those_of_students_t(values: dict[int, float]) -> None:
    found, n = BySeed(values), len(values)
    low, high = stats.t.interval(0.95, n - 1, 0, stats.sem(list(values.values())) or 1e-300)
    assert found.mean == pytest.approx(100 * sum(values.values()) / n)
    assert found.half == pytest.approx(50 * (high - low), rel=1e-3, abs=1e-9)
    assert str(found) == f"{found.mean:.2f} ± {found.half:.2f}"


@given(fractions, fractions)
def test_differences_are_paired_by_seed(ours: dict[int, float], theirs: dict[int, float]) -> None:
    both = BySeed(ours) - BySeed(theirs)
    assert both == {seed: ours[seed] - theirs[seed] for seed in ours.keys() & theirs.keys()}
    opposite = BySeed(theirs) - BySeed(ours)
    verdicts = {"confirmed": "contradicted", "contradicted": "confirmed"}
    assert opposite.verdict == verdicts.get(both.verdict, both.verdict)
    assert both.is_clear == (both.verdict in verdicts) == (len(both) > 1 and abs(both.mean) > both.half)


@given(st.lists(fractions, min_size=1))
def test_only_seeds_that_all_have_are_averaged(quantities: list[dict[int, float]]) -> None:
    found = BySeed.average(quantities)
    assert set(found) == set.intersection(*map(set, quantities))
    for seed, value in found.items():
        assert value == pytest.approx(sum(one[seed] for one in quantities) / len(quantities))


def test_a_common_effect_of_the_seed_cancels() -> None:
    noise = {0: 0.0, 1: 0.2, 2: -0.2}
    low, high = ({seed: mean + value for seed, value in noise.items()} for mean in (0.5, 0.51))
    assert BySeed(low).half > 40
    gain = BySeed(high) - low
    assert (gain.signed, gain.verdict) == ("+1.00 ± 0.00", "confirmed")


def test_a_single_seed_decides_nothing() -> None:
    one = BySeed({3: 0.9})
    assert (str(one), one.signed, one.verdict) == ("90.00", "+90.00", "undecided")
    assert (str(BySeed()), BySeed().signed, BySeed().verdict) == ("", "", "not measured")
    assert BySeed.average([]) == {}


def test_every_number_has_a_record() -> None:
    baseline = dict.fromkeys(("auc", "ap"), 0.7)
    rows = [row(0.9, mrr=0.4), row(0.8, clock="event", baselines={"recency": baseline})]
    found = records(trained("A", *rows, seed=3))
    assert len(found) == 5 + 4 + 2
    (one,) = found.where(scorer="recency", metric="ap")
    assert (one.network, one.trained_on, one.label, one.task, one.seed) == ("uci", "uci", "A", "transductive", 3)
    assert (one.links, one.negatives, one.clock, one.value) == ("all", "random", "event", 0.7)
    assert [one.value for one in found.where(metric=("ap", "mrr"), clock="strict")] == [0.9, 0.4]
    assert found.by("scorer", "metric", "clock")["", "ap", "strict"] == {3: 0.9}
    assert found.by("scorer", "metric", "clock")["", "ap", "batch"] == {}


def test_a_label_is_not_the_beginning_of_another() -> None:
    found = records(*(trained(name, row(0.9)) for name in ("A", "A, b", "AB", "C")))
    assert {one.label for one in found.labelled("A")} == {"A", "A, b"}
    assert list(dict.fromkeys(one.label for one in found.labelled("C", "A"))) == ["C", "A", "A, b"]
    assert [run.labels[0][0] for run in found.labelled("C").runs] == ["C"]


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (trained("A", row(0.9, split="other"), seed=1), "splits"),
        (trained("B", row(0.9, split="other")), "splits"),
    ],
)
def test_different_splits_are_never_compared(other: Result, what: str) -> None:
    with pytest.raises(cawn.QueryError, match=f"different {what}.*remove one of them"):
        records(trained("A", row(0.9)), other).labelled("A", "B")


def test_different_links_are_never_compared() -> None:
    other = trained("A", row(0.9), seed=1)
    object.__setattr__(other, "links", "other")
    with pytest.raises(cawn.QueryError, match="different links"):
        records(trained("A", row(0.9)), other).labelled("A")


def test_inductive_splits_depend_on_the_seed_and_those_by_rows_on_the_ties() -> None:
    runs = [trained("A", row(0.9, split=f"s{seed}"), task="inductive", seed=seed) for seed in range(3)]
    runs += [trained("A, rows", row(0.9, split="r"), ties="rows"), trained("A", row(0.9))]
    assert len(records(*runs).labelled("A").runs) == 5


def test_one_seed_counts_once() -> None:
    run = trained("A", row(0.9))
    run.labels.append(run.labels[0].replace("A", "B"))
    assert records(run).where(metric="ap").by() == {(): {0: 0.9}}
    with pytest.raises(cawn.QueryError, match="two results with the same seed"):
        records(trained("A", row(0.9)), trained("B", row(0.9))).by("network")


@pytest.mark.parametrize("auc", [float("nan"), float("inf"), -0.1, 1.5, 1e308])
def test_impossible_metrics_are_refused(auc: float) -> None:
    with pytest.raises(cawn.StorageError, match=r"uci, A, transductive, seed 0: auc is .*, not between 0 and 1"):
        records(trained("A", row(0.9) | {"auc": auc}))


def test_runs_with_other_settings_are_left_out() -> None:
    base = {"num_walks": 64, "length": 2, "alpha": 1e-6, "lr": 0.001}
    others = [base | {"num_walks": 8}, base | {"lr": 0.1}, base | {"num_walks": 8, "lr": 0.1}, {"lr": 0.001}]
    runs = [trained("base", row(0.9), config=base), trained("base", row(0.9), seed=1, config=base | {"lr": 0.1})]
    runs += [trained(f"other {i}", row(0.9), config=config) for i, config in enumerate(others)]
    found = records(*runs)
    assert first_run(found, "base") is runs[0]
    assert comparable(found, "base", lambda _: ()).runs == [runs[0]]
    assert comparable(found, "base", lambda _: ("num_walks",)).runs == [runs[0], runs[2]]
    assert comparable(found, "missing", lambda _: ()).runs == []
    assert main_settings(runs[0]) == "M = 64, m = 2, alpha = 1e-06, learning rate = 0.001"
