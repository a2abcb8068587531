"""CAW-N in one file: read, walk, anonymise, encode, train, test, in NumPy and PyTorch alone.

Read it beside Section 4 of the paper ("Inductive Representation Learning in Temporal Networks via Causal Anonymous
Walks"). The package computes the same much faster, and adds what its documentation lists.

    python examples/caw_in_one_file.py edges.csv.gz    # src,dst,t per line; without a file, a network with a known law
    python examples/caw_in_one_file.py edges.csv.gz --pooling attention --walks 64 --epochs 10
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

Links = tuple[np.ndarray, np.ndarray, np.ndarray]  # src, dst [n] numbers of nodes; t [n] float64, ascending

# Read


def read(path: str) -> Links:
    """The links of a CSV file whose first three columns are source, destination and time, in the order of time."""
    src, dst, t = np.loadtxt(path, dtype=str, delimiter=",", skiprows=1, usecols=(0, 1, 2), unpack=True)
    nodes = np.unique(np.concatenate([src, dst]), return_inverse=True)[1].reshape(2, -1)
    order = np.argsort(t.astype(float), kind="stable")
    return nodes[0, order], nodes[1, order], t.astype(float)[order]


def closing_triangles(num_nodes: int = 60, num_links: int = 3_000, seed: int = 0) -> Links:
    """A network with a law: as soon as w has linked to u and to v, u links to v.

    All other links, two of three, are random: the best possible AUC is 2/3.
    """
    rng, links = np.random.default_rng(seed), []
    while len(links) < num_links:
        u, v, w = rng.choice(num_nodes, 3, replace=False)
        links += [(w, u), (w, v), (u, v)]
    src, dst = np.array(links[:num_links]).T
    return src, dst, np.arange(num_links, dtype=float)


# Walk (4.2, Algorithm 1)


class History:
    """The links of each node in the order of time, with the sums from which one can be drawn in logarithmic time.

    A link at t' is drawn with a probability proportional to exp(alpha (t' - t)), that is to exp(alpha t'). The sums of
    the first i links of a node, as logarithms, turn a uniform number into a link by a binary search.
    """

    def __init__(self, links: Links, num_nodes: int, alpha: float) -> None:
        src, dst, t = links
        ends = np.stack([src, dst], axis=1).ravel()  # each link is in the lists of both ends
        others = np.stack([dst, src], axis=1).ravel()
        once = np.stack([np.ones_like(src), src != dst], axis=1).ravel().nonzero()[0]  # a self-loop has one end
        order = once[np.argsort(ends[once], kind="stable")]
        self.start = np.searchsorted(ends[order], np.arange(num_nodes + 1))  # node u has start[u] : start[u + 1]
        self.other, self.t = others[order], np.repeat(t, 2)[order]
        self.log_sum = np.empty(len(self.t))
        for first, end in zip(self.start[:-1], self.start[1:], strict=True):
            if first < end:
                self.log_sum[first:end] = np.logaddexp.accumulate(alpha * (self.t[first:end] - self.t[first]))

    def walks(
        self, nodes: np.ndarray, t: np.ndarray, num_walks: int, length: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """M walks of m steps back in time from each node [B] at t [B]: nodes and times [B, M, m + 1].

        Only links strictly before the last one are followed. A walk that finds none ends: its next nodes are -1.
        """
        here = np.repeat(nodes, num_walks)  # [B * M]
        now = np.repeat(t, num_walks)
        path, times = [here], [now]
        for _ in range(length):
            first = self.start[here]
            before = search(self.t, first, self.start[here + 1], now)  # the end of the links before `now`
            found = (here >= 0) & (before > first)
            total = self.log_sum[np.where(found, before - 1, 0)]
            drawn = search(self.log_sum, first, before - 1, total + np.log(rng.random(len(here))))
            drawn = np.where(found, drawn, 0)
            here, now = np.where(found, self.other[drawn], -1), np.where(found, self.t[drawn], now)
            path.append(here)
            times.append(now)
        shape = len(nodes), num_walks, length + 1
        return np.stack(path, axis=1).reshape(shape), np.stack(times, axis=1).reshape(shape)


def search(values: np.ndarray, first: np.ndarray, end: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """The first position from `first` on, at most `end`, whose value is not below the limit; for many lists at once."""
    low, high = first.copy(), np.maximum(first, end)
    while (low < high).any():
        middle = (low + high) // 2
        below = (low < high) & (values[np.minimum(middle, len(values) - 1)] < limit)
        low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
    return low


# Anonymise (4.2, Equation 2)


def anonymise(nodes: np.ndarray) -> np.ndarray:
    """I_CAW(w; {S_u, S_v}) = {g(w, S_u), g(w, S_v)} of the node w at every position of the walks: [B, 2, M, L, 2, L].

    g(w, S)[j] is the number of walks in S that have w at position j. `nodes` is [B, 2, M, L], L = m + 1; the second
    axis is u, v. No node number is left, yet walks that meet have numbers in common.
    """
    B, _, M, L = nodes.shape
    counts = np.zeros((B, 2, M, L, 2, L), np.int64)
    for side in range(2):
        for j in range(L):
            at_j = nodes[:, side, :, j][:, None, None, None, :]  # [B, 1, 1, 1, M]
            counts[..., side, j] = (nodes[..., None] == at_j).sum(axis=-1)
    return np.where((nodes >= 0)[..., None, None], counts, 0)


# Encode (4.3)


class CAWN(nn.Module):
    """The logit that u and v link at time t."""

    def __init__(self, length: int, dim: int, frequencies: int = 16, pooling: str = "mean") -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(length + 1, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.omega = nn.Parameter(2 * torch.pi * 10 ** -torch.linspace(0, 6, frequencies))
        self.rnn = nn.LSTM(dim + 2 * frequencies, dim, batch_first=True)
        self.pooling = pooling
        self.Q1, self.Q2 = (nn.Parameter(torch.eye(dim)) for _ in range(2))
        self.predict = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, counts: Tensor, elapsed: Tensor, alive: Tensor) -> Tensor:
        """counts [B, 2, M, L, 2, L]; elapsed [B, 2, M, L], t_{i-1} - t_i; alive [B, 2, M, L], whether w_i exists."""
        B, _, M, L = alive.shape
        g = counts.float() / M
        f1 = self.mlp(g[..., 0, :]) + self.mlp(g[..., 1, :])  # [B, 2, M, L, d]
        phase = elapsed[..., None] * self.omega
        f2 = torch.cat([phase.cos(), phase.sin()], dim=-1)  # [B, 2, M, L, 2k]
        states, _ = self.rnn(torch.cat([f1, f2], dim=-1).reshape(B * 2 * M, L, -1))  # [B * 2M, L, d]
        last = alive.reshape(-1, L).sum(dim=1) - 1  # a walk that ended early is encoded up to its end
        encoded = states[torch.arange(len(last)), last].view(B, 2 * M, -1)  # [B, 2M, d]
        if self.pooling == "attention":
            weight = (encoded @ self.Q1 @ encoded.transpose(1, 2)).softmax(dim=-1)  # [B, 2M, 2M]
            encoded = weight @ encoded @ self.Q2
        logits: Tensor = self.predict(encoded.mean(dim=1)).squeeze(-1)  # [B]
        return logits


class Scorer:
    """From pairs at a time to logits. Times are counted in `unit`."""

    def __init__(self, history: History, model: CAWN, num_walks: int, length: int, unit: float, seed: int) -> None:
        self.history, self.model, self.unit = history, model, unit
        self.num_walks, self.length, self.rng = num_walks, length, np.random.default_rng(seed)

    def __call__(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> Tensor:
        both = [self.history.walks(ends, t, self.num_walks, self.length, self.rng) for ends in (src, dst)]
        nodes, times = (np.stack(parts, axis=1) for parts in zip(*both, strict=True))  # [B, 2, M, L]
        elapsed = -np.diff(times, axis=-1, prepend=times[..., :1]) / self.unit
        counts = torch.from_numpy(anonymise(nodes))
        logits: Tensor = self.model(counts, torch.from_numpy(elapsed).float(), torch.from_numpy(nodes >= 0))
        return logits


# Train (5.1): binary cross-entropy against as many random destinations, the best epoch by validation links


def batches(part: range, size: int, rng: np.random.Generator | None = None) -> Iterator[np.ndarray]:
    """The positions of links, `size` at a time; shuffled if there is a generator."""
    positions = np.arange(part.start, part.stop) if rng is None else rng.permutation(np.arange(part.start, part.stop))
    for first in range(0, len(positions), size):
        yield positions[first : first + size]


def train(scorer: Scorer, links: Links, parts: list[range], epochs: int, lr: float, batch_size: int = 32) -> None:
    """Train the scorer's model; its weights are those of the best epoch."""
    src, dst, t = links
    rng, model = np.random.default_rng(0), scorer.model
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    best, weights = 0.0, model.state_dict()
    for epoch in range(epochs):
        model.train()
        losses = []
        for some in batches(parts[0], batch_size, rng):
            false = rng.choice(dst[: parts[0].stop], len(some))
            logits = scorer(np.tile(src[some], 2), np.concatenate([dst[some], false]), np.tile(t[some], 2))
            loss = binary_cross_entropy_with_logits(logits, torch.arange(len(logits)).lt(len(some)).float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        auc, ap = evaluate(scorer, links, parts[1])
        print(f"epoch {epoch + 1}/{epochs}: loss {np.mean(losses):.4f}, validation AUC {auc:.4f}, AP {ap:.4f}")
        if ap > best:
            best, weights = ap, {name: weight.clone() for name, weight in model.state_dict().items()}
    model.load_state_dict(weights)


# Test: each link against one random destination


@torch.no_grad()
def evaluate(scorer: Scorer, links: Links, part: range) -> tuple[float, float]:
    """AUC and average precision."""
    src, dst, t = links
    scorer.model.eval()
    rng, scores = np.random.default_rng(1), [[], []]
    for some in batches(part, 200):
        false = rng.choice(dst[: part.stop], len(some))
        for which, ends in enumerate((false, dst[some])):
            scores[which].append(scorer(src[some], ends, t[some]).numpy())
    false, true = (np.concatenate(each) for each in scores)
    return area_under_curve(true, false), average_precision(true, false)


def area_under_curve(true: np.ndarray, false: np.ndarray) -> float:
    """The probability that a true link has the higher score; ties count half."""
    ordered = np.sort(false)
    lower, upper = (np.searchsorted(ordered, true, side) for side in ("left", "right"))
    return float((lower + upper).mean() / (2 * len(false)))


def average_precision(true: np.ndarray, false: np.ndarray) -> float:
    """The mean precision over true links, each at the threshold of its own score."""
    above = [len(side) - np.searchsorted(np.sort(side), true, "left") for side in (true, false)]
    return float(np.mean(above[0] / (above[0] + above[1])))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?", help="a CSV file, which may be compressed: source, destination, time")
    parser.add_argument("--walks", type=int, default=32, help="M, walks from each node")
    parser.add_argument("--length", type=int, default=2, help="m, steps of a walk")
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--pooling", choices=("mean", "attention"), default="mean")
    parser.add_argument("--memory", type=float, default=5.0, help="tau / alpha: how many links a walk looks back")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)

    links = closing_triangles() if given.path is None else read(given.path)
    src, dst, t = links
    num_nodes = int(max(src.max(), dst.max())) + 1
    cuts = [0, *(int(np.searchsorted(t, np.quantile(t, q), "right")) for q in (0.7, 0.85)), len(t)]
    parts = [range(first, end) for first, end in pairwise(cuts)]
    span = t[parts[0].stop - 1] - t[0]
    tau = 2 * parts[0].stop / (num_nodes * span)  # links of an average node per unit of time
    print(
        f"{len(t):,} links of {num_nodes:,} nodes; train, validation, test: {', '.join(f'{len(p):,}' for p in parts)}"
    )

    torch.manual_seed(given.seed)
    history = History(links, num_nodes, alpha=tau / given.memory)
    model = CAWN(given.length, given.dim, pooling=given.pooling)
    scorer = Scorer(history, model, given.walks, given.length, span / 1e6, given.seed)
    train(scorer, links, parts, given.epochs, given.lr)
    auc, ap = evaluate(scorer, links, parts[2])
    print(f"test: AUC {auc:.4f}, AP {ap:.4f}")


if __name__ == "__main__":
    main(sys.argv[1:])
