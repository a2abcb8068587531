"""Attributes of links and nodes: what their columns hold, and how they are encoded as inputs of the network.

An encoder is fitted on training links only, so that no information leaks from validation and test links.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from cawn.checks import Array
from cawn.data.hashing import hash_ids
from cawn.errors import DataError, brief

AnyEvents = TypeVar("AnyEvents", bound=Any)  # `Events`, whose module imports this one
Kind = Literal["number", "category", "presence"]

MAX_LEVELS = 32  # levels of a category that is encoded one-hot
BUCKETS = 32  # hash buckets of a category with more levels
MAX_CODES = 1 << 24  # levels of any category: float32 represents these integers exactly
MAX_DEVIATIONS = 10.0  # standardised numbers are clipped here


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column of attributes as read."""

    name: str
    kind: Kind = "number"  # or "category" (stored as codes), or "presence" of a node in the table of nodes (1 or 0)
    levels: tuple[str, ...] = ()  # the names of the codes 0, 1, 2, ... of a category


Columns = list[tuple[Array, Attribute]]  # the values of each


@dataclass(frozen=True, slots=True)
class Feature(Attribute):
    """How one column is encoded, as `width` inputs of the network.

    A number is standardised by `mean` and `std` (std is 0 for a column that is constant in training, which is encoded
    as 0), or used as it is if these are None. A category is one-hot: one input for each of `levels` and one for all
    others; without levels, `width` buckets that the names of its levels are hashed into. Presence is used as it is.
    """

    width: int = 1
    mean: float | None = None
    std: float | None = None

    @classmethod
    def fit(cls, values: Array, column: Attribute, *, standardise: bool) -> Feature:
        """Fit to the values [n] of training links or nodes."""
        if column.kind == "presence" or (column.kind == "number" and not standardise):
            return cls(column.name, column.kind)
        if column.kind == "number":
            exact = values.astype(np.float64)
            constant = len(exact) == 0 or exact.min() == exact.max()
            mean, std = (0.0, 0.0) if constant else (float(exact.mean()), float(exact.std()))
            return cls(column.name, "number", mean=mean, std=std)
        codes, count = np.unique(values.astype(np.int64), return_counts=True)
        if len(codes) > MAX_LEVELS:
            return cls(column.name, "category", width=BUCKETS)
        common_first = sorted(zip((-count).tolist(), (column.levels[code] for code in codes.tolist()), strict=True))
        levels = tuple(level for _, level in common_first)
        return cls(column.name, "category", width=len(levels) + 1, levels=levels)

    def encode(self, values: Array, column: Attribute, into: Array) -> None:
        """Write the encoding of `values` [n] into zeros [n, width]."""
        if self.kind == "category":
            place = self._places(column.levels)[values.astype(np.int64)]
            into[np.arange(len(values)), place] = 1
        elif self.mean is None or self.std is None:
            into[:, 0] = values
        elif self.std > 0:
            scaled = (values.astype(np.float64) - self.mean) / self.std
            into[:, 0] = np.clip(scaled, -MAX_DEVIATIONS, MAX_DEVIATIONS)

    def _places(self, levels: Sequence[str]) -> Array:
        """The input that each level of a column sets to 1."""
        if not self.levels:
            return (hash_ids(levels) % np.uint64(self.width)).astype(np.int64)
        known = {level: i for i, level in enumerate(self.levels)}
        return np.array([known.get(level, len(known)) for level in levels], np.int64)


@dataclass(frozen=True, slots=True)
class Encoder:
    """How the attributes of links (`msg`) and of nodes (`x`) are encoded; empty tuples where there are none."""

    msg: tuple[Feature, ...]
    x: tuple[Feature, ...]

    @classmethod
    def fit(cls, events: Any, train: Array, *, standardise: bool = True) -> Encoder | None:
        """Fit to the links at positions `train` and their nodes; None where there is nothing to encode."""
        links, nodes = _columns(events.msg, events.columns, "msg"), _columns(events.x, events.node_columns, "x")
        if not any(standardise or column.kind == "category" for _, column in (*links, *nodes)):
            return None
        seen = np.zeros(events.num_nodes, bool)
        seen[events.src[train]] = seen[events.dst[train]] = True
        seen &= _present(nodes, events.num_nodes)
        msg, x = (
            tuple(Feature.fit(values[rows], column, standardise=standardise) for values, column in columns)
            for rows, columns in ((train, links), (seen, nodes))
        )
        return cls(msg, x)

    def transform(self, events: AnyEvents) -> AnyEvents:
        """A copy with encoded attributes. Unknown levels of a category become "other"."""
        if events.encoder == self:
            return events
        if events.encoder is not None:
            raise DataError("these attributes are encoded for another run; read the links from their file")
        links, nodes = _columns(events.msg, events.columns, "msg"), _columns(events.x, events.node_columns, "x")
        _refuse_difference(self.msg, links, "link")
        if nodes:
            _refuse_difference(self.x, nodes, "node")
        msg, x = encode(self.msg, links), encode(self.x, nodes)
        if x is not None:
            x[~_present(nodes, len(x))] = 0
        encoded: AnyEvents = events.replace(msg=msg, x=x, columns=(), node_columns=(), encoder=self)
        return encoded

    @property
    def marks_presence(self) -> bool:
        """Whether nodes without attributes are marked: all their inputs are 0."""
        return any(feature.kind == "presence" for feature in self.x)

    @property
    def widths(self) -> tuple[int, int]:
        """The number of inputs of a link and of a node."""
        return sum(feature.width for feature in self.msg), sum(feature.width for feature in self.x)

    def to_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Any) -> Encoder:
        """The inverse of `to_dict`, also after JSON; DataError for anything else."""
        try:
            if set(found) != {"msg", "x"}:
                raise ValueError("other keys")
            return cls(*(tuple(map(_feature, found[of])) for of in ("msg", "x")))
        except (TypeError, KeyError, ValueError) as error:
            raise DataError("not the description of encoded attributes") from error


def _columns(values: Array | None, columns: tuple[Attribute, ...], prefix: str) -> Columns:
    """The columns of an array of attributes, and what they hold: numbers, unless `columns` says otherwise."""
    if values is None:
        return []
    columns = columns or tuple(Attribute(f"{prefix}[{i}]") for i in range(values.shape[1]))
    return [(values[:, i], column) for i, column in enumerate(columns)]


def _present(nodes: Columns, num_nodes: int) -> Array:
    """Which nodes have attributes."""
    marks = [values > 0 for values, column in nodes if column.kind == "presence"]
    return marks[0] if marks else np.ones(num_nodes, bool)


def encode(features: tuple[Feature, ...], columns: Columns) -> Array | None:
    """Columns as inputs of the network: [n, width]; None without columns."""
    if not columns:
        return None
    ends = np.cumsum([feature.width for feature in features]).tolist()
    encoded = np.zeros((len(columns[0][0]), ends[-1]), np.float32)
    for feature, (values, column), end in zip(features, columns, ends, strict=True):
        feature.encode(values, column, encoded[:, end - feature.width : end])
    return encoded


def _refuse_difference(features: tuple[Feature, ...], columns: Columns, of: str) -> None:
    """Refuse columns other than those the encoder was fitted on: their kinds and order count, not their names."""
    if len(features) != len(columns):
        listed = ", ".join(brief(feature.name) for feature in features[:12]) or "none"
        raise DataError(
            f"the new links have {len(columns)} {of} attributes, the model's {len(features)} ({listed}); give the same"
        )
    for feature, (_, column) in zip(features, columns, strict=True):
        if feature.kind != column.kind:
            raise DataError(
                f"{of} attribute {brief(column.name)} is a {column.kind}, but the model was trained with a "
                f"{feature.kind} ({brief(feature.name)}); give the same columns"
            )


def _feature(found: Any) -> Feature:
    """One feature of a JSON file; an error if it is not one."""
    feature = Feature(**found | {"levels": tuple(found["levels"])})
    scale: Any = (feature.mean, feature.std)
    is_scale = all(isinstance(number, float) and math.isfinite(number) for number in scale) and scale[1] >= 0
    widths = {"category": len(feature.levels) + 1 if feature.levels else BUCKETS}
    right = (
        isinstance(feature.name, str)
        and feature.kind in ("number", "category", "presence")
        and (type(feature.width), feature.width) == (int, widths.get(feature.kind, 1))
        and (scale == (None, None) or is_scale)
        and all(isinstance(level, str) for level in feature.levels)
        and len(feature.levels) <= (MAX_LEVELS if feature.kind == "category" else 0)
    )
    if not right:
        raise ValueError("other values")
    return feature
