"""Train on a PyTorch Geometric TemporalData and use the pair embeddings in another model.

Needs torch_geometric.
"""

import tempfile
from pathlib import Path

import torch
from torch_geometric.data import TemporalData

import cawn

# Any TemporalData will do. In this one a -> b and then b -> c cause a -> c, while a -> b and c -> b cause nothing.
network = cawn.laws.feed_forward(num_nodes=100, num_links=3_000, seed=0, noise=0.1)
made = network.events
data = TemporalData(src=torch.tensor(made.src), dst=torch.tensor(made.dst), t=torch.tensor(made.t))
print(data)

events = cawn.read(data)  # msg, if there is one, becomes link attributes
with tempfile.TemporaryDirectory() as folder:
    config = cawn.Config(alpha="ladder", num_walks=16, dim=32, epochs=3, lr=3e-3)
    cawn.train(events, config, seed=0, out=Path(folder) / "run", quiet=True)
    predictor = cawn.LinkPredictor.load(Path(folder) / "run")

    # Embeddings of the links after the training period, each computed from the links before it.
    later = slice(int(0.7 * len(events)), None)
    names = events.labels
    z = predictor.embed(names[events.src[later]], names[events.dst[later]], events.t[later])  # [B, width]
x, y = torch.from_numpy(z), torch.from_numpy(network.caused[later]).float()
print(f"embeddings: {tuple(x.shape)}, mean norm {x.norm(dim=1).mean():.2f}")

# A logistic probe that predicts whether a link was caused: trained on the first half, tested on the second.
half = len(x) // 2
probe = torch.nn.Linear(x.shape[1], 1)
torch.nn.init.zeros_(probe.weight)
optimizer = torch.optim.LBFGS(probe.parameters(), max_iter=200)


def closure() -> torch.Tensor:
    optimizer.zero_grad()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(probe(x[:half]).squeeze(1), y[:half])
    loss = loss + 1e-3 * probe.weight.square().sum()
    loss.backward()
    return loss


optimizer.step(closure)
accuracy = ((probe(x[half:]).squeeze(1) > 0) == (y[half:] > 0)).float().mean()
majority = 1 - y[half:].mean()
print(f"accuracy {accuracy:.0%} on {len(x) - half} links; always answering no: {majority:.0%}")
