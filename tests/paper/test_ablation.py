"""Table 3 on results made by hand: what it says follows the numbers, and the opposite numbers the other way."""

import pytest

import cawn
from cawn.caw.config import Config
from cawn.learn.plots import to_svg
from cawn.paper.ablation import ADDITIONS, ORIGINAL, PAPER_ROWS, ROWS, Ablated, Ablation
from cawn.paper.experiments import Request, Section
from cawn.paper.published import published
from cawn.paper.report import missing_networks
from cawn.paper.results import Result
from paper_results import gather, row, trained

SEEDS = 3
NOISE = (0.0, 0.02, -0.02)  # of the split: the same in every row
OWN = (0.0, 0.0002, -0.0002)  # of the run
PAPER = {
    name: values["uci"][0] / 100 for name, values in zip(PAPER_ROWS, published()["ablation"].values(), strict=True)
}


def runs(means: dict[str, float], preset: str = "paper-mean", network: str = "uci", **more: float) -> list[Result]:
    """Runs with these mean AUC; `more` are those against historical negatives."""
    found = []
    for number, (name, auc) in enumerate(means.items()):
        config = Config.preset(preset).with_(**ROWS[preset][name]).to_dict()
        for seed in range(SEEDS):
            own = NOISE[seed] + OWN[(seed + number) % 3]
            rows = [
                row(auc + own, split=f"s{seed}"),
                row(more.get(name, auc) + own, negatives="historical", split=f"s{seed}"),
            ]
            label = f"ablation, {preset}, {name}"
            found.append(trained(label, *rows, network=network, task="inductive", seed=seed, config=config))
    return found


def show(*results: Result) -> Section:
    section = Ablation().show(gather(*results))
    assert section is not None
    return section


def test_the_paper_is_confirmed() -> None:
    section = show(*runs(PAPER))
    ranking = (
        "UCI: the paper's ranking of the rows is confirmed; the difference is clear for 15 of 15 pairs of rows. All"
    )
    assert any(text.startswith(ranking) for text in section.text)
    claims, table, *_ = section.tables
    assert [cells[1].split("<br>")[0] for cells in claims.rows] == ["confirmed"] * 6
    ours = {cells[0]: dict(zip(table.headings, cells, strict=True)) for cells in table.rows}
    assert ours[ORIGINAL]["UCI"].startswith("91.88 ± ")
    assert ours[ORIGINAL]["UCI"].endswith("<br>(91.88 ± 0.26)")
    difference = table.rows[1][1 + table.headings[1:].index("UCI") + 1]
    assert difference.startswith("-12.43 ± 0.")
    assert difference.endswith("<br>(-12.43)")


def test_the_opposite_numbers_contradict_the_paper() -> None:
    section = show(*runs({name: 1.4 - auc for name, auc in PAPER.items()}))
    order = next(text for text in section.text if text.startswith("UCI"))
    assert "ranking of the rows is not confirmed; the difference is clear for 15 of 15 pairs of rows. Unlike" in order
    assert order.count(" is above ") == 15
    assert "'remove f1' is above 'original' (+12.43 ± 0.0" in order
    assert "'remove f1' is above 'alpha = 0' (+0.99 ± 0.09; the paper's own intervals overlap)" in order
    assert [cells[1].split("<br>")[0] for cells in section.tables[0].rows] == ["contradicted"] * 6


def test_one_pair_in_the_other_order() -> None:
    order = next(t for t in show(*runs(PAPER | {"alpha = 0": 0.79})).text if t.startswith("UCI"))
    assert order.endswith(
        "is not confirmed; the difference is clear for 15 of 15 pairs of rows. Unlike in the paper, 'remove f1' is "
        "above 'alpha = 0' (+0.45 ± 0.09; the paper's own intervals overlap)."
    )
    order = next(t for t in show(*runs(PAPER | {"alpha = 0": 0.7943})).text if t.startswith("UCI"))
    assert "is confirmed as far as the differences are clear; the difference is clear for 14 of 15 pairs" in order
    assert "'remove f1' is above 'alpha = 0' (+0.02" in order


def test_differences_within_the_interval_decide_nothing() -> None:
    section = show(*runs(dict.fromkeys(PAPER_ROWS, 0.9)))
    assert {cells[1].split("<br>")[0] for cells in section.tables[0].rows} == {"undecided"}
    assert any("ranking of the rows is undecided; the difference is clear for 0 of 15" in text for text in section.text)


def test_rows_that_are_missing() -> None:
    few = {name: PAPER[name] for name in (ORIGINAL, "remove f1")}
    section = show(*runs(few))
    assert any(
        "as far as the differences are clear; the difference is clear for 1 of 1 pair " in t for t in section.text
    )
    assert Ablation().show(gather()) is None
    assert Ablation().show(gather(*runs({"remove f1": 0.9}))) is None


def test_networks_without_results_keep_their_column() -> None:
    section = show(*runs(PAPER))
    table = section.tables[1]
    assert table.headings == ["", "UCI", "difference", "Wikipedia", "difference", "Social Evolution", "difference"]
    assert table.rows[0][5] == "<br>(91.97 ± 0.23)"
    assert (
        "cawn paper ablation --datasets socialevolve"
        in missing_networks(gather(), "ablation", section)["Social Evolution"]
    )


def test_parts_matter_more_without_attributes() -> None:
    def claim(wikipedia: float, uci: float) -> list[str]:
        rows = dict(zip(PAPER_ROWS, (0.95, 0.9, 0.9, 0.9, 0.9), strict=False))
        lost = [
            runs(rows | {"remove f1 and f2": 0.9 - 4 * more}, network=network)
            for network, more in (("wikipedia", wikipedia), ("uci", uci))
        ]
        return [text for text in show(*lost[0], *lost[1]).text if "that f1 and f2 matter more" in text]

    assert "(UCI) than with them (Wikipedia) is confirmed (+2.00 ± 0.0" in claim(0.0, 0.02)[0]
    assert "(UCI) than with them (Wikipedia) is contradicted (-2.00 ± 0.0" in claim(0.02, 0.0)[0]
    assert not any("matter more" in text for text in show(*runs(PAPER)).text)


def test_a_network_that_the_paper_does_not_have() -> None:
    section = show(*runs(PAPER, network="enron"))
    assert not any(text.startswith("Enron") for text in section.text)
    assert section.tables[0].headings == ["claim", "Enron"]


def test_what_each_addition_adds() -> None:
    names = [f"without {name}" for name in ADDITIONS]
    means = {ORIGINAL: 0.95} | dict.fromkeys(names, 0.95) | {"without rates": 0.93, "without degree": 0.96}
    better = means | {"without rates": 0.89}
    historical = {"without rates": 0.97}
    results = [*runs(means, "default", **historical), *runs(better, "default", "enron", **historical)]
    section = show(*results)
    random, against_historical = (text for text in section.text if text.startswith("Gain in AUC"))
    assert "averaged over Enron, UCI (random negatives" in random
    assert "clearly better: rates +4.00 ± 0.0" in random
    assert "clearly worse: degree -1.00 ± 0.0" in random
    assert "no clear difference: " in random
    assert "direction" in random
    assert "clearly worse: degree -1.00 ± 0.00, rates -2.00 ± 0.0" in against_historical
    table = section.tables[-2]
    assert table.headings == ["", "Enron", "UCI", "mean"]
    assert [text.split(" ")[0] for text in table.rows[0][1:]] == ["+6.00", "+2.00", "+4.00"]


def test_runs_of_an_earlier_grid_search_are_left_out() -> None:
    old = runs({ORIGINAL: 0.5, "remove f1": 0.9})[1:]
    old = [one for one in old if one.settings["seed"] > 0]
    for one in old:
        one.settings["config"]["lr"] = 0.5
    new = [one for one in runs({ORIGINAL: 0.9, "remove f1": 0.8}) if one.settings["seed"] == 0]
    found = Ablated(gather(*old, *new), "paper-mean")
    assert len(found.used) == 2
    gain = found.gain("uci", ORIGINAL, "remove f1")
    assert gain is not None
    assert gain.seeds == 1
    assert gain.mean == pytest.approx(10, abs=0.1)


def test_different_splits_are_refused() -> None:
    results = runs(PAPER)
    results[-1].value["rows"][0]["split"] = "other"
    with pytest.raises(cawn.QueryError, match="different splits"):
        show(*results)


def test_the_plot_has_a_panel_per_network() -> None:
    section = show(*runs(PAPER), *runs(PAPER, network="enron"))
    (plot,) = section.plots
    svg = to_svg(plot.draw, plot.size)
    assert all(text in svg for text in ("Enron", "UCI", "alpha = 0"))


def test_plan() -> None:
    def plan(**more: object) -> list:
        return Ablation().plan(Request({"uci": None}, 1, gather(), **more))  # type: ignore[dict-item, arg-type]

    found = plan(changes={"epochs": 2})
    assert len(found) == 2 * (6 + 6 + 7)  # two seeds
    assert len({one.label for one in found}) == len({one.key({"uci": "d"}) for one in found}) == len(found)
    assert {one.settings["config"]["epochs"] for one in found} == {2}
    by_label = {one.label: one.settings["config"] for one in found}
    assert by_label["ablation, paper-mean, alpha = 0, inductive, seed 1"]["alpha"] == 0
    assert by_label["ablation, default, without direction, inductive, seed 0"]["sides"] == "symmetric"
    assert len(plan(systems=("paper-mean",))) == 2 * 6
