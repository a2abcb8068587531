"""Settings of every system that make it small enough to be trained in a test."""

from typing import Any

from cawn import systems
from cawn.systems.settings import Settings

# The systems of the package; tests register others.
NAMES = [name for name in systems.names() if systems.entry(name).system.startswith("cawn.")]

SMALL: dict[str, dict[str, Any]] = {
    "cawn": {"alpha": "ladder", "num_walks": 8, "dim": 8, "frequencies": 4, "lr": 3e-3},
    "dyrep-original": {"dim": 8, "neighbours": 4},
    "jodie-original": {"dim": 8},
    "rates": {"hidden": 8},
    "tgn": {"dim": 16, "time_dim": 4, "neighbours": 4},
    "jodie": {"batch_size": 20, "dim": 8, "dropout": 0.0, "time_dim": 4},
    "dyrep": {"dim": 8, "time_dim": 4, "neighbours": 4},
    "tgat": {"neighbours": 3, "dim": 8, "time_dim": 6},
    "dygformer": {"length": 4, "channel_dim": 4, "time_dim": 6, "dim": 8},
    "graphmixer": {"neighbours": 4, "dim": 8, "time_dim": 6},
    "nat": {"neighbours": 4, "second_neighbours": 3, "dim": 6, "position_dim": 4, "time_dim": 4},
    "tpnet": {"decay": 0.05, "width_factor": 2.0, "neighbours": 4, "time_dim": 4, "dim": 8},
    "evolvegcn": {"snapshots": 8, "history": 2, "hidden": 8, "max_degree": 8},
    "vgrnn": {"snapshots": 8, "hidden": 8, "latent": 4, "truncation": 2},
    "dynaernn": {"snapshots": 8, "lookback": 2, "dim": 4, "wide": 8, "narrow": 8},
}


def small(name: str, **changes: Any) -> Settings:
    """The small settings of a system; two epochs of steps of 50 links."""
    return systems.settings_type(name)().with_(**{"batch_size": 50, "epochs": 2} | SMALL.get(name, {}) | changes)
