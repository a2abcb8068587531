"""One trial: what its value is, and what happens if it cannot be run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cawn
from cawn.learn import metrics
from cawn.studies.tuning.objective import Objective, metric_function
from cawn.studies.tuning.plan import SearchPlan
from cawn.studies.tuning.trials import SharedStudy
from small_study import Pretended, plan

pytest.importorskip("optuna")


def objective(network: cawn.Events, given: SearchPlan) -> Objective:
    return Objective(network, given, "cpu", 1)


def test_the_value_is_the_validation_ap_of_the_kept_weights(network, tmp_path: Path) -> None:
    given = plan(seeds=(4,))
    study = SharedStudy(tmp_path, given)
    claim = study.claim(1)
    with claim.lock:
        trial = objective(network, given).run(study, claim)
    trainer = cawn.Trainer(network, given.config, seed=4, device="cpu", threads=1, quiet=True)
    aps = [row["val_ap"] for row in trainer.fit_untested()]
    assert trial.value == max(aps)
    assert list(trial.curve.values()) == [max(aps[: n + 1]) for n in range(3)]
    assert trial.seeds[4]["epochs"] == 3
    assert not (claim.folder / "seed-4" / "results.json").exists()  # no test


@pytest.mark.parametrize("metric", ["mrr", "hits@10"])
def test_ranks_among_destinations_that_validation_may_know(metric: str, network) -> None:
    given = replace(plan(), task=cawn.Task("inductive"), metric=metric)
    trainer = cawn.Trainer(network, given.config, task="inductive", device="cpu", threads=1, quiet=True)
    value = metric_function(trainer, metric, 0)({})
    links = trainer.split.val
    hidden = np.flatnonzero(trainer.split.hidden)
    seen: list[Any] = []

    class Recording:
        def __call__(self, src, dst, t):
            seen.append(dst)
            return trainer_scorer(src, dst, t)

    trainer_scorer = trainer.system.scorer(trainer.visible)
    trainer.system.scorer = lambda _: Recording()
    assert metric_function(trainer, metric, 0)({}) == value
    (asked,) = seen
    assert not set(asked.tolist()) & set(hidden.tolist())
    asked = asked.reshape(len(links), 101)
    np.testing.assert_array_equal(asked[:, 0], network.dst[links])
    scores = trainer_scorer(
        *(np.repeat(column[links], 101) for column in (network.src,)), asked.ravel(), np.repeat(network.t[links], 101)
    ).reshape(asked.shape)
    ranks = metrics.ranks(scores[:, 0], scores[:, 1:])
    assert value == (metrics.mrr(ranks) if metric == "mrr" else metrics.hits(ranks, 10))


class Failing(Pretended):
    def __init__(self, given: SearchPlan, error: Exception) -> None:
        super().__init__(given)
        object.__setattr__(self, "error", error)

    def trainer(self, *arguments: Any) -> Any:
        raise self.error


def test_a_trial_that_fails_does_not_end_the_study(tmp_path: Path) -> None:
    given = plan()
    study = SharedStudy(tmp_path, given)
    first = study.claim(9)
    with first.lock, pytest.raises(cawn.DataError, match="too few links"):  # the preset cannot be trained
        Failing(given, cawn.DataError("too few links")).run(study, first)
    assert study.trials()[0].state == "running"
    first = study.claim(9)
    assert first.trial.number == 0
    second = study.claim(9)
    failed = Failing(given, cawn.QueryError("out of memory")).run(study, second)
    assert (failed.number, failed.state, failed.value, failed.reason) == (1, "failed", None, "out of memory")
    third = study.claim(9)
    with third.lock, pytest.raises(cawn.StorageError, match="No space left"):
        Failing(given, cawn.StorageError("No space left")).run(study, third)
    assert study.trials()[2].state == "running"
    assert study.claim(9).trial.number == 2


def test_lost_values_are_noticed(tmp_path: Path) -> None:
    given = plan(seeds=(0,))
    study = SharedStudy(tmp_path, given)
    claim = study.claim(1)
    Pretended(given).trainer(given.config, 0, claim.folder / "seed-0", lambda _: None).fit_untested()
    with pytest.raises(cawn.StorageError, match=r"seed-0\.json: missing or damaged; remove .*seed-0 to train"):
        Pretended(given).run(study, claim)
