"""Tables 2 and 6: the paper's figures beside ours, from the same runs."""

from pathlib import Path

import pytest

import cawn
from cawn.paper.experiments import Request
from cawn.paper.published import PaperValue
from cawn.paper.results import Cell, Results
from cawn.paper.tables import Table2, Table6, accuracy, beside, table_runs
from paper_results import gather, row, trained


def test_our_figure_above_the_papers() -> None:
    ours = Cell(90.123, 1.0, 5)
    assert beside(ours, PaperValue(95.25, 0.3)) == "90.12 ± 1.00<br>(95.25 ± 0.30)"
    assert beside(ours, None, 90.123) == "**90.12 ± 1.00**"
    assert beside(None, PaperValue(95.25, 0.3)) == "(95.25 ± 0.30)"
    assert beside(None, None) == ""


def test_metrics_are_means_over_batches_against_random_negatives() -> None:
    rows = [row(0.5) | {"auc_batch30": 0.9}, row(0.1, negatives="historical"), row(0.2, clock="event")]
    results = gather(trained("CAW-N-mean", *rows))
    assert accuracy(results, "CAW-N-mean", "uci", "transductive", "auc") == Cell(90.0, None, 1)
    assert accuracy(results, "CAW-N-mean", "uci", "new-new", "auc") is None
    assert accuracy(results, "CAW-N-attn", "uci", "transductive", "auc") is None


def test_all_networks_of_the_paper_keep_their_column() -> None:
    section = Table2().show(gather(trained("rates", row(0.9)), trained("NAT", row(0.8), network="flights")))
    assert section is not None
    assert [table.title.split()[0] for table in section.tables] == ["new-new", "new-old", "transductive"]
    headings, rows = section.tables[2].headings, section.tables[2].rows
    assert headings[1:] == ["Reddit", "Wikipedia", "MOOC", "Social Evolution", "Enron", "UCI", "Flights"]
    found = {row[0]: row[1:] for row in rows}
    assert found["rates"] == ["", "", "", "", "", "**90.00**", ""]
    assert found["TGAT"][0] == "(96.65 ± 0.06)"
    assert "GraphMixer" not in found  # neither ours nor the paper's
    assert "CAW-N large" not in found  # ours, not measured
    assert "Number of seeds: other systems 1." in section.text[1]
    assert Table6().show(gather()) is None


def test_different_splits_are_refused() -> None:
    results = gather(trained("rates", row(0.9)), trained("counts", row(0.9, split="other"), seed=1))
    with pytest.raises(cawn.QueryError, match="different splits"):
        Table2().show(results)


def test_both_tables_have_the_same_runs() -> None:
    links = cawn.laws.triadic_closure(20, 60, seed=0).events
    request = Request({"uci": links}, 2, Results(Path("none")), systems=("rates",))
    plan = Table2().plan(request)
    assert [one.label for one in plan] == [
        *(f"rates, transductive, seed {seed}" for seed in range(2)),
        *(f"rates, inductive, seed {seed}" for seed in range(4)),
    ]
    assert Table6().plan(request) == plan
    assert plan[0].settings["baselines"]


def test_a_run_in_two_rows_counts_once() -> None:
    run = trained("CAW-N default", row(0.9))
    run.labels.append(run.labels[0].replace("default", "large"))
    assert table_runs(gather(run)) == [run]
