"""A shared study: no trial is lost, doubled or changed, whenever a process is killed."""

import threading
from pathlib import Path
from typing import Any

import pytest

import cawn
from cawn.files import FolderLock
from cawn.studies.tuning import work
from cawn.studies.tuning.trials import KEPT, MAX_CRASHES, SharedStudy, projected_value, ranking, where_stopped
from small_study import Killed, Pretended, facts, killed, plan

pytest.importorskip("optuna")
TRIALS = 3


@pytest.fixture(autouse=True)
def no_power_failures(monkeypatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


def run(folder: Path, trials: int = TRIALS, **changes: Any) -> SharedStudy:
    folder.mkdir(exist_ok=True)
    given = plan(**{"epochs": 2} | changes)
    study = SharedStudy(folder, given)
    work(study, Pretended(given), trials, None, lambda _: None)
    return study


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> list[Any]:
    """The trials of a study that nothing stopped."""
    return facts(run(tmp_path_factory.mktemp("whole")))


def test_the_first_trial_is_the_preset(whole) -> None:
    assert whole[0]["config"] == plan(epochs=2).config
    assert whole[0]["parameters"] == {"lr": 3e-4, "hidden": 8, "counted": "since True, two_steps True"}
    assert len({str(each["config"]) for each in whole}) == TRIALS


def test_a_value_is_the_mean_over_seeds(whole) -> None:
    for each in whole:
        values = [each["seeds"][seed]["value"] for seed in (0, 1)]
        assert each["value"] == pytest.approx(sum(values) / 2)
        assert each["curve"][2] == values[0]  # after the last epoch of the first seed
        assert each["curve"][3] == pytest.approx((values[0] + values[1] - 0.01) / 2)  # after the first of the second


def test_killed_at_every_write(whole, tmp_path: Path) -> None:
    at = 0
    while True:
        at += 1
        folder = tmp_path / str(at)
        with killed(at, ("before", "within", "after")[at % 3]) as writes:
            try:
                run(folder)
            except Killed:
                pass
            else:
                assert 40 < writes[0] < at
                return
        assert facts(run(folder)) == whole, at


def test_further_trials_continue_the_same_sequence(whole, tmp_path: Path) -> None:
    run(tmp_path, 2)
    assert facts(run(tmp_path)) == whole
    assert facts(run(tmp_path, 2)) == whole  # fewer than there are


@pytest.mark.parametrize("lines", [0, 3], ids=["removed", "cut"])
def test_a_journal_that_lost_trials_is_refused(tmp_path: Path, lines: int) -> None:
    run(tmp_path, 2)
    journal = tmp_path / "study.journal"
    kept = journal.read_bytes().splitlines(keepends=True)[:lines]
    journal.write_bytes(b"".join(kept)) if lines else journal.unlink()
    with pytest.raises(cawn.StorageError, match=r"belongs to a trial that study\.journal does not have"):
        run(tmp_path, 2)


def test_a_running_trial_belongs_to_who_has_its_lock(tmp_path: Path) -> None:
    given = plan()
    first, second = SharedStudy(tmp_path, given), SharedStudy(tmp_path, given)
    mine, theirs = first.claim(9), second.claim(9)
    assert (mine.trial.number, theirs.trial.number) == (0, 1)
    mine.lock.release()
    again = second.claim(9)
    assert again.trial == mine.trial
    assert second.claim(2) is None
    again.lock.release()
    theirs.lock.release()


def test_a_trial_that_ends_while_it_is_claimed_is_not_run_again(tmp_path: Path, monkeypatch) -> None:
    study = SharedStudy(tmp_path, plan())
    theirs, look = study.claim(1), SharedStudy._found

    def end_after_the_first_look(self: SharedStudy) -> list[Any]:
        found = look(self)
        if theirs.lock._descriptor >= 0:
            monkeypatch.setattr(SharedStudy, "_found", look)
            study.complete(0, 0.5)
            theirs.lock.release()
        return found

    monkeypatch.setattr(SharedStudy, "_found", end_after_the_first_look)
    assert study.claim(1) is None
    assert study.trials()[0].value == 0.5


def test_several_processes_share_the_trials(tmp_path: Path) -> None:
    given = plan()
    SharedStudy(tmp_path, given)
    errors: list[BaseException] = []

    def join() -> None:
        try:
            work(SharedStudy(tmp_path, given), Pretended(given), 7, None, lambda _: None)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=join) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    found = SharedStudy(tmp_path, given).trials()
    assert [trial.number for trial in found] == list(range(7))
    assert {trial.state for trial in found} <= {"complete", "pruned"}
    assert len({str(trial.config) for trial in found}) == 7


def test_bad_trials_are_pruned(tmp_path: Path) -> None:
    found = run(tmp_path, 14, seeds=(0, 1, 2), epochs=6).trials()
    pruned = [trial for trial in found if trial.state == "pruned"]
    assert pruned
    assert all(trial.number >= 4 for trial in pruned)
    assert {(len(trial.seeds), max(trial.curve)) for trial in pruned} == {(0, 3)}  # after a third of the first training


def test_pruned_below_the_median_at_the_same_step(tmp_path: Path) -> None:
    study = SharedStudy(tmp_path, plan())  # two seeds of three epochs
    for first, second in ((0.9, 0.5), (0.8, 0.6), (0.7, 0.7), (0.6, 0.8)):
        number = study.claim(9).trial.number
        assert not any(study.report(number, step, first if step < 4 else second) for step in range(1, 7))
        study.complete(number, second)
    number = study.claim(9).trial.number
    assert not study.report(number, 1, 0.1)  # too early
    assert not study.report(number, 2, 0.75)
    assert study.report(number, 3, 0.74)
    assert not study.report(number, 4, 0.66)
    assert study.report(number, 5, 0.64)  # in its second seed
    assert not study.report(0, 5, 0.0)  # the preset is always trained to the end
    study.prune(number)
    trials = study.trials()
    assert (trials[number].state, trials[number].value) == ("pruned", 0.64)
    assert where_stopped(plan(), trials[number]) == "seed 1, epoch 2"
    assert projected_value(trials[number], trials) == pytest.approx(0.65 - 0.01)
    assert projected_value(trials[1], trials) == 0.6


def test_only_the_runs_of_the_best_are_kept(tmp_path: Path) -> None:
    study = run(tmp_path, 9)
    best = {trial.number for trial in ranking(study.trials())[:KEPT]} | {0}
    assert {int(path.name) for path in (tmp_path / "trials").iterdir()} == best


def test_runs_in_use_are_not_removed(tmp_path: Path) -> None:
    study = run(tmp_path, 9)
    folder = study.folder_of(next(n for n in range(9) if not study.folder_of(n).exists()))
    folder.mkdir()
    with FolderLock(folder):
        study.remove_weights()
        assert folder.exists()
    study.remove_weights()
    assert not folder.exists()


def test_a_trial_that_kills_its_process_again_and_again_has_failed(tmp_path: Path) -> None:
    study = SharedStudy(tmp_path, plan())
    study.claim(1).lock.release()
    for _ in range(MAX_CRASHES):
        assert study.trials()[0].state == "running"
        study.claim(1).lock.release()
    assert study.claim(1) is None
    assert (study.trials()[0].state, len(study.trials())) == ("failed", 1)
    with pytest.raises(cawn.QueryError, match="first trial, of the preset, failed: its process died 6 times"):
        study.claim(9)


def test_a_space_that_is_exhausted_ends_the_study(tmp_path: Path) -> None:
    from dataclasses import replace

    from cawn.studies.tuning.space import parse_space

    given = plan()
    given = replace(given, space=parse_space({"hidden": [4, 8, 16]}, given.config))
    study = SharedStudy(tmp_path, given)
    work(study, Pretended(given), 9, None, lambda _: None)
    assert study.claim(9) is None
    assert sorted(trial.config.hidden for trial in study.trials()) == [4, 8, 16]


def test_settings_that_contradict_each_other_fail_in_one_line(tmp_path: Path) -> None:
    from dataclasses import replace

    from cawn.studies.tuning.space import parse_space

    config = cawn.Config(num_walks=8, length=2, epochs=1)
    given = replace(plan(), config=config, space=parse_space({"tree": [[], [2, 2]]}, config))
    study = SharedStudy(tmp_path, given)
    study.complete(study.claim(1).trial.number, 0.5)
    claim = study.claim(2)
    found = Pretended(given).run(study, claim)
    assert found.state == "failed"
    assert "tree is (2, 2): give length=2 fan-outs whose product is num_walks=8" in found.reason
