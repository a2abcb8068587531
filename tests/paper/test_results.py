"""Results of experiments: cached by what they depend on, and never averaged over different splits."""

import json
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
        settings={"task": task, "seed": seed, "protocol": "strict", "ties": "strict"},
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


def write(folder: Path, name: str = "uci.json", **changes: object) -> Path:
    """Write a file of one result, with changes."""
    row = {name: value for name, value in vars(result()).items() if name != "network"}
    about = changes.pop("about", {"digest": "d", "links": 3})
    network = changes.pop("network", "uci")
    content = {"format": "cawn paper results", "network": network, "about": about, "results": [row | changes]}
    path = folder / name
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": [1]},
        {"labels": ["A\n# heading"]},
        {"labels": "A"},
        {"settings": []},
        {"seconds": float("nan")},
        {"seconds": 10**400},
        {"versions": {"cawn": 1}},
        {"links": None},
        {"color": "of a later version"},
        {"about": "three links"},
        {"about": {"links": "3"}},
        {"network": ["uci"]},
    ],
)
def test_damaged_results_are_refused_in_one_line(tmp_path: Path, changes: dict[str, object]) -> None:
    write(tmp_path)
    assert len(list(Results.read(tmp_path).all())) == 1
    write(tmp_path, **changes)
    with pytest.raises(cawn.StorageError, match=r"uci\.json: "):
        Results.read(tmp_path)


@pytest.mark.parametrize("end", [50, -9])
def test_a_file_that_was_cut_off_is_refused(tmp_path: Path, end: int) -> None:
    path = write(tmp_path)
    path.write_text(path.read_text()[:end])
    with pytest.raises(cawn.StorageError, match="damaged"):
        Results.read(tmp_path)


def test_a_copy_of_the_results_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, "uci-old.json")
    with pytest.raises(cawn.StorageError, match=r"uci-old\.json: has results of 'uci'"):
        Results.read(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"format": 3}', "not JSON", '["cawn paper results"]'])
def test_other_json_files_are_ignored_and_never_overwritten(tmp_path: Path, text: str) -> None:
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "uci.json").write_text(text)
    results = Results.read(tmp_path)
    assert not results.found
    results.check_writable("enron")
    with pytest.raises(cawn.StorageError, match="not written by cawn paper"):
        results.check_writable("uci")


@pytest.mark.parametrize("auc", [float("nan"), float("inf"), -0.1, 1.5, 1e308])
def test_impossible_metrics_are_refused(auc: float) -> None:
    with pytest.raises(cawn.StorageError, match=r"uci, A, transductive, seed 0: auc is .*, not between 0 and 1"):
        cell([result(auc=auc)], "auc")


def test_the_key_depends_on_everything_that_matters() -> None:
    def key(network: str = "uci", digest: str = "d", **settings: object) -> str:
        one = Measurement(network, "training", {"seed": 0, "others": ["enron"]} | settings, "any label")
        return one.key({network: digest, "enron": "e"})

    assert key() == key()
    assert len({key(), key(seed=1), key(digest="other"), key(others=[])}) == 4
