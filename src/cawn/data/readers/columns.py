"""Which column is what: the usual spellings, and what the user said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cawn.data.reading import Column, Reading
from cawn.errors import DataError, brief

# Origin and destination are recognised together: `i` is a destination beside `u` and a source beside `j`.
_PAIRS = (
    ("src", "dst"),
    ("srcid", "dstid"),
    ("srcnode", "dstnode"),
    ("source", "target"),
    ("source", "destination"),
    ("source", "dest"),
    ("sourceid", "targetid"),
    ("sourceid", "destinationid"),
    ("sourcenode", "targetnode"),
    ("from", "to"),
    ("fromid", "toid"),
    ("fromnode", "tonode"),
    ("fromnodeid", "tonodeid"),
    ("u", "v"),
    ("u", "i"),
    ("i", "j"),
    ("user", "item"),
    ("userid", "itemid"),
    ("sender", "receiver"),
    ("sender", "recipient"),
    ("senderid", "receiverid"),
    ("senderid", "recipientid"),
    ("caller", "callee"),
    ("payer", "payee"),
    ("head", "tail"),
    ("node1", "node2"),
    ("nodea", "nodeb"),
)
_OPTIONAL = ("weight", "negative", "link_id")
_NODE_NAMES = ("node", "nodeid", "name", "id")
_TWO_SIDED = {("user", "item"), ("userid", "itemid")}
_TIMES = frozenset(
    (
        "t",
        "ts",
        "time",
        "timestamp",
        "timestamps",
        "unixtime",
        "unixts",
        "unixtimestamp",
        "epoch",
        "date",
        "datetime",
    )
)


@dataclass(frozen=True, slots=True)
class Roles:
    """What the user said of the columns; None where nothing was said."""

    src: Column | None
    dst: Column | None
    time: Column | None
    msg: tuple[Column, ...]
    categorical: tuple[Column, ...] = ()  # of msg
    weight: Column | None = None
    negative: Column | None = None
    link_id: Column | None = None

    @classmethod
    def of(
        cls,
        *,
        src: Column | None,
        dst: Column | None,
        time: Column | None,
        msg: Sequence[Column] | Column | None,
        categorical: Sequence[Column] | Column | None = None,
        **optional: Column | None,
    ) -> Roles:
        for role, column in ({"src": src, "dst": dst, "time": time} | optional).items():
            _refuse_non_column(role, column)
        chosen, categories = column_list("msg", msg), column_list("categorical", categorical)
        return cls(src, dst, time, tuple(dict.fromkeys((*chosen, *categories))), categories, **optional)


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of the columns that matter."""

    src: int
    dst: int
    time: int
    msg: tuple[int, ...]
    two_sided: bool  # sources and destinations have name spaces of their own
    prefixes: tuple[str, str] = ("src", "dst")
    categorical: frozenset[int] = frozenset()  # of msg
    weight: int | None = None
    negative: int | None = None
    link_id: int | None = None

    @property
    def optional(self) -> dict[str, int]:
        """The positions of weight, negative and link_id, where these were asked for."""
        found = {role: getattr(self, role) for role in _OPTIONAL}
        return {role: at for role, at in found.items() if at is not None}

    @property
    def needed(self) -> tuple[int, ...]:
        """Every position once, in the order src, dst, time, msg, weight, negative, link_id."""
        return tuple(dict.fromkeys((self.src, self.dst, self.time, *self.msg, *self.optional.values())))

    def narrowed(self) -> Layout:
        """The same columns in a table that holds nothing but the needed ones."""
        at = {old: new for new, old in enumerate(self.needed)}
        optional: dict[str, Any] = {role: at[old] for role, old in self.optional.items()}
        optional["msg"] = tuple(at[i] for i in self.msg)
        optional["categorical"] = frozenset(at[i] for i in self.categorical)
        return replace(self, src=at[self.src], dst=at[self.dst], time=at[self.time], **optional)


def find_layout(names: Sequence[str], roles: Roles, where: str, *, has_names: bool = True) -> Layout:
    """Assign the roles to columns called `names`, or say in one line why that cannot be done."""
    if not has_names:
        return _positional_layout(len(names), roles, names, where)
    plain = [_plain(name) for name in names]
    src = None if roles.src is None else find_column(roles.src, names, "src", where)
    dst = None if roles.dst is None else find_column(roles.dst, names, "dst", where)
    pair = ("", "")
    if src is None or dst is None:
        found = [
            (plain.index(a), plain.index(b), (a, b))
            for a, b in _PAIRS
            if plain.count(a) == plain.count(b) == 1 and src in (None, plain.index(a)) and dst in (None, plain.index(b))
        ]
        if len({(a, b) for a, b, _ in found}) != 1:
            problem = (
                "no columns that name the two ends of a link"
                if not found
                else "more than one choice for the two ends of a link"
            )
            raise DataError(f"{where}: {problem} among {_listed(names)}; say which with src and dst (--src and --dst)")
        src, dst, pair = found[0]
    time = None if roles.time is None else find_column(roles.time, names, "time", where)
    if time is None:
        times = [i for i, name in enumerate(plain) if name in _TIMES and i not in (src, dst)]
        if len(times) != 1:
            problem = "no column that names the time" if not times else "more than one choice for the time"
            raise DataError(f"{where}: {problem} among {_listed(names)}; say which with time (--time)")
        time = times[0]
    categorical = frozenset(_positions(roles.categorical, names, "categorical", where))
    return _checked(
        Layout(
            src,
            dst,
            time,
            _positions(roles.msg, names, "msg", where),
            pair in _TWO_SIDED,
            _prefixes(names, src, dst),
            categorical,
            **_optional_positions(roles, names, where),
        ),
        where,
    )


def reading_of(
    layout: Layout, names: Sequence[str], *, has_names: bool = True, bipartite: bool | None = None
) -> Reading:
    """How the next file like this one can be read: columns by name where that is unique, else by position."""
    occurrences = Counter(names) if has_names else Counter[str]()

    def column(i: int) -> Column:
        return names[i] if names[i] and occurrences[names[i]] == 1 else i

    return Reading(
        column(layout.src),
        column(layout.dst),
        column(layout.time),
        msg=tuple(map(column, layout.msg)),
        categorical=tuple(column(i) for i in layout.msg if i in layout.categorical),
        bipartite=layout.two_sided if bipartite is None else bipartite,
        **{role: column(i) for role, i in layout.optional.items()},  # type: ignore[arg-type]
    )


def find_node_column(names: Sequence[str], where: str) -> int:
    """The column of a table of nodes that holds their names."""
    plain = [_plain(name) for name in names]
    for usual in _NODE_NAMES:
        if plain.count(usual) == 1:
            return plain.index(usual)
    raise DataError(f"{where}: no column that names the nodes among {_listed(names)}; say which (node)")


def recognised(names: Sequence[str]) -> bool:
    """Whether a line of text holds the usual names of both ends of a link."""
    plain = {_plain(name) for name in names}
    return any(a in plain and b in plain for a, b in _PAIRS)


def _positional_layout(width: int, roles: Roles, names: Sequence[str], where: str) -> Layout:
    chosen = [
        default if said is None else find_column(said, names, role, where, has_names=False)
        for role, said, default in (("src", roles.src, 0), ("dst", roles.dst, 1), ("time", roles.time, 2))
    ]
    if max(chosen) >= width:
        raise DataError(
            f"{where}: {width} column(s), expected at least source, destination and time; is the delimiter right?"
        )
    categorical = frozenset(_positions(roles.categorical, names, "categorical", where, has_names=False))
    msg = _positions(roles.msg, names, "msg", where, has_names=False)
    src, dst, time = chosen
    optional = _optional_positions(roles, names, where, has_names=False)
    return _checked(Layout(src, dst, time, msg, two_sided=False, categorical=categorical, **optional), where)


def _checked(layout: Layout, where: str) -> Layout:
    if len({layout.src, layout.dst, layout.time}) < 3:
        raise DataError(f"{where}: source, destination and time must be three different columns")
    if layout.negative in (layout.src, layout.dst, layout.time):
        raise DataError(
            f"{where}: the negatives need a column of their own, not that of sources, destinations or times"
        )
    return layout


def column_list(role: str, columns: Sequence[Column] | Column | None) -> tuple[Column, ...]:
    """One column or several, as a tuple."""
    if columns is not None and not isinstance(columns, str | int | Sequence):
        raise DataError(f"{role}={brief(columns)}: name a column or a list of columns")
    chosen = () if columns is None else (columns,) if isinstance(columns, str | int) else tuple(columns)
    for column in chosen:
        _refuse_non_column(role, column)
    return chosen


def _refuse_non_column(role: str, column: object) -> None:
    if column is not None and (not isinstance(column, str | int) or isinstance(column, bool)):
        raise DataError(f"{role}={brief(column)}: name a column, or give its position from 0")


def _positions(
    columns: Sequence[Column], names: Sequence[str], role: str, where: str, *, has_names: bool = True
) -> tuple[int, ...]:
    """Every position once."""
    return tuple(dict.fromkeys(find_column(column, names, role, where, has_names=has_names) for column in columns))


def _optional_positions(roles: Roles, names: Sequence[str], where: str, *, has_names: bool = True) -> dict[str, Any]:
    said = {role: getattr(roles, role) for role in _OPTIONAL}
    return {
        role: find_column(column, names, role, where, has_names=has_names)
        for role, column in said.items()
        if column is not None
    }


def find_column(column: Column, names: Sequence[str], role: str, where: str, *, has_names: bool = True) -> int:
    """The position of a column given by name or position."""
    if isinstance(column, int):
        if not 0 <= column < len(names):
            raise DataError(f"{where}: {role}={brief(column)}, but there are {len(names)} columns, counted from 0")
        return column
    if not has_names:
        raise DataError(
            f"{where}: {role}={brief(column)}, but the file has no header; give positions from 0, or header=True"
        )
    matches = [i for i, name in enumerate(names) if name == column]
    if len(matches) != 1:
        problem = "there is no such column" if not matches else "more than one column has this name"
        raise DataError(f"{where}: {role}={brief(column)}, but {problem} among {_listed(names)}")
    return matches[0]


def _prefixes(names: Sequence[str], src: int, dst: int) -> tuple[str, str]:
    """'user_id', 'item_id' -> 'user', 'item'."""
    first, second = (
        names[i].strip().lower().removesuffix("_id").removesuffix("id").strip("_") or names[i] for i in (src, dst)
    )
    return (first, second) if first != second else ("src", "dst")


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


def _listed(names: Sequence[str]) -> str:
    names = [name for name in names if name]
    shown = ", ".join(brief(name, 24) for name in names[:12])
    return f"{shown}, ... ({len(names)} columns)" if len(names) > 12 else shown or "no columns"
