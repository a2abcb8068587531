"""The systems that the tables compare, with their settings for each network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cawn import systems
from cawn.caw.config import Config
from cawn.checks import check_choice
from cawn.errors import QueryError, brief
from cawn.paper.experiments import Experiment, Request
from cawn.paper.results import Result, ResultStore
from cawn.systems.settings import Settings


class Variant(NamedTuple):
    """A row of the tables."""

    label: str
    system: str
    preset: str
    published: str = ""  # the row of the paper's tables to compare it with; "best": the better of its two variants
    own: bool = False  # whether it is a preset of CAW-N


VARIANTS = (
    Variant("CAW-N-mean", "cawn", "paper-mean", "CAW-N-mean", own=True),
    Variant("CAW-N-attn", "cawn", "paper-attn", "CAW-N-attn", own=True),
    Variant("CAW-N default", "cawn", "default", "best", own=True),
    Variant("CAW-N large", "cawn", "large", "best", own=True),
    Variant("TGAT", "tgat", "fast", "TGAT"),
    Variant("TGN", "tgn", "fast", "TGN"),
    Variant("JODIE", "jodie-original", "fast", "JODIE"),
    Variant("DyRep", "dyrep-original", "fast", "DyRep"),
    Variant("VGRNN", "vgrnn", "fast", "VGRNN"),
    Variant("EvolveGCN", "evolvegcn", "fast", "EvolveGCN"),
    Variant("DynAERNN", "dynaernn", "fast", "DynAERNN"),
    Variant("JODIE (as in TGN)", "jodie", "fast"),
    Variant("DyRep (as in TGN)", "dyrep", "fast"),
    Variant("GraphMixer", "graphmixer", "fast"),
    Variant("DyGFormer", "dygformer", "fast"),
    Variant("TPNet", "tpnet", "fast"),
    Variant("NAT", "nat", "fast"),
    Variant("counts", "counts", "default"),
    Variant("rates", "rates", "default"),
)
_SEARCHED, _NEARLY = ("paper-mean", "paper-attn"), 0.001  # presets of the grid search; difference in AP that is ignored
BY_NAME = {variant.preset if variant.own else variant.system: variant for variant in VARIANTS}  # as in --systems


def check_request(experiment: Experiment, names: tuple[str, ...] | None, changes: Mapping[str, Any]) -> None:
    """Refuse systems that an experiment does not have, and settings that none of its systems has."""
    for name in names or ():
        check_choice(name, "system", experiment.systems)
    known: set[str] = set()
    for name in names or experiment.systems or tuple(BY_NAME):
        known |= systems.settings_type(BY_NAME[name].system)().to_dict().keys()
    for name in changes:
        if name not in known:
            raise QueryError(
                f"--set {brief(name)}: no system that {experiment.name} trains has this setting; "
                "'cawn systems NAME' lists those of a system"
            )


def chosen_variants(request: Request) -> list[Variant]:
    """The variants that a user asks for."""
    if request.systems is None:
        return list(VARIANTS)
    return [BY_NAME[name] for name in request.systems]


def settings_of(variant: Variant, network: str, request: Request) -> Settings:
    """The settings of a variant on a network: its preset, changed by the grid search and then by the user."""
    kind = systems.settings_type(variant.system)
    config = kind.preset(variant.preset if variant.preset in kind.PRESETS else "default")
    changes = dict(tuned(request.results, network, variant.preset)) if variant.own else {}
    changes |= {name: value for name, value in request.changes.items() if name in config.to_dict()}
    return config.with_(**changes)


def tuned(results: ResultStore, network: str, preset: str) -> dict[str, Any]:
    """The settings that the grid search found for a preset of the paper; see `best_trial`."""
    trial = best_trial(results, network, preset)
    return {} if trial is None else dict(trial.settings["searched"])


def best_trial(results: ResultStore, network: str, preset: str) -> Result | None:
    """The cheapest of the trials whose validation AP is nearly the best.

    If this preset has not been searched, that of the other preset of the paper.
    """
    for name in dict.fromkeys((preset, *_SEARCHED)) if preset in _SEARCHED else ():
        trials = [
            one
            for one in results.all("trial")
            if (one.network, one.settings["preset"]) == (network, name) and not one.value.get("stopped")
        ]
        if trials:
            best = max(max(one.value["validation"]) for one in trials)
            near = [one for one in trials if max(one.value["validation"]) > best - _NEARLY]
            return min(near, key=_work)
    return None


def _work(trial: Result) -> int:
    """Roughly proportional to the time per link: M m d."""
    config = Config.preset(trial.settings["preset"]).with_(**trial.settings["searched"])
    return config.num_walks * config.length * config.dim


def paper_config(request: Request, network: str, preset: str = "paper-mean") -> Config:
    """The settings of a preset of the paper on a network, after the grid search."""
    config = settings_of(BY_NAME[preset], network, request)
    assert isinstance(config, Config)
    return config
