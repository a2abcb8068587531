"""Compile ahead of time what extending an index needs."""

from __future__ import annotations

import numpy as np

from cawn.data.events import Events
from cawn.data.names import NameIndex
from cawn.data.updates import GrowingEvents, NewLinks
from cawn.systems.indexed import IndexedSystem

LINKS = 16


def compile_growth(system: IndexedSystem, events: Events, names: NameIndex) -> None:
    """Extend an index of the last few links: by links in order, by a new node and by late links; and a table of the
    same kind of names by one. Changes nothing."""
    few = events[-LINKS:]
    nodes, ends = np.unique(np.concatenate([few.src, few.dst]), return_inverse=True)
    src, dst = ends.astype(few.src.dtype).reshape(2, -1)
    attributes = {} if few.x is None else {"x": few.x[nodes]}
    growing = GrowingEvents(few.grown({"src": src, "dst": dst} | attributes, len(nodes)))
    scorer = system.with_module(system.module).scorer(growing.events)
    known = NameIndex.of(np.array(["a"], object) if names.strings else np.arange(1))
    known.extended(["b" if names.strings else 1])
    names = NameIndex.of(np.arange(len(nodes) + 1))
    for t in (few.t[-1:], few.t[len(few) // 2 :][:1]):  # the second is late
        msg, link_id = few.msg, few.link_id
        msg, link_id = None if msg is None else msg[:1], None if link_id is None else link_id[:1]
        new = NewLinks(src[:1], np.array([len(nodes)], src.dtype), t, msg, link_id, names, [])
        scorer = scorer.extended(*growing.add(new))
