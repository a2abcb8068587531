"""Systems to train and compare: what they share, the simple ones, and the registry of all.

CAW-N is in `cawn.caw`, the systems it is compared with in `cawn.rivals`; both are imported by name when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from cawn.errors import QueryError, StorageError, brief

if TYPE_CHECKING:
    from cawn.systems.base import Context, System
    from cawn.systems.settings import Settings


class Entry(NamedTuple):
    """Import paths of a system and its settings, imported on first use."""

    system: str  # "module:class", whose constructor takes a `Context`
    settings: str
    summary: str  # a few words, for help texts
    new_nodes: bool = True  # whether its scores of nodes without training links are meaningful
    state: bool = False  # whether it keeps a state that follows the stream
    needs: str = ""  # what it needs beside links, or assumes of them
    trained: bool = True  # whether it has weights


def _of(module: str, system: str, settings: str, summary: str, **facts: Any) -> Entry:
    """The entry of a system of the package; its settings are in the same module, or in another one."""
    path = settings if ":" in settings else f"{module}:{settings}"
    return Entry(f"cawn.{module}:{system}", f"cawn.{path}", summary, **facts)


def _memory(settings: str, summary: str) -> Entry:
    return _of("rivals.memory", "MemorySystem", settings, summary, state=True)


def _untrained(settings: str, summary: str) -> Entry:
    return _of("systems.baselines", "UntrainedSystem", settings, summary, trained=False)


_SEVERAL = {"needs": "links at several times"}
_REGISTRY: dict[str, Entry] = {
    "cawn": _of("caw.system", "CawnSystem", "caw.config:Config", "causal anonymous walks"),
    "rates": _of("systems.rates", "RatesSystem", "RatesSettings", "baseline on exact link counts, no walks"),
    "tgn": _memory("TgnSettings", "memory and graph attention"),
    "jodie": _memory("JodieSettings", "projected memory, in TGN form"),
    "dyrep": _memory("DyrepSettings", "memory by attention, in TGN form"),
    "tgat": _of("rivals.tgat", "TgatSystem", "TgatSettings", "attention on a causal tree of past links"),
    "graphmixer": _of(
        "rivals.graphmixer", "GraphMixerSystem", "GraphMixerSettings", "MLP-Mixer on the recent links of each end"
    ),
    "tpnet": _of("rivals.tpnet", "TPNetSystem", "TPNetSettings", "random projections of walk counts", state=True),
    "nat": _of("rivals.nat", "NATSystem", "NATSettings", "joined caches of neighbours", state=True),
    "dygformer": _of(
        "rivals.dygformer", "DygformerSystem", "DygformerSettings", "transformer on the recent links of both ends"
    ),
    "jodie-original": _of(
        *("rivals.jodie_original", "JodieOriginal", "JodieOriginalSettings"),
        "recurrent states and next-item prediction",
        new_nodes=False,
        state=True,
        needs="a moderate number of nodes: a weight for every source and destination",
    ),
    "dyrep-original": _of(
        *("rivals.dyrep_original", "DyRepOriginal", "DyRepOriginalSettings"),
        "a point process on evolving states",
        state=True,
    ),
    "counts": _of("systems.counts", "CountsSystem", "CountsSettings", "a dozen weights on smoothed counts"),
    "recency": _untrained("RecencySettings", "last time of the pair, then of the destination"),
    "popularity": _untrained("PopularitySettings", "number of earlier links to the destination"),
    "edgebank": _untrained("EdgebankSettings", "whether the pair has linked before, or recently"),
    "heuristics": _untrained("HeuristicsSettings", "last time and number of links of pair and destination, in order"),
    "evolvegcn": _of(
        *("rivals.snapshots.evolvegcn", "EvolveGCNSystem", "EvolveGCNSettings"),
        "graph convolution with evolving weights, on snapshots",
        **_SEVERAL,
    ),
    "vgrnn": _of(
        *("rivals.snapshots.vgrnn", "VGRNNSystem", "VGRNNSettings"),
        "variational graph recurrent network, on snapshots",
        new_nodes=False,
        state=True,
        **_SEVERAL,
    ),
    "dynaernn": _of(
        *("rivals.snapshots.dynaernn", "DynAERNNSystem", "DynAERNNSettings"),
        "recurrent autoencoder of adjacency rows, on snapshots",
        new_nodes=False,
        **_SEVERAL,
    ),
}
DEFAULT = "cawn"


def register(name: str, entry: Entry) -> None:
    """Register a system under a name, for `cawn.train(events, name)` and for loading its runs."""
    _REGISTRY[name] = entry


def names() -> list[str]:
    """The names of all systems."""
    return list(_REGISTRY)


def summaries() -> str:
    """All systems with a few words on each, for help texts."""
    return ", ".join(f"{name} ({entry.summary})" for name, entry in _REGISTRY.items())


def check_system(name: Any) -> None:
    """Refuse a name that is not in the registry."""
    if not isinstance(name, str) or name not in _REGISTRY:
        raise QueryError(f"system is {brief(name)}: there are {', '.join(_REGISTRY)}")


def entry(name: str) -> Entry:
    """The entry of a system."""
    check_system(name)
    return _REGISTRY[name]


def settings_type(name: str) -> type[Settings]:
    """The class of a system's settings."""
    found: type[Settings] = _load(entry(name).settings)
    return found


def system_type(name: str) -> Any:
    """The class of a system."""
    return _load(entry(name).system)


def build(name: str, context: Context) -> System:
    """Build the system with this name, with newly initialised weights."""
    system: System = system_type(name)(context)
    return system


def name_of(config: Settings) -> str:
    """The name of the system that these settings belong to."""
    kind = type(config)
    for name, entry in _REGISTRY.items():
        module, _, attribute = entry.settings.partition(":")
        if (kind.__module__, kind.__qualname__) == (module, attribute):
            return name
    raise QueryError(f"config is {brief(config)}: give the settings of a system, such as cawn.Config")


def recorded(name: Any) -> str:
    """The name of a stored run's system; raises StorageError if this version does not have it."""
    if not isinstance(name, str) or name not in _REGISTRY:
        raise StorageError(f"run.json: its system {brief(name)} is not one of {', '.join(_REGISTRY)}")
    return name


def _load(path: str) -> Any:
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)
