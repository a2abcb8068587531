"""What the method sees: the walks of a link that closes a triangle beside those of one that does not."""

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

from cawn import Config
from cawn.cli.reports import show_results
from cawn.data import datasets, laws
from cawn.data.events import Events
from cawn.data.summary import describe, in_words
from cawn.devices import Device
from cawn.learn import experiments
from cawn.predictor import LinkPredictor
from cawn.rankings import Scores
from cawn.walks.history import History
from cawn.walks.identities import anonymize, walk_shapes
from cawn.walks.sampling import Walks

ALPHA = 1 / (4 * laws.REACTION_TIME)
FEW = 50  # test links that say too little to be shown


@dataclass(frozen=True, slots=True)
class View:
    """One link as the method sees it. Walks and shapes are listed from u first, then from v."""

    src: int
    dst: int
    t: int
    walks: list[list[int]]  # [2M][m + 1] node ids, -1 where a walk has ended
    ages: list[list[int]]  # [2M][m + 1] how long before t each link was
    shapes: list[list[tuple[float, float]]]  # [2M][m + 1] (d_uw, d_vw)
    identities: dict[int, tuple[list[int], list[int]]]  # node -> g(w, S_u), g(w, S_v)

    @property
    def meeting(self) -> int:
        """Walks with a node, other than their start, that walks from the other side hit too."""
        return sum(any(0 <= max(at) < math.inf for at in shape[1:]) for shape in self.shapes)


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
    """The whole demonstration; returns what it showed."""
    shown: dict[str, Any] = {}
    if data == "triangles":
        picture = build(seed=seed, num_walks=num_walks, length=length)
        if not quiet:
            show(picture, console)
        shown = as_json(picture)
    if data == "flights" and not train:
        shown["data"] = describe(flights().events)
        if not quiet:
            console.print(in_words(shown["data"]))
    if train:
        trained = triangles(seed) if data == "triangles" else flights()
        shown["training"] = learn(trained, console, seed=seed, device=device, quiet=quiet)
    return shown


@dataclass(frozen=True, slots=True)
class Lesson:
    """A network to learn, and two links to score after it: (src, dst, t), with what they are."""

    about: str
    events: Events
    config: Config
    good: tuple[int, int, Any]
    bad: tuple[int, int, Any]
    words: tuple[str, str]


def triangles(seed: int) -> Lesson:
    """A larger network of the same law, small enough to be learned in a minute."""
    network = laws.triadic_closure(300, 12_000, seed=seed + 1, noise=0.1)
    events = network.events
    closing = int(np.flatnonzero(network.caused)[-50])
    u, v, t = int(events.src[closing]), int(events.dst[closing]), int(events.t[closing])
    return Lesson(
        about="the same law in a larger network",
        events=events,
        config=Config(alpha=(ALPHA / 10, ALPHA), num_walks=32, dim=32, epochs=4, lr=3e-3),
        good=(u, v, t),
        bad=(u, _stranger(events, u, t), t),
        words=("one that closes a triangle", "one between strangers"),
    )


def flights() -> Lesson:
    """Planes out of New York in 2013 and where they go; the last ones, so that it takes a minute or two."""
    events = datasets.load("flights")
    events = events[len(events) - 50_000 :]
    link = len(events) - 1_000
    u, v, t = int(events.src[link]), int(events.dst[link]), events.t[link]
    been = set(events.dst[events.src == u].tolist())
    elsewhere = next(int(w) for w in events.dst[::-1] if int(w) not in been)
    plane, there, nowhere = (events.labels[i] for i in (u, v, elsewhere))
    return Lesson(
        about="the last 50,000 flights out of New York in 2013, planes to airports",
        events=events,
        config=Config(alpha="ladder", num_walks=32, dim=32, epochs=3),
        good=(u, v, t),
        bad=(u, elsewhere, t),
        words=(f"{plane} to {there}, which it flew", f"{plane} to {nowhere}, where it never was"),
    )


def learn(lesson: Lesson, console: Console, *, seed: int, device: Device, quiet: bool) -> dict[str, Any]:
    """Train, test, and score the two links."""
    started = time.perf_counter()
    if not quiet:
        console.print(f"\nNow a model learns from links alone ({lesson.about}):", style="bold")
        console.print(in_words(describe(lesson.events)))
    trained = experiments.train(
        lesson.events, lesson.config, task="inductive", seed=seed, device=device, quiet=quiet, kinds=("random",)
    )
    seconds = time.perf_counter() - started
    predictor = LinkPredictor.of(trained)
    scored = []
    for words, (u, v, t) in zip(lesson.words, (lesson.good, lesson.bad), strict=True):
        names = lesson.events.labels
        scores = predictor.score(names[u], names[v], t, draws=8)
        assert isinstance(scores, Scores)
        scored.append({"link": words, "probability": float(scores.probability[0]), "error": float(scores.error[0])})
    if not quiet:
        console.print(f"Trained and tested in {seconds:.0f} s, on links of nodes it had never seen:")
        show_results([[row for row in trained.results if row["count"] >= FEW]], console=console)
        console.print("Two links of this network, as if one in two were true:")
        for row in scored:
            line = f"  {row['probability']:.2f} ± {row['error']:.2f}  {row['link']}"
            console.print(line, highlight=False, markup=False, emoji=False)
        console.print("\nNext:", style="bold")
        console.print("  cawn train edges.csv -o runs/mine    your own links", highlight=False)
        console.print("  cawn datasets                        named public networks", highlight=False)
    return {"seconds": seconds, "data": describe(lesson.events), "results": trained.results, "scored": scored}


def build(*, seed: int, num_walks: int, length: int) -> dict[str, Any]:
    """The network, one link of it that closes a triangle, and one between strangers at the same time."""
    network = laws.triadic_closure(60, 600, seed=seed)
    events = network.events
    history = History(events, ALPHA)
    closing = int(np.flatnonzero(network.caused)[-len(events) // 10])
    u, v, t = int(events.src[closing]), int(events.dst[closing]), int(events.t[closing])
    stranger = _stranger(events, u, t)
    closes, does_not = (
        _view(history, u, other, t, seed=seed, num_walks=num_walks, length=length) for other in (v, stranger)
    )
    return {
        "network": {"nodes": events.num_nodes, "links": len(events), "law": "triadic closure", "seed": seed},
        "alpha": ALPHA,
        "closes": closes,
        "does_not": does_not,
    }


def as_json(demo: dict[str, Any]) -> dict[str, Any]:
    """The same, in types JSON has; infinity is null."""
    plain = dict(demo)
    for name in ("closes", "does_not"):
        view = asdict(demo[name]) | {"meeting": demo[name].meeting}
        view["shapes"] = [[[d if np.isfinite(d) else None for d in at] for at in walk] for walk in view["shapes"]]
        plain[name] = view
    return plain


def show(demo: dict[str, Any], console: Console) -> None:
    """Print both links side by side, or one below the other where the window is narrow."""
    network, closes, does_not = demo["network"], demo["closes"], demo["does_not"]
    console.print(
        f"A network of {network['nodes']} nodes and {network['links']} links in which who has just linked to the same "
        f"node will link (seed {network['seed']})."
    )
    console.print(
        f"To judge a link u-v at time {closes.t}, walk back in time from u and from v, then forget the names: "
        "a node is only how often it is hit at each position.\n"
    )
    panels = [
        Panel(_drawn(closes), title="closes a triangle", border_style="green", expand=False),
        Panel(_drawn(does_not), title="does not", border_style="red", expand=False),
    ]
    console.print(Columns(panels, padding=(0, 1)))
    total = len(closes.walks)
    console.print(
        f"\nWalks that meet the other side: {closes.meeting} of {total} where the triangle closes, "
        f"{does_not.meeting} of {total} where it does not. No name was needed to see it."
    )


def _stranger(events: Events, u: int, t: int) -> int:
    """The node active last before t that had met neither u nor, within twice the time of a reaction, a friend of u."""
    past = events[: int(np.searchsorted(events.t, t))]
    recent = past[past.t >= t - 2 * laws.REACTION_TIME]
    near = {u} | _neighbours(past, {u}) | _neighbours(recent, _neighbours(recent, {u}))
    last_first = np.stack([past.src, past.dst], axis=1)[::-1].ravel().tolist()
    return int(next(node for node in last_first if node not in near))


def _neighbours(events: Events, nodes: set[int]) -> set[int]:
    members = list(nodes)
    there, back = np.isin(events.src, members), np.isin(events.dst, members)
    return set(events.dst[there].tolist()) | set(events.src[back].tolist())


def _view(history: History, u: int, v: int, t: int, *, seed: int, num_walks: int, length: int) -> View:
    from_u, from_v = (history.sample([n], t, num_walks=num_walks, length=length, seed=seed) for n in (u, v))
    counts = anonymize(from_u, from_v)
    shapes = walk_shapes(counts)[0].reshape(2 * num_walks, length + 1, 2)
    nodes = _both(from_u, from_v, "nodes")
    identities: dict[int, tuple[list[int], list[int]]] = {}
    for node, (g_u, g_v) in zip(nodes.ravel().tolist(), counts[0].reshape(-1, 2, length + 1).tolist(), strict=True):
        if node >= 0:
            identities.setdefault(node, (g_u, g_v))
    return View(
        src=u,
        dst=v,
        t=t,
        walks=nodes.tolist(),
        ages=np.where(nodes >= 0, t - _both(from_u, from_v, "t"), -1).tolist(),
        shapes=[[(float(a), float(b)) for a, b in walk] for walk in shapes],
        identities=identities,
    )


def _both(from_u: Walks, from_v: Walks, field: str) -> Any:
    return np.concatenate([getattr(from_u, field)[0], getattr(from_v, field)[0]])


def _drawn(view: View) -> Group:
    return Group(_walk_table(view), Text(), _identity_table(view))


def _walk_table(view: View) -> Table:
    table = Table("from", "walk", "shape (distance from u, from v)", box=None, pad_edge=False)
    half = len(view.walks) // 2
    for i, (walk, shape) in enumerate(zip(view.walks, view.shapes, strict=True)):
        steps = Text(" → ").join(_node(view, node) for node in walk)
        table.add_row("u" if i < half else "v", steps, " → ".join(_coordinates(d) for d in shape))
    return table


def _identity_table(view: View) -> Table:
    table = Table("node", "hits in walks from u", "hits in walks from v", box=None, pad_edge=False)
    for node, (g_u, g_v) in view.identities.items():
        shared = any(g_u) and any(g_v)
        table.add_row(_node(view, node), *(" ".join(map(str, g)) for g in (g_u, g_v)), style="bold" if shared else "")
    return table


def _node(view: View, node: int) -> Text:
    if node < 0:
        return Text("·")
    if node in (view.src, view.dst):
        return Text("u" if node == view.src else "v", style="cyan" if node == view.src else "magenta")
    g_u, g_v = view.identities[node]
    return Text(f"n{node}", style="bold yellow" if any(g_u) and any(g_v) else "")


def _coordinates(distances: tuple[float, float]) -> str:
    if distances[0] < 0:
        return "·"
    return "({},{})".format(*("∞" if np.isinf(d) else int(d) for d in distances))
