"""What `cawn demo` shows: walks of a link that closes a triangle and of one that does not, and a trained model."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.columns import Columns
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import cawn
from cawn.cli.reports import show_results
from cawn.data import laws
from cawn.data.events import Events
from cawn.data.summary import describe, in_words
from cawn.devices import Device
from cawn.learn.results import Results
from cawn.rankings import Scores

ALPHA = 1 / (4 * laws.REACTION_TIME)
MIN_TEST_LINKS = 50  # results on fewer links are not shown


@dataclass(frozen=True, slots=True)
class LinkView:
    """The walks of a pair (u, v) at time t; those from u come first, then those from v."""

    src: int
    dst: int
    t: int
    walks: list[list[int]]  # [2M][m + 1] node ids, -1 where a walk has ended
    ages: list[list[int]]  # [2M][m + 1] how long before t each link was
    shapes: list[list[tuple[float, float]]]  # [2M][m + 1] (d_uw, d_vw)
    identities: dict[int, tuple[list[int], list[int]]]  # node -> g(w, S_u), g(w, S_v)

    @property
    def meeting(self) -> int:
        """The number of walks with a node, other than their start, that walks from the other side reach too."""
        return sum(any(0 <= max(at) < math.inf for at in shape[1:]) for shape in self.shapes)

    def to_dict(self) -> dict[str, Any]:
        """The fields as types that JSON has; infinity is null."""
        shapes = [[[d if math.isfinite(d) else None for d in at] for at in walk] for walk in self.shapes]
        return asdict(self) | {"shapes": shapes, "meeting": self.meeting}


@dataclass(frozen=True, slots=True)
class Example:
    """A network to train on, and a likely and an unlikely link (src, dst, t) to score, each with a description."""

    description: str
    events: Events
    config: cawn.Config
    links: dict[str, tuple[int, int, Any]]


def run(
    console: Console,
    *,
    data: str,
    seed: int,
    num_walks: int,
    length: int,
    train: bool,
    device: Device,
    quiet: bool,
) -> dict[str, Any]:
    """Run the demonstration; returns what it shows."""
    result: dict[str, Any] = {}
    if data == "triangles":
        network, closes, does_not = compare_links(seed=seed, num_walks=num_walks, length=length)
        if not quiet:
            show_comparison(network, closes, does_not, console)
        result = {"network": network, "alpha": ALPHA, "closes": closes.to_dict(), "does_not": does_not.to_dict()}
    if data == "flights" and not train:
        result["data"] = describe(_flights().events)
        if not quiet:
            console.print(in_words(result["data"]))
    if train:
        example = _triangles(seed) if data == "triangles" else _flights()
        result["training"] = _train(example, console, seed=seed, device=device, quiet=quiet)
    return result


def compare_links(*, seed: int, num_walks: int, length: int) -> tuple[dict[str, Any], LinkView, LinkView]:
    """A small network, a link of it that closes a triangle, and a pair of strangers at the same time."""
    network = laws.triadic_closure(60, 600, seed=seed)
    events = network.events
    history = cawn.History(events, ALPHA)
    u, v, t = _closing_link(network, len(events) // 10)
    closes, does_not = (
        _view(history, u, other, t, seed=seed, num_walks=num_walks, length=length)
        for other in (v, _stranger(events, u, t))
    )
    about = {"nodes": events.num_nodes, "links": len(events), "law": "triadic closure", "seed": seed}
    return about, closes, does_not


def show_comparison(network: dict[str, Any], closes: LinkView, does_not: LinkView, console: Console) -> None:
    """Print both links side by side, or one below the other if the window is narrow."""
    console.print(
        f"A network of {network['nodes']} nodes and {network['links']} links (seed {network['seed']}) in which two "
        "nodes that have just linked to the same node link to each other."
    )
    console.print(
        f"To score a link u-v at time {closes.t}, sample walks back in time from u and from v, then replace each node "
        "by how often it occurs at each position of the walks. Node names are not used.\n"
    )
    panels = [
        Panel(Group(_walk_table(view), Text(), _identity_table(view)), title=title, border_style=style, expand=False)
        for view, title, style in ((closes, "closes a triangle", "green"), (does_not, "does not", "red"))
    ]
    console.print(Columns(panels, padding=(0, 1)))
    total = len(closes.walks)
    console.print(
        f"\nWalks that meet the other side: {closes.meeting} of {total} where the triangle closes, "
        f"{does_not.meeting} of {total} where it does not."
    )


def _triangles(seed: int) -> Example:
    """A larger network of the same kind, small enough to train on in a minute."""
    network = laws.triadic_closure(300, 12_000, seed=seed + 1, noise=0.1)
    u, v, t = _closing_link(network, 50)
    return Example(
        description="a larger network of the same kind",
        events=network.events,
        config=cawn.Config(alpha=(ALPHA / 10, ALPHA), num_walks=32, dim=32, epochs=4, lr=3e-3),
        links={"closes a triangle": (u, v, t), "between strangers": (u, _stranger(network.events, u, t), t)},
    )


def _flights() -> Example:
    """Planes leaving New York in 2013 and their destinations; the last 50,000 flights, which take a minute or two."""
    events = cawn.datasets.load("flights")
    events = events[len(events) - 50_000 :]
    link = len(events) - 1_000
    u, v, t = int(events.src[link]), int(events.dst[link]), events.t[link]
    visited = set(events.dst[events.src == u].tolist())
    elsewhere = next(int(w) for w in events.dst[::-1] if int(w) not in visited)
    plane, airport, never = (events.labels[i] for i in (u, v, elsewhere))
    return Example(
        description="the last 50,000 flights out of New York in 2013, from planes to airports",
        events=events,
        config=cawn.Config(alpha="ladder", num_walks=32, dim=32, epochs=3),
        links={
            f"{plane} to {airport}, a flight that took place": (u, v, t),
            f"{plane} to {never}, where it has never been": (u, elsewhere, t),
        },
    )


def _train(example: Example, console: Console, *, seed: int, device: Device, quiet: bool) -> dict[str, Any]:
    """Train and test a model, then score the two links."""
    started = time.perf_counter()
    if not quiet:
        console.print(f"\nTraining a model on {example.description}:", style="bold")
        console.print(in_words(describe(example.events)))
    task = cawn.Task("inductive", negatives=("random",))
    trained = cawn.train(example.events, example.config, task=task, seed=seed, device=device, quiet=quiet)
    seconds = time.perf_counter() - started
    predictor, names = cawn.LinkPredictor.of(trained), example.events.labels
    scored = []
    for description, (u, v, t) in example.links.items():
        scores = predictor.score(names[u], names[v], t, draws=8)
        assert isinstance(scores, Scores)
        (probability,), (error,) = (values.tolist() for values in scores)
        scored.append({"link": description, "probability": probability, "error": error})
    if not quiet:
        console.print(f"Trained and tested in {seconds:.0f} s, on links of nodes that were hidden from training:")
        show_results(
            Results(test for test in trained.results.tests if test["count"] >= MIN_TEST_LINKS), console=console
        )
        console.print("Probabilities of two links, assuming one negative per positive:")
        for row in scored:
            line = f"  {row['probability']:.2f} ± {row['error']:.2f}  {row['link']}"
            console.print(line, highlight=False, markup=False, emoji=False)
        console.print("\nNext:", style="bold")
        console.print("  cawn train edges.csv -o runs/mine    train on your own links", highlight=False)
        console.print("  cawn datasets                        list public networks", highlight=False)
    return {"seconds": seconds, "data": describe(example.events), "results": trained.results.tests, "scored": scored}


def _closing_link(network: laws.LawNetwork, from_end: int) -> tuple[int, int, int]:
    """The ends and the time of a late link that closes a triangle."""
    link = int(np.flatnonzero(network.caused)[-from_end])
    return tuple(int(values[link]) for values in (network.events.src, network.events.dst, network.events.t))  # type: ignore[return-value]


def _stranger(events: Events, u: int, t: int) -> int:
    """The last active node that has met neither u nor, within twice the reaction time, a neighbour of u."""
    past = events[: int(np.searchsorted(events.t, t))]
    recent = past[past.t >= t - 2 * laws.REACTION_TIME]
    near = {u} | _neighbours(past, {u}) | _neighbours(recent, _neighbours(recent, {u}))
    last_first = np.stack([past.src, past.dst], axis=1)[::-1].ravel().tolist()
    return int(next(node for node in last_first if node not in near))


def _neighbours(events: Events, nodes: set[int]) -> set[int]:
    members = list(nodes)
    forward, backward = np.isin(events.src, members), np.isin(events.dst, members)
    return set(events.dst[forward].tolist()) | set(events.src[backward].tolist())


def _view(history: cawn.History, u: int, v: int, t: int, *, seed: int, num_walks: int, length: int) -> LinkView:
    from_u, from_v = (history.sample([n], t, num_walks=num_walks, length=length, seed=seed) for n in (u, v))
    counts = cawn.anonymize(from_u, from_v)
    shapes = cawn.walk_shapes(counts)[0].reshape(2 * num_walks, length + 1, 2)
    nodes, times = (np.concatenate(pair) for pair in ((from_u.nodes[0], from_v.nodes[0]), (from_u.t[0], from_v.t[0])))
    identities: dict[int, tuple[list[int], list[int]]] = {}
    for node, (g_u, g_v) in zip(nodes.ravel().tolist(), counts[0].reshape(-1, 2, length + 1).tolist(), strict=True):
        if node >= 0:
            identities.setdefault(node, (g_u, g_v))
    return LinkView(
        src=u,
        dst=v,
        t=t,
        walks=nodes.tolist(),
        ages=np.where(nodes >= 0, t - times, -1).tolist(),
        shapes=[[(float(a), float(b)) for a, b in walk] for walk in shapes],
        identities=identities,
    )


def _walk_table(view: LinkView) -> Table:
    table = Table("from", "walk", "shape (distance from u, from v)", box=None, pad_edge=False)
    for i, (walk, shape) in enumerate(zip(view.walks, view.shapes, strict=True)):
        steps = Text(" → ").join(_node(view, node) for node in walk)
        table.add_row("u" if i < len(view.walks) // 2 else "v", steps, " → ".join(map(_distances, shape)))
    return table


def _identity_table(view: LinkView) -> Table:
    table = Table("node", "counts in walks from u", "counts in walks from v", box=None, pad_edge=False)
    for node, (g_u, g_v) in view.identities.items():
        shared = any(g_u) and any(g_v)
        table.add_row(_node(view, node), *(" ".join(map(str, g)) for g in (g_u, g_v)), style="bold" if shared else "")
    return table


def _node(view: LinkView, node: int) -> Text:
    if node < 0:
        return Text("·")
    if node in (view.src, view.dst):
        return Text("u" if node == view.src else "v", style="cyan" if node == view.src else "magenta")
    g_u, g_v = view.identities[node]
    return Text(f"n{node}", style="bold yellow" if any(g_u) and any(g_v) else "")


def _distances(pair: tuple[float, float]) -> str:
    return "·" if pair[0] < 0 else "({},{})".format(*("∞" if math.isinf(d) else int(d) for d in pair))
