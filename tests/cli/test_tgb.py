"""`cawn tgb`."""

import json
from pathlib import Path

import pytest

from command_line import assert_refused, call_cawn

UNTRAINED = ("--system", "recency", "--device", "cpu")


@pytest.fixture(scope="module")
def trained(workshop: Path, tmp_path_factory) -> Path:
    """A folder of runs on the links of the workshop, as if they were those of tgbl-uci."""
    folder = tmp_path_factory.mktemp("tgb") / "runs"
    shown = call_cawn("tgb", "uci", "--data", workshop / "edges.csv", *UNTRAINED, "--seeds", "2", "-o", folder)
    assert shown.code == 0, shown.err
    (folder.parent / "shown.txt").write_text(shown.out + shown.err)
    return folder


def test_ranks_of_all_seeds_are_printed(trained: Path) -> None:
    shown = (trained.parent / "shown.txt").read_text()
    for words in (
        "mean of 2 seeds",
        "among all destinations, strict clock",
        "protocol tgb",
        "test links: 180",
        "validation links: 180",
        "MRR",
        "Hits@10",
        "as in TGB's loader; use --one-name-space for one",
        "comparable with TGB's tgbl-uci if",
    ):
        assert words in shown
    assert {path.name for path in trained.glob("[!.]*")} == {"seed-0", "seed-1", "summary.json"}


def test_runs_are_tested_again(workshop: Path, trained: Path) -> None:
    links = ("--data", workshop / "edges.csv", "--json", "-q")
    again = call_cawn("tgb", "uci", *links, "--run", trained / "seed-0", "--run", trained / "seed-1")
    assert again.code == 0, again.err
    found = json.loads(again.out)
    assert found["benchmark"] == "tgbl-uci"
    assert found["runs"] == [str(trained / f"seed-{seed}") for seed in (0, 1)]
    stored = [json.loads((trained / f"seed-{seed}" / "results.json").read_text()) for seed in (0, 1)]
    assert found["results"] == stored
    mean = sum(rows[0]["model"]["mrr"] for rows in stored) / 2
    assert found["summary"]["test"]["mrr"]["mean"] == pytest.approx(mean)
    assert found["summary"]["test"]["mrr"]["std"] == 0  # the rule has no random numbers
    evaluated = call_cawn("evaluate", trained / "seed-0", "--clock", "batch:50")
    assert "batch:50 clock" in evaluated.out
    resumed = call_cawn("tgb", "uci", *links, *UNTRAINED, "--seeds", "2", "-o", trained)
    assert json.loads(resumed.out)["results"] == stored


def test_one_name_space_is_another_network(workshop: Path, trained: Path, tmp_path: Path) -> None:
    options = ("--data", workshop / "edges.csv", "--one-name-space", *UNTRAINED, "-o", tmp_path / "runs")
    shown = call_cawn("tgb", "uci", *options)
    assert "use --bipartite for two" in shown.err
    both = ("--run", trained / "seed-0", "--run", tmp_path / "runs" / "seed-0")
    assert_refused(call_cawn("tgb", "uci", "--data", workshop / "edges.csv", "-q", *both), "two in others")


def test_what_cannot_be(workshop: Path, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("src,dst,t\n" + "".join(f"{i % 3},{3 + i % 4},{i}\n" for i in range(60)))
    other = ("--data", tmp_path / "other.csv", "-q")
    assert_refused(call_cawn("tgb", "frob"), "NAME is 'frob'")
    assert_refused(call_cawn("tgb", "review"), "give TGB's file of links with --data")
    assert_refused(
        call_cawn("tgb", "uci", *other, "--run", trained / "seed-0"), "was not trained on the links of tgbl-uci"
    )
    for option in (("--set", "a=1"), ("--seeds", "3"), ("--one-name-space",)):
        assert_refused(call_cawn("tgb", "uci", *other, "--run", trained / "seed-0", *option), "leave out --system")
    assert_refused(call_cawn("tgb", "uci", *other, "--clock", "frob"), "clock is 'frob'")


def test_protocols_of_evaluate(workshop: Path) -> None:
    run = workshop / "run"
    found = json.loads(call_cawn("evaluate", run, "--protocol", "paper", "--json", "-q").out)["results"]
    assert [(row["protocol"], row["negatives"]) for row in found] == [("paper", "random")]
    ranked = call_cawn("evaluate", run, "--protocol", "tgb:5", "-q").out
    assert "among 5 destinations, strict clock" in ranked
    assert_refused(call_cawn("evaluate", run, "--protocol", "dyglib"), "train with --protocol dyglib")
    assert_refused(call_cawn("evaluate", run, "--protocol", "frob"), "protocol is 'frob': give strict, tgb")
    wrong = call_cawn("evaluate", run, "--protocol", "tgb", "--negatives", "random")
    assert_refused(wrong, "leave out the kinds of negatives")
