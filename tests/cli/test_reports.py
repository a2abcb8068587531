"""Results, rankings and suggestions as they are printed."""

import io
import shlex

import numpy as np
import pytest
from rich.console import Console

import cawn
from cawn.cli.reports import example_link, run_state, show_next, show_ranking, show_results
from networks import random_events
from small_results import a_test, results


def test_the_suggested_node_and_partner_have_earlier_links() -> None:
    """The last link of this network is between two nodes that appear nowhere else."""
    old = random_events(3, num_nodes=20, num_links=400, span=1000)
    events = cawn.Events(np.append(old.src, 20), np.append(old.dst, 21), np.append(old.t, 2_000))
    link = example_link(events)
    assert link is not None
    history = cawn.History(events, 0.0)
    assert (history.degree([events.src[link], events.dst[link]], events.t[link]) >= 5).all()
    assert events.src[link] != events.dst[link]
    console = Console(file=io.StringIO(), width=200)
    show_next("runs/my run", events, console)
    rank = next(line for line in console.file.getvalue().splitlines() if "cawn rank" in line)
    words = shlex.split(rank)
    assert words[2] == "runs/my run"
    assert words[words.index("--node") + 1] == str(events.src[link])
    assert words[words.index("--time") + 1] == str(events.t[link])


@pytest.mark.parametrize(
    "events",
    [
        cawn.Events([], [], []),
        cawn.Events([0, 2], [1, 3], [5, 5]),
        cawn.Events([0, 2, 4], [1, 3, 5], [1, 2, 3]),
        cawn.Events([0, 0, 0], [1, 1, 1], [1, 2, 3], labels=["a\x1b[31m", "b"]),
    ],
)
def test_nothing_is_suggested_where_nothing_makes_sense(events: cawn.Events) -> None:
    assert example_link(events) is None
    console = Console(file=io.StringIO())
    show_next("run", events, console)
    assert "cawn rank" not in console.file.getvalue()
    assert "cawn predict run" in console.file.getvalue()


def test_escape_sequences_in_names_do_not_reach_the_terminal() -> None:
    from cawn.rankings import Ranked

    console = Console(file=io.StringIO(), width=80)
    show_ranking([Ranked("\x1b[2Jeve\x07", 0.5, "given")], console)
    assert "\x1b" not in console.file.getvalue()
    assert "\\x1b[2Jeve\\x07" in console.file.getvalue()


def test_figures_fit_a_narrow_terminal_beside_notes_on_negatives() -> None:
    figures = {f"{key}{batch}": 0.5 for key in ("auc", "ap") for batch in ("", "_batch30")}
    about = {"protocol": "paper", "fallback": 0.1, "linked": 0.2, "trained_with": "own, pairs", "model": figures}
    test = a_test(baselines={"rates only": figures, "counts": figures}, **about)
    output = io.StringIO()
    show_results(results(test), console=Console(file=output, width=80))
    shown = " ".join(output.getvalue().split())
    assert "…" not in shown
    assert "0.5000" in shown
    assert "all links: 10% of the negatives are random instead; 20% of the negatives are links at the same" in shown
    assert "model and rates only: trained with own, else random (9 in 16)" in shown


@pytest.mark.parametrize(
    ("finished", "refit_unfinished", "state"),
    [(True, False, "finished"), (True, True, "training on all links"), (False, True, "not finished; to resume")],
)
def test_the_state_of_a_run_includes_the_training_on_all_links(finished, refit_unfinished, state: str) -> None:
    found = run_state({"finished": finished, "refit_unfinished": refit_unfinished})
    assert state in found
    assert ("--resume" in found) == (state != "finished")
