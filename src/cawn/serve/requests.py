"""What clients send, as Structs: each one is a JSON body, its checks, its schema and what it asks of `Service`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from cawn.learn.calibration import FITTED_PRIOR
from cawn.serve.links import SubmittedLinks
from cawn.serve.problems import Problem
from cawn.walks.candidates import KINDS

MAX_NAME = 1_000  # characters of a node name, a link id or an attribute
MAX_TIME = 64  # characters of a date
MAX_PAIRS = 10_000  # in one request
MAX_LINKS = 100_000
MAX_CANDIDATES = 10_000
MAX_RANKED = 1_000

Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Text = Annotated[str, Meta(max_length=MAX_NAME)]
Name = Annotated[Integer | Text, Meta(description="names and ids are strings, or integers of 64 bits")]
Time = Annotated[
    Integer | float | Annotated[str, Meta(max_length=MAX_TIME)],
    Meta(description="a time is a finite number in the unit of the data, or an ISO date such as 2016-01-23"),
]
Value = Annotated[Integer | float | Text, Meta(description="attributes are finite numbers or strings")]
Attributes = Annotated[
    list[Value] | dict[str, Value], Meta(description="attributes are a list of values, or an object of them by name")
]
Prior = Annotated[float, Meta(gt=0, lt=1, description="prior is the assumed share of positives, between 0 and 1")]
Strict = Annotated[bool, Meta(description="strict is true or false: whether unknown names are refused")]
Kind = Annotated[
    Literal["recent", "two hops", "popular"], Meta(description=f"kinds of candidates are {', '.join(KINDS)}")
]
_LINKS, _PAIRS = Meta(max_length=MAX_LINKS), Meta(max_length=MAX_PAIRS)


class Body(Struct, forbid_unknown_fields=True):
    """A JSON object, one of the forms of a route's body."""

    example: ClassVar[dict[str, Any]] = {}
    sign: ClassVar[tuple[str, type]] = ("", object)  # a field and the type of its value, which tell this form

    def to_query(self) -> Any:
        """What the service is asked."""
        return self


class Link(Body, gc=False):
    example = {"src": "alice", "dst": "bob", "t": 1082040961.0}
    src: Name
    dst: Name
    t: Time
    id: Name | None = None
    attributes: Attributes | None = None

    def to_query(self) -> SubmittedLinks:
        return LinkRows([self]).to_query()


class LinkRows(Body):
    example = {"links": [{"src": "alice", "dst": "bob", "t": 1082040961.0, "id": "e1"}]}
    sign = ("links", object)
    links: Annotated[list[Link], _LINKS]

    def to_query(self) -> SubmittedLinks:
        src, dst, t = [row.src for row in self.links], [row.dst for row in self.links], [row.t for row in self.links]
        attributes = _all_or_none([row.attributes for row in self.links], "links", "attributes")
        return SubmittedLinks(src, dst, t, _alike(attributes), _some([row.id for row in self.links]))


class LinkColumns(Body):
    example = {"src": ["alice", "carol"], "dst": ["bob", "dave"], "t": [1082040961.0, 1082040975.0]}
    sign = ("src", list)
    src: Annotated[list[Name], _LINKS]
    dst: Annotated[list[Name], _LINKS]
    t: Annotated[list[Time], _LINKS]
    ids: Annotated[list[Name | None], _LINKS] | None = None
    attributes: list[Attributes] | dict[str, list[Value]] | None = None

    def to_query(self) -> SubmittedLinks:
        columns, attributes = {"src": self.src, "dst": self.dst, "t": self.t, "ids": self.ids}, self.attributes
        if isinstance(attributes, dict):
            _check_size(columns | {f"attributes.{name}": column for name, column in attributes.items()})
            rows = zip(*attributes.values(), strict=True)
            attributes = [dict(zip(attributes, row, strict=True)) for row in rows] or [{} for _ in self.src]
        _check_size(columns | {"attributes": attributes})
        return SubmittedLinks(self.src, self.dst, self.t, _alike(attributes), _some(self.ids))


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs to score: columns of one length. Without `t`: at the time just after the newest link."""

    src: list[Name]
    dst: list[Name]
    t: list[Time] | None
    prior: float = FITTED_PRIOR
    strict: bool = False

    def __len__(self) -> int:
        return len(self.src)


class Pair(Body, gc=False):
    src: Name
    dst: Name
    t: Time | None = None


class Question(Body, kw_only=True):
    prior: Prior = FITTED_PRIOR
    strict: Strict = False


class PairRows(Question):
    example = {"pairs": [{"src": "alice", "dst": "bob", "t": 1082050000.0}]}
    sign = ("pairs", object)
    pairs: Annotated[list[Pair], _PAIRS]

    def to_query(self) -> Pairs:
        t: Any = _all_or_none([pair.t for pair in self.pairs], "pairs", "t")
        return Pairs([pair.src for pair in self.pairs], [pair.dst for pair in self.pairs], t, self.prior, self.strict)


class PairColumns(Question):
    """A single value is used for all pairs."""

    example = {"src": "alice", "dst": ["bob", "carol"]}
    src: Name | Annotated[list[Name], _PAIRS]
    dst: Name | Annotated[list[Name], _PAIRS]
    t: Time | Annotated[list[Time], _PAIRS] | None = None

    def to_query(self) -> Pairs:
        given = {"src": self.src, "dst": self.dst, "t": self.t}
        size = _check_size({name: column for name, column in given.items() if isinstance(column, list)})
        src, dst, t = (column if isinstance(column, list) else [column] * size for column in given.values())
        return Pairs(src, dst, None if self.t is None else t, self.prior, self.strict)  # type: ignore[arg-type]


LINKS = (LinkRows, LinkColumns, Link)
PAIRS = (PairRows, PairColumns)


class RankQuery(Question):
    example = {"src": "alice", "k": 3}
    src: Name
    t: Time | None = None
    k: Annotated[int, Meta(ge=1, le=MAX_RANKED, description=f"k is an integer from 1 to {MAX_RANKED:,}")] = 10
    candidates: Annotated[
        Annotated[list[Name], Meta(min_length=1, max_length=MAX_CANDIDATES)] | Literal["all"] | None,
        Meta(description='candidates are a list of names, or "all"'),
    ] = None
    kinds: Annotated[tuple[Kind, ...], Meta(min_length=1)] = KINDS  # type: ignore[assignment]


class ExplainQuery(Question):
    example = {"src": "alice", "dst": "bob"}
    src: Name
    dst: Name
    t: Time | None = None


def _check_size(columns: dict[str, Any]) -> int:
    """The length of all columns; 1 if there is none."""
    sizes = {name: len(column) for name, column in columns.items() if column is not None}
    if len(set(sizes.values())) > 1:
        found = ", ".join(f"{size:,} {name}" for name, size in sizes.items())
        raise Problem("invalid", f"{found}: columns must have one length")
    return next(iter(sizes.values()), 1)


def _some(column: list[Any] | None) -> list[Any] | None:
    return None if column is None or column.count(None) == len(column) else column


def _all_or_none(column: list[Any], rows: str, field: str) -> list[Any] | None:
    """A column that all rows have, or none."""
    if (found := _some(column)) is not None and None in found:
        where = f"{rows}[{column.index(None)}] has no {field}"
        raise Problem("invalid", f"{where}, but others have; give it for all or for none")
    return found


def _alike(attributes: list[Any] | None) -> list[Any] | None:
    """The attributes of links: lists of one length, or objects."""
    sizes = [len(each) if isinstance(each, list) else -1 for each in attributes or ()]
    if len(set(sizes)) > 1:
        i = next(i for i, size in enumerate(sizes) if size != sizes[0])
        raise Problem("invalid", f"the attributes of links 0 and {i} differ: give as many for each, or all by name")
    return attributes
