"""Clocks: ties counted on links written by hand; the section on results made by hand."""

from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.learn.shared_links import share_links
from cawn.paper.clocks import Clocks, gain, readings, shares_of_ties, tie_shares
from cawn.paper.experiments import Request, Section
from cawn.paper.measurements import Task, measure
from cawn.paper.results import Result, Results
from cawn.paper.training import measure as train
from networks import random_events
from paper_results import gather, result, row, trained

INDUCTIVE = {"task": "inductive", "network": "enron"}


def clocked(label: str, strict: float, event: float, batch: float, **settings: object) -> Result:
    """A training with these APs by the three clocks; MRR is half of AP."""
    by_clock = {"strict": strict, "event": event, "batch:200": batch}
    rows = [
        row(ap, links=links, clock=clock, mrr=ap / 2) for links in ("all", "new-new") for clock, ap in by_clock.items()
    ]
    return trained(f"clocks, {label}", *rows, **settings)


def by_rows(auc: float, **settings: object) -> Result:
    rows = [row(auc, links=links, split="rows") for links in ("all", "new-new")]
    return trained("clocks, CAW-N-mean, ties by rows", *rows, ties="rows", **settings)


def show(*results: Result) -> Section:
    section = Clocks().show(gather(*results))
    assert section is not None
    return section


def test_ties_of_links_written_by_hand() -> None:
    src = np.array([0, 0, 1, 0, 2, 2, 3])
    dst = np.array([1, 1, 2, 2, 3, 3, 4])
    t = np.array([1, 1, 1, 2, 3, 3, 3])
    shares = shares_of_ties(cawn.Events(src, dst, t))
    assert shares["simultaneous"].tolist() == [True, True, True, False, True, True, True]
    assert shares["repeated"].tolist() == [False, True, False, False, False, True, False]
    # The last time of nodes 0 and 1 is 2 and 1, that of 2, 3 and 4 is 3. Node 1 occurs in rows 0 to 2 at time 1.
    assert shares["last"].tolist() == [False, True, True, False, False, True, True]


def test_ties_agree_with_a_slow_count() -> None:
    events = random_events(3, num_links=80, span=12)
    links = list(zip(events.src.tolist(), events.dst.tolist(), events.t.tolist(), strict=True))
    last = {node: max(t for u, v, t in links if node in (u, v)) for u, v, _ in links for node in (u, v)}
    shares = shares_of_ties(events)
    for i, (u, v, t) in enumerate(links):
        assert shares["simultaneous"][i] == any(j != i and links[j][2] == t for j in range(len(links)))
        assert shares["repeated"][i] == ((u, v, t) in links[:i])
        assert shares["last"][i] == any(
            t == last[node] and any(link[2] == t and node in link[:2] for link in links[:i]) for node in (u, v)
        )


def test_ties_are_counted_for_every_split(tmp_path: Path) -> None:
    links = share_links(tmp_path, "uci", random_events(1, num_nodes=40, num_links=300, span=100))
    settings = {"seeds": {"transductive": 2, "inductive": 2}}
    rows = measure("ties", Task("uci", settings, {"uci": links}, "cpu", 1, tmp_path), lambda _: None)
    places = [(one["task"], one["seed"], one["links"]) for one in rows]
    assert places[0] == ("transductive", 0, "all")
    assert {place[:2] for place in places[1:]} == {("inductive", 0), ("inductive", 1)}
    ties = result("ties", "clocks, ties", rows, {})
    assert "have the same time as another link" in tie_shares(gather(ties), "uci")[0]
    assert tie_shares(gather(), "uci") == []


def test_differences_are_paired_by_seed() -> None:
    runs = [clocked("TGN", ap, ap + 0.01, ap - 0.02, seed=seed) for seed, ap in enumerate((0.5, 0.9))]
    gained = gain(runs, runs, "ap", ("event", "strict"), links="all", negatives="random")
    assert gained is not None
    assert (gained.mean, gained.half, gained.seeds) == (pytest.approx(1.0), pytest.approx(0.0, abs=1e-9), 2)
    assert gain(runs[:1], runs[1:], "ap", ("event", "strict"), links="all") is None


def test_what_each_clock_is_worth() -> None:
    runs = [clocked("TGN", ap, ap + 0.01, ap - 0.02, seed=seed) for seed, ap in enumerate((0.5, 0.7))]
    section = show(*runs, clocked("rates", 0.9, 0.9, 0.9))
    assert section.tables[0].rows == [
        ["TGN, transductive", "60.00 ± 127.06", "61.00 (+1.00 ± 0.00)", "58.00 (-2.00 ± 0.00)"],
        ["rates, transductive", "90.00", "90.00 (+0.00)", "90.00 (+0.00)"],
    ]
    text = "\n".join(section.text)
    assert "Trained with random negatives only: TGN, rates." in text
    assert "event changes AP by +0.00 (rates) to +1.00 (TGN) points (clear for 1 of 2 systems)" in text
    assert "batch:200 changes AP by -2.00 (TGN) to +0.00 (rates) points" in text
    assert "MRR by -1.00 (TGN) to +0.00 (rates) points" in text


@pytest.mark.parametrize(
    ("strict", "rows", "words"),
    [
        ((0.94, 0.95), (0.96, 0.97), "closes 100 % of the gap of 1.93 points"),
        ((0.92, 0.93), (0.93, 0.94), "closes 25 % of the gap of 3.93 points"),
        ((0.92, 0.93), (0.91, 0.92), "closes none of the gap of 3.93 points"),
        ((0.92, 0.93), (0.91, 0.99), "is not clear from 2 seeds"),
        ((0.97, 0.98), (0.98, 0.99), "With the strict clock, AUC is not below the paper's"),
    ],
)
def test_whether_ties_explain_the_papers_value(
    strict: tuple[float, float], rows: tuple[float, float], words: str
) -> None:
    runs = [clocked("CAW-N-mean", auc, auc, auc, seed=seed, **INDUCTIVE) for seed, auc in enumerate(strict)]
    runs += [by_rows(auc, seed=seed, **INDUCTIVE) for seed, auc in enumerate(rows)]
    section = show(*runs)
    assert next(line for line in section.text if line.startswith("Enron, new-new")).endswith(f"{words}.")
    table = section.tables[-1]
    assert table.rows[0][:2] == ["Enron, new-new, CAW-N-mean", "96.43 ± 0.39"]
    assert table.rows[0][5].endswith(" *")
    assert "splits differ" in table.note


def test_no_words_about_readings_without_trainings_by_rows() -> None:
    section = show(clocked("CAW-N-mean", 0.9, 0.9, 0.9))
    assert readings(gather(clocked("CAW-N-mean", 0.9, 0.9, 0.9)), "uci") == []
    assert not any("depend on how ties" in line for line in section.text)
    assert Clocks().show(gather()) is None


def test_the_share_that_the_authors_code_reads_by_rows() -> None:
    rows = [
        {"task": "inductive", "seed": seed, "links": "new-new", "count": count, "last": last}
        for seed, count, last in ((0, 30, 0.1), (1, 10, 0.5))
    ]
    found = gather(
        clocked("CAW-N-mean", 0.9, 0.9, 0.9, **INDUCTIVE),
        by_rows(0.9, **INDUCTIVE),
        result("ties", "clocks, ties", rows, {}, "enron"),
    )
    assert readings(found, "enron")[0].last == pytest.approx(0.2)


def test_the_plan() -> None:
    request = Request({"uci": random_events(0)}, 1, gather(), {"epochs": 1}, ("paper-mean", "rates"))
    planned = Clocks().plan(request)
    assert [one.label for one in planned] == [
        "clocks, ties",
        "clocks, CAW-N-mean, transductive, seed 0",
        "clocks, CAW-N-mean, ties by rows, transductive, seed 0",
        *(f"clocks, CAW-N-mean{ties}, inductive, seed {seed}" for seed in (0, 1) for ties in ("", ", ties by rows")),
        "clocks, rates, transductive, seed 0",
        "clocks, rates, inductive, seed 0",
        "clocks, rates, inductive, seed 1",
    ]
    assert all(one.settings["config"]["epochs"] == 1 for one in planned[1:])
    assert {tuple(one.settings["clocks"]) for one in planned if one.settings.get("ties") == "strict"} == {
        ("strict", "event", "batch:200")
    }
    assert len(Clocks().plan(Request({"uci": random_events(0)}, 1, gather()))) == 1 + 3 * 7


def test_the_plot_is_drawn() -> None:
    figures = pytest.importorskip("matplotlib.figure")
    figure = figures.Figure()
    show(clocked("TGN", 0.5, 0.6, 0.4), clocked("rates", 0.5, 0.6, 0.4)).plots[0].draw(figure)
    assert [line.get_label() for line in figure.axes[0].lines] == ["TGN", "rates"]


def test_one_training_is_evaluated_by_three_clocks(tmp_path: Path) -> None:
    request = Request({"uci": random_events(0)}, 1, Results(tmp_path), {"epochs": 1, "hidden": 4}, ("rates",))
    planned = Clocks().plan(request)[1]
    links = {"uci": share_links(tmp_path, "uci", random_events(1, num_nodes=20, num_links=300, span=60))}
    task = Task("uci", dict(planned.settings), links, "cpu", 1, tmp_path / "run")
    value = train(task, lambda _: None)
    assert [one["clock"] for one in value["rows"]] == ["strict", "event", "batch:200"]
    assert all("baselines" not in one for one in value["rows"])
