"""New links beside old ones: nodes found by name, new ones numbered after all others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cawn.events import NO_LINK_ID, Events
from cawn.name_index import NameIndex
from cawn.node_names import Spelling
from cawn.walks import query_times


def joined(held: Events, names: NameIndex, new: Events, spelling: Spelling) -> tuple[Events, NameIndex]:
    """Both together, and the names of all. Weights and negatives, which only training uses, are left out."""
    sides = []
    for side, ends in enumerate((new.src, new.dst)):
        different, at = np.unique(ends, return_inverse=True)
        given = new.labels[different].tolist()
        ids = spelling.ids(names, given, side)
        strange = np.flatnonzero(ids >= len(names))
        if len(strange):
            ids[strange] = len(names) + np.arange(len(strange))
            names = names.extended([spelling.spelled(given[i], side) for i in strange])
        sides.append((ids[at], different, ids))
    msg = None if held.msg is None or new.msg is None else np.concatenate([held.msg, new.msg])
    ids_of_links = None
    if held.link_id is not None or new.link_id is not None:
        ids_of_links = np.concatenate([_link_ids(held), _link_ids(new)])
    x, marks_presence = None, held.encoder is not None and held.encoder.marks_presence
    if held.x is not None:
        x = np.zeros((len(names), held.x.shape[1]), np.float32)
        x[: len(held.x)] = held.x
        for _, different, ids in sides:
            if new.x is not None:
                rows = new.x[different]
                given = rows.any(axis=1) if marks_presence else np.ones(len(rows), bool)
                x[ids[given]] = rows[given]
    t = np.concatenate([held.t, query_times(new.t, held.t.dtype)])
    src, dst = (np.concatenate([mine, ids]) for mine, (ids, *_) in zip((held.src, held.dst), sides, strict=True))
    both = Events(src, dst, t, msg, x=x, num_nodes=len(names), link_id=ids_of_links)
    both.encoder = held.encoder
    return both, names


def _link_ids(events: Events) -> npt.NDArray[np.uint64]:
    return np.full(len(events), NO_LINK_ID, np.uint64) if events.link_id is None else events.link_id
