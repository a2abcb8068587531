"""Small trainers of the systems on snapshots, and dense versions of what is sparse."""

from typing import Any

import numpy as np
import torch

import cawn
from cawn.rivals.snapshots.windows import Snapshots, View
from networks import random_events
from systems.small_settings import small


def network(seed: int = 6, **columns: Any) -> cawn.Events:
    """Links among ten nodes, the last of which has none in the training period, with ties and self-loops."""
    events = random_events(seed, num_nodes=9, num_links=120, span=100)
    src = np.where(np.arange(120) % 40 == 39, np.where(np.arange(120) > 100, 9, 8), events.src)
    return cawn.Events(src, events.dst, events.t, num_nodes=10, **columns)


def trainer(name: str, events: cawn.Events | None = None, **changes: Any) -> Any:
    """A trainer with small settings, and its system with random weights."""
    torch.manual_seed(1)
    found = cawn.Trainer(network() if events is None else events, small(name, **changes), quiet=True, device="cpu")
    with torch.no_grad():
        for weight in found.system.module.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return found


def adjacency(past: Snapshots, links: tuple[int, int]) -> np.ndarray:
    """Numbers of links between nodes, the last of which stands for unknown ones: [N + 1, N + 1]."""
    found = np.zeros((past.num_nodes + 1, past.num_nodes + 1))
    for u, v in zip(past.events.src[slice(*links)], past.events.dst[slice(*links)], strict=True):
        found[u, v] += 1
        if u != v:
            found[v, u] += 1
    return found


def convolution(found: np.ndarray, loop: float) -> np.ndarray:
    """D^(-1/2) (A + loop I) D^(-1/2)."""
    found = found + loop * np.eye(len(found))
    scale = found.sum(axis=1) ** -0.5
    return scale[:, None] * found * scale


def view_at(past: Snapshots, t: Any) -> View:
    known, gap = past.views(np.array([t], past.events.t.dtype))
    return View(int(known[0]), int(gap[0]))


def weights(module: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: value.detach().double().numpy() for name, value in module.state_dict().items()}


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softplus(x: Any) -> Any:
    return np.logaddexp(0, x)
