"""Experiments: every one can be listed, and a request has twice as many seeds for inductive tasks."""

from pathlib import Path

from cawn.paper import EXPERIMENTS
from cawn.paper.experiments import Request
from cawn.paper.results import Results
from cawn.paper.variants import BY_NAME


def test_every_experiment_is_described() -> None:
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name
        assert experiment.title[0].isupper()
        assert "\n" not in experiment.title
        assert experiment.seeds >= 1
        assert set(experiment.options) <= {"--seeds", "--systems", "--trials", "--set"}
        assert experiment.systems or "--systems" not in experiment.options
        assert set(experiment.systems) <= set(BY_NAME)
        assert experiment.title.startswith("Beyond the paper") == experiment.beyond


def test_no_experiment_has_a_section_without_results() -> None:
    for experiment in EXPERIMENTS.values():
        assert experiment().show(Results(Path("none"))) is None


def test_seeds() -> None:
    request = Request({}, 3, Results(Path("none")))
    assert list(request.seeds_of("transductive")) == [0, 1, 2]
    assert list(request.seeds_of("inductive")) == [0, 1, 2, 3, 4, 5]
