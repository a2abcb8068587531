"""How much each parameter matters for the value of a trial."""

from __future__ import annotations

from cawn.studies.tuning.journal import import_optuna, quiet_optuna
from cawn.studies.tuning.plan import SearchPlan
from cawn.studies.tuning.trials import Trial

FEWEST = 4  # complete trials


def importances(plan: SearchPlan, trials: list[Trial]) -> dict[str, float]:
    """The importance of each parameter, from 0 to 1, summing to 1, by PED-ANOVA on the complete trials.

    Empty if these are too few, or do not differ. Parameters that not all of them have are left out.
    """
    optuna = import_optuna()
    used = [trial for trial in trials if trial.state == "complete" and trial.value is not None]
    names = [each.name for each in plan.space if sum(each.name in trial.parameters for trial in used) >= FEWEST]
    used = [trial for trial in used if all(name in trial.parameters for name in names)]
    if len(used) < FEWEST or not names or len({trial.value for trial in used}) < 2:
        return {}
    distributions = {each.name: each.distribution(optuna) for each in plan.space if each.name in names}
    with quiet_optuna():
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
        for trial in used:
            parameters = {name: trial.parameters[name] for name in names}
            made = optuna.trial.create_trial(value=trial.value, params=parameters, distributions=distributions)
            study.add_trial(made)
        try:
            evaluator = optuna.importance.PedAnovaImportanceEvaluator()
            found = optuna.importance.get_param_importances(study, evaluator=evaluator)
        except (RuntimeError, ValueError, ZeroDivisionError):  # too few trials that differ
            return {}
    return {name: float(value) for name, value in found.items() if value == value}
