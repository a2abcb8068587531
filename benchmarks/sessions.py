"""Networks with few distinct times: `python -m benchmarks.sessions [--seeds 3]`.

Simulates assemblies whose members leave and enter between sessions, and compares AP against random negatives of
untrained baselines, of `rates` with both pools of training negatives, and of two scorers that know the simulation: the
probability of each link given all earlier sessions, which limits every strict model, and the test links themselves.
"""

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import cawn
from cawn.kernels.rng import seed_for
from cawn.learn import metrics
from cawn.learn.negatives import part_negatives
from cawn.learn.splits import split
from cawn.systems import baselines
from cawn.systems.rates import RatesSettings

Array = npt.NDArray[Any]

SESSIONS = 14
_COLUMNS = "{:<12} {:>7} {:>8} {:>9} {:>17} {:>7} {:>14} {:>12}"
_HEADER = ("network", "linked", "recency", "edgebank", "pool=training", "rates", "probabilities", "links")


class Assembly(NamedTuple):
    """A simulated network. A forecast has the probabilities of all pairs in a session, given the sessions before it."""

    events: cawn.Events
    forecasts: Array  # [sessions, nodes, nodes]


def simulate(pair: Array, seats: int, leave: Array, draw: np.random.Generator, zeal: Array | None = None) -> Assembly:
    """Members of a session link to its destinations: to all members or, with `zeal`, to a sixth of them.

    Args:
        pair: Probability that u links to v if u is a member and v a destination: [N, N].
        leave: Probability that a member leaves before each session: [sessions].
        zeal: Members become destinations in proportion to it: [N].
    """
    members, entered, links, forecasts = np.arange(seats), seats, [], []
    served, been = np.zeros(len(pair), bool), np.zeros(len(pair), bool)  # as a member, as a destination
    for session in range(len(leave)):
        newcomer = 1 / (len(leave) - session)  # a candidate that has not appeared yet does so by the last session
        in_office = np.where(served, 0.0, newcomer)
        in_office[members[served[members]]] = 1 - leave[session]
        chosen = np.ones(len(pair))
        if zeal is not None:
            chosen = np.maximum(1 - np.exp(-seats / 6 * zeal / zeal[members].sum()), np.where(been, 0, newcomer))
        forecasts.append(pair * in_office * chosen)
        if session > 0:
            stay = members[draw.random(seats) >= leave[session]]
            members = np.concatenate([stay, np.arange(entered, entered + seats - len(stay))])
            entered += seats - len(stay)
        ends = members
        if zeal is not None:
            share = zeal[members] / zeal[members].sum()
            ends = draw.choice(members, seats // 6, replace=False, p=share)
        served[members], been[ends] = True, True
        u, v = np.nonzero(draw.random((seats, len(ends))) < pair[np.ix_(members, ends)])
        links.append((members[u], ends[v], np.full(len(u), session)))
    src, dst, t = (np.concatenate(column) for column in zip(*links, strict=True))
    return Assembly(cawn.Events(src, dst, t, num_nodes=entered), np.stack(forecasts)[:, :entered, :entered])


def senate(seats: int, seed: int = 0) -> Assembly:
    """Almost all pairs of members link, always in the same direction."""
    draw, most = np.random.default_rng(seed), 4 * seats
    party, order = draw.random(most) < 0.5, draw.permutation(most)
    pair = np.where(party[:, None] == party, 0.99, 0.93) * (order[:, None] < order)
    return simulate(pair, seats, np.full(SESSIONS, 0.13), draw)


def cosponsors(seats: int, seed: int = 0) -> Assembly:
    """Members differ in activity and popularity, prefer their party, and have persistent ties."""
    draw, most = np.random.default_rng(seed), 4 * seats
    party, ties = draw.random(most) < 0.5, draw.normal(0, 1.2, (most, most))
    active, popular = draw.normal(0, 0.8, (2, most))
    logits = active[:, None] + popular + ties + np.where(party[:, None] == party, -0.2, -1.9)
    pair = (1 - np.eye(most)) / (1 + np.exp(-logits))
    return simulate(pair, seats, np.full(SESSIONS, 0.13), draw)


def parliament(seats: int, seed: int = 0) -> Assembly:
    """Members vote for the bills of a few sponsors, mostly of their own party; an election every third session."""
    draw, most = np.random.default_rng(seed), 4 * seats
    party = draw.choice(3, most, p=[0.45, 0.35, 0.2])
    support = np.array([[0.9, 0.2, 0.3], [0.2, 0.9, 0.6], [0.3, 0.6, 0.9]])
    pair = support[party[:, None], party] * (1 - np.eye(most))
    leave = np.where(np.arange(SESSIONS) % 3, 0.02, 0.35)
    return simulate(pair, seats, leave, draw, zeal=draw.gamma(0.7, 1.0, most))


NETWORKS: dict[str, tuple[Callable[[int], Assembly], int]] = {  # with the number of seats
    "senate": (senate, 50),
    "cosponsors": (cosponsors, 60),
    "parliament": (parliament, 110),
}


def measure(assembly: Assembly, seed: int, epochs: int) -> list[float]:
    """The figures of a row."""
    options: dict[str, Any] = {
        "seed": seed,
        "quiet": True,
        "task": cawn.Task(negatives=("random",), baselines=False),
        "device": "cpu",
    }
    rows = [
        cawn.train(assembly.events, RatesSettings(epochs=epochs, pool=pool), **options).results.tests[0]
        for pool in ("training", "period")
    ]
    untrained, known = _others(assembly, seed)
    return [rows[0]["linked"], *untrained, *(row["model"]["ap"] for row in rows), *known]


def _others(assembly: Assembly, seed: int) -> tuple[list[float], list[float]]:
    """AP of the untrained baselines, and of the scorers that know the probabilities and the links."""
    events = assembly.events
    parts = split(events, "transductive", seed=seed)
    links = parts.test["all"]
    src, t = events.src[links], events.t[links]
    ends = events.dst[links], part_negatives(events, parts, "all", "random", seed_for(seed, "test")).dst
    scorers = baselines.scorers(events)
    rules = [scorers[name] for name in ("recency", "edgebank")]
    untrained = [metrics.average_precision(*(rule(src, dst, t) for dst in ends)) for rule in rules]
    links_of_pairs = np.zeros_like(assembly.forecasts)
    np.add.at(links_of_pairs, (events.t, events.src, events.dst), 1.0)
    known = []
    for expected in (assembly.forecasts, links_of_pairs):  # a source has as many negatives as links
        odds = expected / np.maximum(expected.sum(axis=2, keepdims=True), 1e-9)
        known.append(metrics.average_precision(*(odds[t, src, dst] for dst in ends)))
    return untrained, known


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.sessions", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=RatesSettings().epochs)
    parser.add_argument("--seats", type=int, help="of every assembly; by default 50 to 110")
    options = parser.parse_args()
    print(f"AP, random negatives, strict clock, mean of {options.seeds} seeds")
    print(_COLUMNS.format(*_HEADER))
    for name, (assembly, seats) in NETWORKS.items():
        network = assembly(options.seats or seats)
        rows = [measure(network, seed, options.epochs) for seed in range(options.seeds)]
        print(_COLUMNS.format(name, *(f"{figure:.3f}" for figure in np.mean(rows, axis=0))), flush=True)


if __name__ == "__main__":
    main()
