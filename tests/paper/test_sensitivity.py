"""The sensitivity to M, alpha and m on results made by hand, and the measurements that are planned."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from cawn.caw.config import Config
from cawn.data import laws
from cawn.data.events import Events
from cawn.learn.plots import to_svg
from cawn.learn.shared_links import write_links
from cawn.learn.splits import split
from cawn.paper.experiments import Request, Section
from cawn.paper.measurements import Task
from cawn.paper.results import Result
from cawn.paper.sensitivity import BEST, Sensitivity, read_sensitivities, values_of
from cawn.paper.training import measure
from paper_results import gather, result, row, searched, trained

TAU = 4e-5
BASE = {"num_walks": 64, "length": 2, "alpha": 8e-6, "lr": 0.001}
SPREAD = (0.0, 0.02, -0.02)  # of the split: the same for every value


def runs(auc: float, label: str = BEST, **config: object) -> list[Result]:
    settings = BASE | config
    alpha = TAU / 5 if settings["alpha"] == "paper" else settings["alpha"]
    found = []
    for seed, spread in enumerate(SPREAD):
        own = Random(f"{label}, {seed}").uniform(-1e-4, 1e-4)  # of the run
        one = trained(
            label, row(auc + spread + own, split=f"s{seed}"), task="inductive", seed=seed, config=dict(settings)
        )
        found.append(replace(one, value=one.value | {"facts": {"alpha": [alpha]}}))
    return found


def walks(**auc: float) -> list[Result]:
    return [
        one
        for name, value in auc.items()
        for one in runs(value, f"sensitivity, M = {name[1:]}", num_walks=int(name[1:]))
    ]


def decays(values: dict[object, float]) -> list[Result]:
    return [one for alpha, auc in values.items() for one in runs(auc, f"sensitivity, alpha = {alpha}", alpha=alpha)]


def show(*results: Result) -> Section:
    section = Sensitivity().show(gather(*results))
    assert section is not None
    return section


def test_the_gain_saturates() -> None:
    text = show(*runs(0.939), *walks(M8=0.8, M16=0.9, M32=0.93, M128=0.9391)).text[-1]
    assert "M = 128 is the best; M = 64 is not clearly worse." in text
    assert "AUC changes by +9.99" in text
    assert "that the gain saturates is confirmed" in text


def test_the_gain_grows() -> None:
    text = show(*runs(0.85), *walks(M8=0.8, M16=0.81, M32=0.82, M128=0.95)).text[-1]
    assert "M = 128 is the best; all smaller values are clearly worse." in text
    assert "that the gain saturates is contradicted" in text


def test_more_walks_do_not_help() -> None:
    text = show(*runs(0.85), *walks(M8=0.9, M16=0.89, M32=0.87)).text[-1]
    assert "M = 8 is the best; it is the smallest." in text


def test_the_paper_is_right_about_alpha() -> None:
    section = show(*runs(0.938), *decays({0.0: 0.8, "paper": 0.9385, 8e-7: 0.9, 8e-5: 0.88}))
    text = section.text[-1]
    assert "tau is 4e-05 on the training links (3.59e-05 in the paper's Table 1)." in text
    assert "alpha = 8e-06 is the best (tau / alpha: 5)." in text
    assert "The paper's tau / alpha = 5 is the best." in text
    assert "The claim that alpha = 0 (uniform sampling) is worse is confirmed (-13.8" in text
    assert "The claim that alpha = 8e-05 is worse is confirmed (-5." in text
    table = next(table for table in section.tables if table.title == "UCI: alpha")
    assert [cells[1] for cells in table.rows] == ["infinite", "50", "5", "5", "0.5"]


def test_the_paper_is_wrong_about_alpha() -> None:
    text = show(*runs(0.9), *decays({0.0: 0.95, "paper": 0.9, 8e-7: 0.9501, 8e-5: 0.85})).text[-1]
    assert "alpha = 8e-07 is the best (tau / alpha: 50)." in text
    assert "Values from 0 to 8e-07 are not clearly worse (tau / alpha: infinite to 50)." in text
    assert "The claim that alpha = 0 (uniform sampling) is worse is undecided" in text
    assert "The paper's tau / alpha = 5 is clearly worse than the best (-5.0" in text
    text = show(*runs(0.9), *decays({0.0: 0.95, "paper": 0.9})).text[-1]
    assert "The claim that alpha = 0 (uniform sampling) is worse is contradicted: it is the best." in text


def test_the_best_length() -> None:
    def text(**auc: float) -> str:
        others = [runs(value, f"sensitivity, {name}", length=int(name[1:])) for name, value in auc.items()]
        return show(*runs(0.93), *(one for some in others for one in some)).text[-1]

    assert "m = 2 is the best, inside the range measured; all others are clearly worse." in text(m1=0.9, m3=0.92)
    found = text(m1=0.9, m3=0.93002)
    assert "m = 3 is the best, at an end of the range measured; not clearly worse: m = 2." in found


def test_runs_of_other_best_settings_are_left_out() -> None:
    old = list(runs(0.99, "sensitivity, M8", num_walks=8, lr=0.1))
    section = show(*runs(0.9), *old)
    assert [len(table.rows) for table in section.tables] == [1, 1, 1]
    assert Sensitivity().show(gather(*old)) is None


def test_the_plot_has_both_axes() -> None:
    section = show(*runs(0.93), *decays({0.0: 0.8, "paper": 0.938, 8e-7: 0.9, 8e-5: 0.88}), *walks(M8=0.8))
    svg = to_svg(section.plots[0].draw, section.plots[0].size)
    assert all(text in svg for text in ("tau / alpha", "alpha = 0", ">M<", ">m<"))
    to_svg(show(*runs(0.93)).plots[0].draw, (9, 3))


@pytest.fixture
def events() -> Events:
    return Events([0, 1, 2, 0], [1, 2, 3, 3], [0, 10, 20, 80])  # tau = 2 * 4 / 4 / 80


def test_values_of_alpha_lie_around_the_best(events: Events) -> None:
    found = values_of("alpha", Config(alpha=3e-6), events)
    assert found[:2] == [0.0, "paper"]
    assert found[2:] == pytest.approx([1e-7, 3e-7, 1e-6, 3e-6, 9e-6, 3e-5, 9e-5])
    assert values_of("alpha", Config(alpha="paper"), events)[5] == pytest.approx(0.025 / 5)
    assert values_of("alpha", Config(alpha=0.0), events)[5] == pytest.approx(0.025 / 5)
    assert values_of("length", Config(), events) == [1, 2, 3, 4, 5]


def test_plan_varies_one_setting_at_a_time(events: Events) -> None:
    best = {"num_walks": 32, "alpha": 3e-6, "length": 1}
    found = Sensitivity().plan(Request({"uci": events}, 1, gather(searched(**best)), {"epochs": 2}))
    assert len(found) == 2 * (1 + 4 + 8 + 4)
    assert len({one.label for one in found}) == len({one.key({"uci": "d"}) for one in found}) == len(found)
    for one in found:
        config = one.settings["config"]
        assert config["epochs"] == 2
        assert sum(config[name] != value for name, value in best.items()) == (not one.label.startswith(BEST))


def test_tau_is_that_of_the_training_links(tmp_path: Path) -> None:
    events = laws.triadic_closure(30, 400, seed=0).events
    write_links(tmp_path / "links", events)
    changes = {"epochs": 1, "dim": 8, "num_walks": 4, "batch_size": 128, "alpha": "paper"}
    first, *_ = Sensitivity().plan(Request({"uci": events}, 1, gather(), changes))
    task = Task("uci", dict(first.settings), {"uci": str(tmp_path / "links")}, "cpu", 1, tmp_path / "run")
    made = result("training", first.label, measure(task, lambda _: None), dict(first.settings))
    found = read_sensitivities(gather(made), "uci", made)
    assert found.tau == pytest.approx(events[split(events, "inductive", seed=0).train].intensity)
    assert found.ratio(found.curves["alpha"].best) == "5"
