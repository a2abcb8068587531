"""A whole system of your own: it trains, keeps every promise that `cawn.testing` checks, and runs beside the others.

python examples/own_system.py [edges.csv]
"""

import sys
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import cawn
from cawn.systems import Entry, register
from cawn.systems.base import Context
from cawn.systems.neural import NeighbourSystem, PastTensors
from cawn.systems.settings import Settings, setting
from cawn.testing import PROMISES, check_system


@dataclass(frozen=True)
class SharedSettings(Settings):
    """Settings with defaults, meanings and ranges, which are checked and stored."""

    recent: int = setting(16, "latest links of each end", 1, 1_000)
    hidden: int = setting(32, "width of the network", 1, 4_096)


class SharedNeighbours(NeighbourSystem):
    """A pair by the ages of its ends' latest links: of all, of those to the other end, and to a neighbour of both."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        hidden = context.config.hidden
        layers = nn.Linear(6 * context.config.recent, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        self.module = nn.Sequential(*layers).to(self.device)

    def logits(self, past: PastTensors, src: Tensor, dst: Tensor, t: Tensor, visible: Tensor) -> Tensor:
        """Logits [B] of pairs at t, given the first `visible` [B] links."""
        links = [past.recent(node, visible, self.config.recent) for node in (src, dst)]  # [B, k] each
        features = []
        for one, other, node in zip(links, links[::-1], (dst, src), strict=True):
            recency = torch.where(one.mask, 1 / (1 + self.gaps(t, one).float()).log1p(), 0.0)  # [B, k]
            shared = (one.nodes[:, :, None] == other.nodes[:, None, :]) & other.mask[:, None, :]  # [B, k, k]
            features += [recency, recency * (one.nodes == node[:, None]), recency * shared.any(dim=2)]
        return self.module(torch.cat(features, dim=1)).squeeze(1)


register("shared", Entry(f"{__name__}:SharedNeighbours", f"{__name__}:SharedSettings", "ages of shared neighbours"))

if __name__ == "__main__":
    check_system(SharedSettings(batch_size=50, epochs=2))
    print(f"all {len(PROMISES)} promises are kept")
    events = cawn.read(sys.argv[1]) if sys.argv[1:] else cawn.laws.triadic_closure(seed=0).events
    for row in cawn.train(events, SharedSettings(), quiet=True).results.where(metric="ap", system="shared"):
        print(f"AP {row['value']:.3f} against {row['negatives']} negatives")
