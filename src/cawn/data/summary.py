"""Statistics of a network, as a dictionary and in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from cawn.data.columns import blocks
from cawn.data.decays import ladder
from cawn.data.events import Events
from cawn.data.stored import matching_index
from cawn.data.times import format_time, is_unix_seconds, usual
from cawn.kernels.keys import pair_key

_BLOCK = 1 << 20  # links that are looked at together
_SPANS = ((86_400, "days"), (3_600, "hours"), (60, "minutes"), (1, "seconds"))


def describe(events: Events) -> dict[str, Any]:
    """Counts of nodes, links, ties, repeated pairs, self-loops and attributes; time range; tau; suggested decays.

    `usual` are the first and last time, and the number, of the links that are not dated far from all others.

    The number of repeated pairs is None for an index folder without an index of pairs: counting them takes memory.
    """
    pairs = _count_pairs(events)
    changes = self_loops = 0
    for first, (src, dst, t) in blocks(_BLOCK, events.src, events.dst, events.t):
        changes += int(np.count_nonzero(t[1:] != t[:-1])) + (first == 0 or t[0] != events.t[first - 1])
        self_loops += int(np.count_nonzero(src == dst))
    slowest, *_, fastest = ladder(events.intensity)
    common = events.t[usual(events.t)]
    return {
        "nodes": events.num_nodes,
        "links": len(events),
        "start": events.t[0].item() if len(events) else None,
        "end": events.t[-1].item() if len(events) else None,
        "usual": [common[0].item(), common[-1].item(), len(common)] if len(events) else None,
        "ties": int(len(events) - changes),
        "repeats": None if pairs is None else len(events) - pairs,
        "self_loops": self_loops,
        "link_attributes": 0 if events.msg is None else events.msg.shape[1],
        "node_attributes": 0 if events.x is None else events.x.shape[1],
        "tau": events.intensity,
        "alpha": [slowest, fastest],
    }


def _count_pairs(events: Events) -> int | None:
    """The number of pairs with links, in either direction."""
    stored = matching_index(events)
    if stored is not None:
        keys = stored.index.get("pairs.keys")
        return None if keys is None else len(keys)
    low, high = np.minimum(events.src, events.dst), np.maximum(events.src, events.dst)
    return len(np.unique(pair_key(low, high)))


def in_words(found: dict[str, Any]) -> str:
    """The result of `describe` as a few lines of text."""
    links = max(found["links"], 1)
    attributes = [f"{found[f'{kind}_attributes']} {kind}" for kind in ("link", "node") if found[f"{kind}_attributes"]]
    with_attributes = f", {' and '.join(attributes)} attributes" if attributes else ""
    shares = ", ".join(
        f"{found[key] / links:.0%} {words}"
        for key, words in (
            ("repeats", "repeat an earlier pair (in either direction)"),
            ("ties", "share a time"),
            ("self_loops", "self-loops"),
        )
        if found[key] is not None
    )
    lines = [f"{found['nodes']:,} nodes, {found['links']:,} links{with_attributes}; {shares}", _when(found)]
    if found["tau"] > 0:
        low, high = found["alpha"]
        lines.append(f"suggested decays: alpha from {low:.2g} to {high:.2g}")
    return "\n".join(lines)


def _when(found: dict[str, Any]) -> str:
    """The time range, and the mean time between two links of a node."""
    if not found["links"]:
        return "no links, so there is nothing to learn from"
    if not found["tau"] > 0:
        return f"all links are at {format_time(found['start'])}, so no link has a history"
    first, last, count = found["usual"]
    time, size, name = 1 / found["tau"], 1, "units of time"
    if is_unix_seconds(first):
        size, name = next((size, name) for size, name in _SPANS if time >= size or size == 1)
    period = f"from {format_time(first)} to {format_time(last)}"
    if count < found["links"]:
        ends = f"{format_time(found['start'])} to {format_time(found['end'])}"
        period += f" (but for {found['links'] - count:,} links far from these, which range from {ends})"
    return f"{period}; an average node links every {time / size:,.3g} {name} (1/tau)"
