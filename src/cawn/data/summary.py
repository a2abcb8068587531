"""A network in the few numbers that decide how it should be learned."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from cawn.data.dates import is_unix_seconds
from cawn.data.events import Events
from cawn.data.reading import Reading
from cawn.systems.cawn.decays import LADDERS

_SPANS = ((86_400, "days"), (3_600, "hours"), (60, "minutes"), (1, "seconds"))


def describe(events: Events) -> dict[str, Any]:
    """Nodes, links, span, ties, repeats, self-loops, tau, and the decays that follow from it."""
    low, high = np.minimum(events.src, events.dst).astype(np.int64), np.maximum(events.src, events.dst)
    pairs = len(np.unique(low << 32 | high))
    times = len(np.unique(events.t))
    ladder = LADDERS["wide"]
    return {
        "nodes": events.num_nodes,
        "links": len(events),
        "start": events.t[0].item() if len(events) else None,
        "end": events.t[-1].item() if len(events) else None,
        "ties": len(events) - times,
        "repeats": len(events) - pairs,
        "self_loops": int((events.src == events.dst).sum()),
        "link_attributes": 0 if events.msg is None else events.msg.shape[1],
        "node_attributes": 0 if events.x is None else events.x.shape[1],
        "tau": events.intensity,
        "alpha": [ladder[0] * events.intensity, ladder[-1] * events.intensity],
    }


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
    )
    lines = [f"{found['nodes']:,} nodes, {found['links']:,} links{with_attributes}; {shares}", _when(found)]
    if found["tau"] > 0:
        low, high = found["alpha"]
        lines.append(f"suggested decays: alpha from {low:.2g} to {high:.2g}")
    return "\n".join(lines)


def _when(found: dict[str, Any]) -> str:
    """The period of the links, and how long an average node takes from link to link."""
    if not found["links"]:
        return "no links, so there is nothing to learn from"
    if not found["tau"] > 0:
        return f"all links are at {moment(found['start'])}, so none is earlier than another"
    time, size, name = 1 / found["tau"], 1, "units of time"
    if is_unix_seconds(found["start"]):
        size, name = next((size, name) for size, name in _SPANS if time >= size or size == 1)
    period = f"from {moment(found['start'])} to {moment(found['end'])}"
    return f"{period}; an average node links every {time / size:,.3g} {name} (1/tau)"


def as_written(t: float, reading: Reading | None) -> str:
    """A time as a user writes it: a date where the data had dates, else the number itself."""
    if reading is None or not reading.dates:
        return repr(t)
    if isinstance(t, float):
        return moment(t)
    text = str(np.datetime64(t, reading.unit))
    return text.removesuffix("T00:00:00")


def moment(t: float) -> str:
    """A time as text: a date where it looks like Unix seconds."""
    if is_unix_seconds(t):
        date = datetime.fromtimestamp(t, UTC)
        fraction = f".{date.microsecond:06d}".rstrip("0") if date.microsecond else ""
        if t % 86_400 == 0:
            return f"{date:%Y-%m-%d}"
        return f"{date:%Y-%m-%dT%H:%M:%S}{fraction}"
    return str(t) if isinstance(t, int) else f"{t:.15g}"
