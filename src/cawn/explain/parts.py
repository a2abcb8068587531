"""The parts of the model's input: groups of exact features, kinds of walks, times and attributes.

Each input of the network belongs to one part. A part that is left out takes the values of another pair, by default of
two strangers: nodes without any links.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cawn.caw.config import Config
from cawn.caw.features import columns
from cawn.checks import Array
from cawn.data.events import Events
from cawn.explain.distinct_walks import ENDED
from cawn.explain.shapley import interaction
from cawn.index.features import DEPTH, PairParts, part_widths

WALK_PARTS = ("repeated", "common", "longer", "apart")
TITLES = {
    "pair": "the pair's own history",
    "source": "the activity of the source",
    "destination": "the activity of the destination",
    "repeated": "walks along a repeated link",
    "common": "common neighbours",
    "longer": "longer paths",
    "apart": "walks that do not meet",
    "time": "link times along the walks",
    "attributes": "link and node attributes",
}


@dataclass(frozen=True)
class InputParts:
    """The parts that a model with these settings has, on this network; they are the players of its games.

    Exact features of the pair and of each end come first, then kinds of walks, with the exact features that count
    the same paths, then the times and attributes of the steps of walks.
    """

    names: tuple[str, ...]
    feature: Array  # [R] the part of each exact feature
    walk: Array  # [4] the part of each kind of walk, -1 if there is none
    time: int  # the part, or -1
    attributes: int
    time_columns: list[int]  # of X
    attribute_columns: list[int]

    @classmethod
    def of(cls, config: Config, events: Events, num_decays: int) -> InputParts:
        features = feature_parts(config.pair_parts, num_decays)
        x = columns(config, events)
        time_columns, attribute_columns = _positions(x, ("time",)), _positions(x, ("msg", "x"))
        kinds = [name for name in WALK_PARTS if name != "longer" or config.length > 1 or name in features]
        used = {*features, *kinds, *["time"] * config.time, *["attributes"] * bool(attribute_columns)}
        names = tuple(name for name in TITLES if name in used)
        number = {name: i for i, name in enumerate(names)}
        return cls(
            names,
            np.array([number[name] for name in features], np.int64),
            np.array([number[name] if name in kinds else -1 for name in WALK_PARTS]),
            number.get("time", -1),
            number.get("attributes", -1),
            time_columns,
            attribute_columns,
        )

    @property
    def walks(self) -> list[int]:
        """The parts that consist of walks."""
        return [part for part in self.walk.tolist() if part >= 0]

    @property
    def first_walks(self) -> int:
        """The number of parts before those of walks."""
        return min(self.walks)

    def pair_and_walks(self, table: Array) -> Array | None:
        """The interaction between the pair's own history and all walks: [B, 2^n] to [B]; None without such features."""
        if "pair" not in self.names:
            return None
        return interaction(table, self.coalition([self.names.index("pair")]), self.coalition(self.walks))

    def coalition(self, parts: Iterable[int]) -> int:
        """The coalition of these parts."""
        return sum(1 << part for part in parts)


def feature_parts(parts: PairParts, num_decays: int) -> list[str]:
    """The part of each column of `PairFeatures`.

    Shares of an end's links that go to the other end, and the number of its links since the last one of the pair,
    belong to the pair. Counts of links between one end and recent partners of the other belong to common neighbours;
    how often nodes link to one end right after a recent partner of the other belongs to longer paths.
    """
    found: list[str] = []
    if parts.rates:
        of_pair, end, directed_count = part_widths(num_decays)
        found += ["pair"] * of_pair
        for part in ("source", "destination"):
            found += [part] * (num_decays + 1) + ["pair"] * (end - num_decays - 1)
        if parts.directed:
            found += [part for part in ("pair", "source", "destination") for _ in range(directed_count)]
    two_steps = parts.widths(num_decays)[1] - 2 * parts.since - (2 + DEPTH) * parts.transitions
    for other in ("destination", "source"):  # the features of the source concern the destination, and vice versa
        found += ["pair"] * (2 * parts.since) + ["common"] * two_steps
        found += [other, "pair", *["longer"] * DEPTH] * parts.transitions
    return found


def walk_kinds(shapes: Array, side: Array, length: int) -> npt.NDArray[np.int64]:
    """How each walk meets the other side, as a position in WALK_PARTS: [n].

    The path through a node is as long as the steps of the walk to it, and those of the shortest walk of the other side
    to it. If the shortest path has one link, it is a repeated link; if it has two, there is a common neighbour.

    Args:
        shapes: [n, L, 2], see `DistinctWalks`.
        side: [n]
    """
    rows = np.arange(len(shapes))[:, None]
    position = np.arange(shapes.shape[1])
    own, other = shapes[rows, position, side[:, None]], shapes[rows, position, 1 - side[:, None]]  # [n, L]
    meets = (own != ENDED) & (own > 0) & (other <= length)  # a return to the start is not a path to the other side
    path = np.where(meets, position + other, 2 * length + 1).min(axis=1)
    repeated, common, longer, apart = range(len(WALK_PARTS))
    return np.select([path == 1, path == 2, path <= 2 * length], [repeated, common, longer], apart)


def _positions(input_columns: dict[str, slice], names: tuple[str, ...]) -> list[int]:
    parts = [input_columns[name] for name in names if name in input_columns]
    return [i for part in parts for i in range(part.start, part.stop)]
