"""The section about kinds of negatives, on results made by hand."""

import pytest

import cawn
from cawn.paper.experiments import Request
from cawn.paper.negatives import KindsOfNegatives, baseline_results
from cawn.paper.results import Result, Results, cell
from cawn.paper.tables import Table2
from paper_results import gather, row, trained

KINDS = ("random", "historical", "inductive")


def system(label: str, *ap: float, trained_with: str = "random", **settings: object) -> Result:
    """A training with AP against random, historical and inductive negatives."""
    rows = [row(value, negatives=kind) for kind, value in zip(KINDS, ap, strict=True)]
    return trained(label, *rows, config={"negatives": trained_with}, **settings)


def show(*results: Result) -> tuple[list[list[str]], str]:
    """The rows of the table of UCI, and the text."""
    section = KindsOfNegatives().show(gather(*results))
    assert section is not None
    return section.tables[0].rows, "\n".join(section.text)


def test_ap_for_each_kind_of_negatives() -> None:
    results = [
        system("CAW-N default", 0.97, 0.96, 0.9, trained_with="mixed"),
        system("TPNet", 0.98, 0.91, 0.8),
        system("TGN", 0.87, 0.79, 0.7),
    ]
    rows, text = show(*results)
    assert rows == [
        ["CAW-N default", "mixed", "97.00", "**96.00**", "**90.00**", "", "", ""],
        ["TGN", "random", "87.00", "79.00", "70.00", "", "", ""],
        ["TPNet", "random", "**98.00**", "91.00", "80.00", "", "", ""],
    ]
    assert "Trained with mixed negatives (a quarter are earlier destinations of the source): CAW-N default; " in text
    assert "trained with random negatives only: TGN, TPNet." in text
    assert (
        "TPNet has the highest AP against random negatives (98.00) and CAW-N default against historical ones (96"
        in text
    )
    assert "changes by -8.00 points (TGN) to -1.00 points (CAW-N default)" in text
    assert "TPNet is the best against historical ones, 5.00 points below CAW-N default" in text


def test_the_words_follow_opposite_numbers() -> None:
    rows, text = show(
        system("CAW-N default", 0.97, 0.9, 0.9, trained_with="mixed"),
        system("TPNet", 0.98, 0.99, 0.8),
    )
    assert rows[1][2:4] == ["**98.00**", "**99.00**"]
    assert "TPNet has the highest AP against random (98.00) and historical negatives (99.00)" in text
    assert "changes by -7.00 points (CAW-N default) to +1.00 points (TPNet)" in text
    assert "points below" not in text


def test_tasks_are_kept_apart() -> None:
    rows, text = show(
        system("TGN", 0.9, 0.8, 0.7), system("TGN", 0.6, 0.5, 0.4, task="inductive"), system("NAT", 0.8, 0.7, 0.6)
    )
    assert rows[0][5:] == ["**60.00**", "**50.00**", "**40.00**"]
    assert rows[1][5:] == ["", "", ""]
    assert "Of the 2 systems and baselines in the transductive task, TGN" in text
    assert "in the inductive task" not in text  # there is nothing to compare


def test_untrained_baselines_come_from_the_runs_of_rates() -> None:
    figures = dict.fromkeys(("auc", "ap", "auc_batch30", "ap_batch30"), 0.95)
    rows, _ = show(
        system("TGN", 0.9, 0.8, 0.7),
        trained("rates", row(0.94, baselines={"recency": figures, "rates only": figures})),
    )
    assert [line[:3] for line in rows] == [
        ["TGN", "random", "90.00"],
        ["rates", "random", "94.00"],
        ["recency", "untrained", "**95.00**"],
    ]
    assert baseline_results([system("TGN", 0.9, 0.8, 0.7)], "recency")[0].value["rows"] == []


def test_means_over_seeds_refuse_other_splits() -> None:
    found = [system("TGN", 0.8, 0.8, 0.7), system("TGN", 0.9, 0.8, 0.7, seed=1)]
    mean = cell(found, "ap", negatives="random")
    assert mean is not None
    assert show(*found)[0][0][2] == f"**{mean}**"
    other = trained("TGN", row(0.9, split="other"), seed=1)
    with pytest.raises(cawn.QueryError, match="different splits"):
        show(found[0], other)


def test_nothing_to_show_without_results() -> None:
    assert KindsOfNegatives().show(gather()) is None


def test_the_measurements_are_those_of_table_2() -> None:
    events = cawn.Events([0, 1], [2, 3], [0, 1])
    request = Request({"uci": events}, 1, gather(), systems=("rates",))
    assert KindsOfNegatives().plan(request) == Table2().plan(request)


def test_the_plot_is_drawn() -> None:
    figures = pytest.importorskip("matplotlib.figure")
    section = KindsOfNegatives().show(gather(system("TGN", 0.9, 0.8, 0.7), system("NAT", 0.8, 0.9, 0.7)))
    assert section is not None
    figure = figures.Figure()
    section.plots[0].draw(figure)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["TGN", "NAT"]


def test_results_of_a_folder_are_accepted(tmp_path) -> None:
    results = Results(tmp_path)
    results.add(system("TGN", 0.9, 0.8, 0.7), {"digest": "d"})
    assert KindsOfNegatives().show(Results.read(tmp_path)) is not None
