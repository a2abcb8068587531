"""How results were measured: digests, seeds, commands, times and versions."""

from dataclasses import replace

from cawn.paper.provenance import code, provenance
from paper_results import gather, result, row, trained


def facts(*results) -> dict[str, list[str]]:
    return dict(provenance(gather(*results), results))


def test_transductive_seeds_share_a_split_and_inductive_ones_do_not() -> None:
    both = [trained("A", row(0.9, split="s"), seed=seed) for seed in range(3)]
    hidden = [trained("A", row(0.9, split=f"s{seed}"), seed=seed, task="inductive") for seed in (0, 1)]
    found = facts(*both, *hidden)
    assert found["Splits"] == ["UCI, inductive: seed 0 `s0`, seed 1 `s1`", "UCI, transductive: digest `s`"]
    assert found["Seeds"] == ["transductive 0 to 2", "inductive 0, 1"]


def test_clocks_negatives_and_unusual_splits_are_named() -> None:
    rows = [row(0.9, negatives="historical"), row(0.9, clock="event")]
    found = facts(trained("A", *rows, ties="rows"))
    assert found["Clock"] == ["strict, event"]
    assert found["Negatives"] == ["historical, random"]
    assert found["Splits"] == ["UCI, transductive, ties: rows: digest `s`"]


def test_results_of_several_machines_are_all_listed() -> None:
    one, two = (
        replace(trained("A", row(0.9), seed=seed), seconds=seconds, device=device, versions={"cawn": version})
        for seed, seconds, device, version in ((0, 60.0, "CPU", "1"), (1, 180.0, "GPU", "2"))
    )
    found = facts(one, two, two)
    assert found["Device"] == ["CPU", "GPU"]
    assert found["Versions"] == ["cawn 1", "cawn 2"]
    assert found["Time"] == ["2 measurements, 4 min in total, median 2 min; some may have run in parallel"]
    assert found["Commands"] == ["`cawn paper`"]


def test_measurements_without_rows() -> None:
    found = facts(result("timing", "walks", [1.0, 2.0], {"sizes": [1, 2]}))
    assert "Splits" not in found
    assert "Seeds" not in found
    assert found["Networks"] == ["UCI: digest `links of uci`"]
    assert provenance(gather(), []) == []


def test_code_may_contain_backticks() -> None:
    assert (code("a"), code("a`b")) == ("`a`", "`` a`b ``")
