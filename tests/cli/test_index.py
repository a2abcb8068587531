"""`cawn index`."""

import json
from pathlib import Path

from command_line import assert_refused, call_cawn

SMALL = [word for s in ("epochs=1", "num_walks=8", "dim=8") for word in ("--set", s)]


def test_index_info_and_train(workshop: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    built = call_cawn("index", workshop / "edges.csv", "-o", folder, "--memory", "8GiB", *SMALL)
    assert built.code == 0, built.err
    assert built.out.startswith(f"{folder}: 1,200 links, 30 nodes, 0.00 GB")
    assert "next: cawn train" in built.err
    found = json.loads(call_cawn("info", folder, "--json", "--verify").out)
    assert (found["links"], found["verified"], found["parts"]) == (
        1_200,
        True,
        [*("all", "destinations", "next", "nodes", "origins", "pairs", "partners", "sources", "ways")],
    )
    shown = call_cawn("info", folder)
    assert "src sender; dst receiver; time date" in shown.out
    assert "2024-01-01" in shown.out
    options = ("--device", "cpu", "--threads", "1", *SMALL)
    trained = call_cawn("train", folder, "-o", tmp_path / "run", *options)
    assert trained.code == 0, trained.err
    assert "not used" not in trained.err
    assert_refused(call_cawn("train", folder, "--src", "sender", "-o", tmp_path / "other"), "is an index folder")
    assert_refused(call_cawn("index", workshop / "edges.csv", "-o", folder), "holds an index already")


def test_bad_options(workshop: Path, tmp_path: Path) -> None:
    for given, reason in (
        (("--memory", "much"), "--memory is 'much': give an amount such as 4GiB"),
        (("--system", "tgat"), "system tgat has no index to store"),
        (("--time", "when"), "when"),
    ):
        assert_refused(call_cawn("index", workshop / "edges.csv", "-o", tmp_path / "index", *given), reason)
