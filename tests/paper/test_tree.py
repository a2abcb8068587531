"""Tree-structured sampling on results made by hand, and the measurements that are planned."""

import pytest

from cawn.learn.plots import to_svg
from cawn.paper.experiments import Request, Section
from cawn.paper.results import Result
from cawn.paper.tree import FIRST, INDEPENDENT, Tree
from paper_results import gather, row, searched, trained

SPREAD = (0.0, 0.02, -0.02)  # of the split: the same for every k_1


def runs(losses: dict[int, float], network: str = "uci") -> list[Result]:
    """Runs with these differences to independent walks, in percent."""
    found = []
    for k, loss in losses.items():
        config = {"tree": [k, 64 // k] if k < 64 else [], "num_walks": 64, "length": 2, "alpha": 1e-6, "lr": 0.001}
        for seed, spread in enumerate(SPREAD):
            auc = 0.93 + loss / 100 + spread + 0.0001 * ((seed + k % 3) % 3)
            label = f"tree, k1 = {k}" if k < 64 else INDEPENDENT
            one = row(auc, split=f"s{seed}")
            found.append(trained(label, one, network=network, task="inductive", seed=seed, config=config))
    return found


def show(*results: Result) -> Section:
    section = Tree().show(gather(*results))
    assert section is not None
    return section


def test_trees_are_worse_but_less_so_for_large_k() -> None:
    section = show(*runs({1: -2.0, 2: -1.5, 4: -1.0, 8: -0.5, 16: 0, 32: 0, 64: 0}))
    text = section.text[-1]
    assert "Trees are clearly worse than independent walks for k_1 = 1, 2, 4, 8; not clearly different from" in text
    assert "the largest loss is -2.00" in text
    assert "(k_1 = 1)" in text
    assert "The claim that the loss is smaller for large k_1 is confirmed" in text
    rows = section.tables[0].rows
    assert [cells[:3] for cells in rows[:2]] == [["1", "64", "65 (51 %)"], ["2", "32", "66 (52 %)"]]
    assert rows[-1][:3] == ["64", "1", "128 (100 %)"]
    assert rows[0][4].startswith("-2.0")
    assert rows[-1][4] == ""


def test_the_opposite() -> None:
    text = show(*runs({1: 2.0, 2: 1.5, 4: 1.0, 8: 0.5, 16: 0, 32: 0, 64: 0})).text[-1]
    assert "clearly better than independent walks for k_1 = 1, 2, 4, 8" in text
    assert "clearly worse" not in text
    assert "The claim that the loss is smaller for large k_1 is contradicted" in text


def test_no_difference() -> None:
    text = show(*runs(dict.fromkeys(FIRST, 0.0))).text[-1]
    assert "not clearly different" in text
    assert "is undecided" in text


def test_some_are_missing() -> None:
    section = show(*runs({4: -1.0, 64: 0}))
    assert "k_1 = 4" in section.text[-1]
    assert "the loss is smaller" not in section.text[-1]
    assert section.tables[0].rows[0][3:] == ["", ""]
    assert show(*runs({64: 0})).text[-1].startswith("**UCI**")
    assert Tree().show(gather()) is None
    assert Tree().show(gather(*runs({4: 0}))) is None


def test_the_plot_has_a_panel_per_network() -> None:
    (plot,) = show(*runs(dict.fromkeys(FIRST, 0.0)), *runs({4: -1, 64: 0}, "wikipedia")).plots
    svg = to_svg(plot.draw, plot.size)
    assert "UCI" in svg
    assert "Wikipedia" in svg


def test_plan_has_fixed_walks_whatever_the_grid_search_found() -> None:
    best = {"num_walks": 32, "alpha": 3e-6, "length": 3}
    found = Tree().plan(Request({"uci": None}, 1, gather(searched(**best)), {"epochs": 2}))  # type: ignore[dict-item]
    configs = [one.settings["config"] for one in found]
    assert [config["tree"] for config in configs[:7]] == [[1, 64], [2, 32], [4, 16], [8, 8], [16, 4], [32, 2], []]
    assert len(configs) == 14
    wanted = {"num_walks": 64, "length": 2, "alpha": 3e-6, "epochs": 2}
    assert all(config | wanted == config for config in configs)
    assert len({one.label for one in found}) == 14


@pytest.mark.parametrize("k", [1, 8, 32])
def test_every_tree_is_a_valid_setting(k: int) -> None:
    from cawn.caw.config import Config

    assert Config.preset("paper-mean").with_(num_walks=64, length=2, tree=(k, 64 // k)).widths == (k, 64)
