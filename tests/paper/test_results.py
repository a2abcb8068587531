"""The folder of results: one file for each network, refused in one line if it is damaged."""

import json
from pathlib import Path

import pytest

import cawn
from cawn.paper.results import Result, ResultStore


def result(seed: int = 0, label: str = "A", key: str = "") -> Result:
    settings = {"task": "transductive", "seed": seed, "protocol": "strict", "ties": "strict"}
    labels, value = [f"{label}, transductive, seed {seed}"], {"rows": []}
    key = key or f"{label}-{seed}"
    return Result(key, "uci", "training", settings, labels, value, 1.0, "cawn paper table2", {}, "CPU", "d")


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    results = ResultStore(tmp_path)
    for seed in range(3):
        results.add(result(seed), {"digest": "d"})
    assert list(ResultStore.read(tmp_path).all()) == list(results.all())
    assert ResultStore.read(tmp_path).about == {"uci": {"digest": "d"}}
    assert list(ResultStore.read(tmp_path / "missing").all()) == []


def test_a_label_belongs_to_the_newest_result(tmp_path: Path) -> None:
    results = ResultStore(tmp_path)
    old, new = result(key="old"), result(key="new")
    results.add(old, {})
    results.add(new, {})
    assert results.labelled("A") == [new]
    assert ResultStore.read(tmp_path).get("uci", "old").labels == []
    results.use(old, ["A, transductive, seed 0", "B"])
    assert [one.key for one in ResultStore.read(tmp_path).labelled("A, transductive", "uci")] == ["old"]
    assert [one.key for one in ResultStore.read(tmp_path).labelled("B")] == ["old"]
    assert ResultStore.read(tmp_path).labelled("A, transductive", "enron") == []


def test_two_processes_write_one_file(tmp_path: Path) -> None:
    ours, theirs = ResultStore(tmp_path), ResultStore(tmp_path)
    ours.add(result(0), {})
    theirs.add(result(1), {})
    ours.use(ours.get("uci", "A-0"), ["B"])
    assert {one.key: one.labels for one in ResultStore.read(tmp_path).all()} == {
        "A-0": ["A, transductive, seed 0", "B"],
        "A-1": ["A, transductive, seed 1"],
    }


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
    assert len(list(ResultStore.read(tmp_path).all())) == 1
    write(tmp_path, **changes)
    with pytest.raises(cawn.StorageError, match=r"uci\.json: "):
        ResultStore.read(tmp_path)


@pytest.mark.parametrize("end", [50, -9])
def test_a_file_that_was_cut_off_is_refused(tmp_path: Path, end: int) -> None:
    path = write(tmp_path)
    path.write_text(path.read_text()[:end])
    with pytest.raises(cawn.StorageError, match="damaged"):
        ResultStore.read(tmp_path)


def test_a_copy_of_the_results_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, "uci-old.json")
    with pytest.raises(cawn.StorageError, match=r"uci-old\.json: has results of 'uci'"):
        ResultStore.read(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"format": 3}', "not JSON", '["cawn paper results"]'])
def test_other_json_files_are_ignored_and_never_overwritten(tmp_path: Path, text: str) -> None:
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "uci.json").write_text(text)
    results = ResultStore.read(tmp_path)
    assert not results.found
    results.check_writable("enron")
    with pytest.raises(cawn.StorageError, match="not written by cawn paper"):
        results.check_writable("uci")
