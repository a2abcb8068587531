"""Results of experiments: cached by what they depend on, and never averaged over different splits."""

from pathlib import Path

import pytest

import cawn
from cawn.paper.measurements import Measurement
from cawn.paper.results import Cell, Result, Results, cell, check_same_splits, differences


def result(seed: int = 0, auc: float = 0.9, split: str = "s", label: str = "A", links: str = "d", **more) -> Result:
    task = more.pop("task", "transductive")
    row = {"links": "all", "negatives": "random", "clock": "strict", "split": split, "auc": auc}
    return Result(
        key=f"{label}-{task}-{seed}-{split}",
        network="uci",
        kind="training",
        settings={"task": task, "seed": seed, "protocol": "standard", "ties": "strict"},
        labels=[f"{label}, {task}, seed {seed}"],
        value={"rows": [row]},
        seconds=1.0,
        command="cawn paper table2",
        versions={},
        device="CPU",
        links=links,
    )


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    results = Results(tmp_path)
    for seed in range(3):
        results.add(result(seed), {"digest": "d"})
    assert list(Results.read(tmp_path).all()) == list(results.all())
    assert Results.read(tmp_path).about == {"uci": {"digest": "d"}}
    assert list(Results.read(tmp_path / "missing").all()) == []


def test_a_label_belongs_to_the_newest_result(tmp_path: Path) -> None:
    results = Results(tmp_path)
    old, new = result(split="old"), result(split="new")
    results.add(old, {})
    results.add(new, {})
    assert results.labelled("A") == [new]
    results.use(old, "A, transductive, seed 0")
    assert Results.read(tmp_path).labelled("A, transductive", "uci") == [old]
    assert Results.read(tmp_path).labelled("A, transductive", "enron") == []


def test_mean_and_interval() -> None:
    found = cell([result(seed, auc) for seed, auc in enumerate((0.9, 0.92))], "auc", links="all")
    assert found is not None
    assert (found.mean, found.seeds) == (pytest.approx(91.0), 2)
    assert found.half == pytest.approx(12.7062 * 1.0, rel=1e-4)  # t of one degree of freedom, standard error 1
    assert cell([result()], "auc", links="new-new") is None
    assert str(cell([result()], "auc")) == "90.00"


def test_differences_are_paired_by_seed() -> None:
    ours = [result(seed, auc, label="B") for seed, auc in enumerate((0.9, 0.8, 0.5))]
    reference = [result(seed, auc) for seed, auc in enumerate((0.875, 0.75))]
    found = differences(ours, reference, "auc", links="all")
    assert found == {0: pytest.approx(0.025), 1: pytest.approx(0.05)}
    other = result(1, split="other")
    with pytest.raises(cawn.QueryError, match="different splits"):
        differences(ours, [other], "auc")


def test_a_difference_is_clear_if_its_interval_excludes_zero() -> None:
    assert [Cell(mean, 0.5, 3).clear for mean in (1.0, -1.0, 0.4, -0.4)] == [True, True, False, False]
    assert not Cell(1.0, None, 1).clear
    assert Cell(-1.0, 0.5, 3).signed == "-1.00 ± 0.50"
    assert Cell(1.0, None, 1).signed == "+1.00"
    assert Cell.of([]) is None


@pytest.mark.parametrize(
    ("others", "what"),
    [
        ([result(1, split="other")], "splits"),
        ([result(0, split="a", task="inductive"), result(0, split="b", task="inductive", label="B")], "splits"),
        ([result(1, links="other")], "links"),
    ],
)
def test_different_splits_are_never_averaged(others: list[Result], what: str) -> None:
    with pytest.raises(cawn.QueryError, match=f"different {what}"):
        check_same_splits([result(), *others])


def test_inductive_splits_depend_on_the_seed() -> None:
    check_same_splits([result(seed, split=f"s{seed}", task="inductive") for seed in range(3)])


def test_one_seed_counts_once() -> None:
    with pytest.raises(cawn.QueryError, match="same seed"):
        cell([result(), result(label="B")], "auc")


def test_damaged_results_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "uci.json").write_text('{"format": "cawn paper results", "network": "uci"}')
    with pytest.raises(cawn.CawnError, match="damaged"):
        Results.read(tmp_path)


def test_the_key_depends_on_everything_that_matters() -> None:
    def key(network: str = "uci", digest: str = "d", **settings: object) -> str:
        one = Measurement(network, "training", {"seed": 0, "others": ["enron"]} | settings, "any label")
        return one.key({network: digest, "enron": "e"})

    assert key() == key()
    assert len({key(), key(seed=1), key(digest="other"), key(others=[])}) == 4
