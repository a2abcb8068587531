"""Which column of a file holds what: as the user says or a run has recorded (`Reading`), and where it is (`Layout`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, get_args

from cawn.errors import DataError, brief

Column = str | int
Unit = Literal["s", "ms", "us", "ns"]
OPTIONAL_COLUMNS = ("weight", "negative", "link_id")
# Source and destination are recognised together: `i` is a destination beside `u` and a source beside `j`.
_ENDS = (
    *(("src", "dst"), ("srcid", "dstid"), ("srcnode", "dstnode")),
    *(("source", "target"), ("source", "destination"), ("source", "dest")),
    *(("sourceid", "targetid"), ("sourceid", "destinationid"), ("sourcenode", "targetnode")),
    *(("from", "to"), ("fromid", "toid"), ("fromnode", "tonode"), ("fromnodeid", "tonodeid")),
    *(("u", "v"), ("u", "i"), ("i", "j"), ("user", "item"), ("userid", "itemid")),
    *(("sender", "receiver"), ("sender", "recipient"), ("senderid", "receiverid"), ("senderid", "recipientid")),
    *(("caller", "callee"), ("payer", "payee"), ("head", "tail"), ("node1", "node2"), ("nodea", "nodeb")),
)
_BIPARTITE = {("user", "item"), ("userid", "itemid")}
_TIMES = {"t", "ts", "time", "timestamp", "timestamps", "unixtime", "unixts", "unixtimestamp", "epoch"}
_TIMES |= {"date", "datetime"}
_NODES = ("node", "nodeid", "name", "id")


@dataclass(frozen=True, slots=True)
class Reading:
    """The columns and conventions of a file or table of links; None where not given, or not recorded."""

    src: Column | None = None  # by name, or by position where there is no header
    dst: Column | None = None
    time: Column | None = None
    msg: tuple[Column, ...] = ()  # link attributes
    bipartite: bool | None = None  # whether a source and a destination of the same name are different nodes
    dates: bool = False  # whether times were written as dates; the events have them as Unix time
    weight: Column | None = None
    negative: Column | None = None  # the user's negatives
    link_id: Column | None = None
    categorical: tuple[Column, ...] = ()  # those of `msg` that hold categories
    unit: Unit = "s"  # of times that were dates: seconds, unless seconds would round some of them

    @classmethod
    def of(cls, *, msg: Any = None, categorical: Any = None, bipartite: bool | None = None, **columns: Any) -> Reading:
        """From the arguments of `cawn.read`, checked. Categorical columns are attributes even if `msg` omits them."""
        if bipartite is not None and not isinstance(bipartite, bool):
            raise DataError(f"bipartite={brief(bipartite)}: give True or False")
        for role, column in columns.items():
            _check_column(role, column)
        categories = column_list("categorical", categorical)
        attributes = tuple(dict.fromkeys((*column_list("msg", msg), *categories)))
        return cls(bipartite=bipartite, msg=attributes, categorical=categories, **columns)

    def completed(self, recorded: Reading | None, names: Sequence[str], has_names: bool) -> Reading:
        """With those recorded columns that are not given here and that a file with these columns has."""
        if recorded is None:
            return self

        def has(column: Column | None) -> bool:
            if isinstance(column, str):
                return has_names and column in names
            return column is not None and not has_names and column < len(names)

        found: dict[str, Any] = {
            role: getattr(recorded, role)
            for role in ("src", "dst", "time", "link_id")
            if getattr(self, role) is None and has(getattr(recorded, role))
        }
        if not self.msg and recorded.msg and all(map(has, recorded.msg)):
            found |= {"msg": recorded.msg, "categorical": recorded.categorical}
        return replace(self, **found)

    def to_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return asdict(self) | {"msg": list(self.msg), "categorical": list(self.categorical)}

    @classmethod
    def from_dict(cls, found: Any) -> Reading:
        """The inverse of `to_dict`; DataError for anything else."""
        columns = dict(found) if isinstance(found, dict) else {}
        dates, unit = columns.pop("dates", False), columns.pop("unit", "s")
        known = columns.keys() <= {field.name for field in fields(cls)}
        if not columns or not known or not isinstance(dates, bool) or unit not in get_args(Unit):
            raise DataError("not the description of how a file was read")
        return replace(cls.of(**columns), dates=dates, unit=unit)


def column_list(role: str, columns: Sequence[Column] | Column | None) -> tuple[Column, ...]:
    """One column or several, as a tuple."""
    if columns is not None and not isinstance(columns, str | int | Sequence):
        raise DataError(f"{role}={brief(columns)}: name a column or a list of columns")
    chosen = () if columns is None else (columns,) if isinstance(columns, str | int) else tuple(columns)
    for column in chosen:
        _check_column(role, column)
    return chosen


def _check_column(role: str, column: object) -> None:
    if column is not None and (not isinstance(column, str | int) or isinstance(column, bool)):
        raise DataError(f"{role}={brief(column)}: name a column, or give its position from 0")


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a file or table."""

    where: str  # the file, for messages
    names: list[str]
    is_given: bool = True  # whether the names are those of the file, and not made up

    def find(self, role: str, column: Column) -> int:
        """The position of a column given by name or position."""
        asked = f"{self.where}: {role}={brief(column)}, but"
        if isinstance(column, int):
            if not 0 <= column < len(self.names):
                raise DataError(f"{asked} there are {len(self.names)} columns, counted from 0")
            return column
        if not self.is_given:
            raise DataError(f"{asked} the file has no header; give positions from 0, or header=True")
        matches = [i for i, name in enumerate(self.names) if name == column]
        if len(matches) != 1:
            problem = "there is no such column" if not matches else "more than one column has this name"
            raise DataError(f"{asked} {problem} among {self.listed}")
        return matches[0]

    def find_nodes(self) -> int:
        """The column of node names in a table of nodes."""
        plain = [_plain(name) for name in self.names]
        for usual in _NODES:
            if plain.count(usual) == 1:
                return plain.index(usual)
        raise DataError(f"{self.where}: no column of node names among {self.listed}; say which (node)")

    @property
    def listed(self) -> str:
        """The names, for messages."""
        names = [name for name in self.names if name]
        shown = ", ".join(brief(name, 24) for name in names[:12])
        return f"{shown}, ... ({len(names)} columns)" if len(names) > 12 else shown or "no columns"


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of the columns that matter."""

    src: int
    dst: int
    time: int  # -1 if there is none
    msg: tuple[int, ...] = ()
    categorical: frozenset[int] = frozenset()  # of msg
    optional: dict[str, int] = field(default_factory=dict)  # those of weight, negative and link_id that are wanted
    bipartite: bool = False  # by the names of the columns, unless the user says

    @property
    def needed(self) -> tuple[int, ...]:
        """Every position once, in the order src, dst, time, msg, weight, negative, link_id."""
        return tuple(dict.fromkeys((self.src, self.dst, self.time, *self.msg, *self.optional.values())))

    def reading(self, header: Header) -> Reading:
        """The same as a `Reading`: columns by name where that is unique, else by position."""
        names = header.names
        occurrences = Counter(names) if header.is_given else Counter[str]()

        def column(i: int) -> Column:
            return names[i] if names[i] and occurrences[names[i]] == 1 else i

        found: dict[str, Any] = {role: column(i) for role, i in self.optional.items()}
        found["msg"] = tuple(map(column, self.msg))
        found["categorical"] = tuple(column(i) for i in self.msg if i in self.categorical)
        return Reading(column(self.src), column(self.dst), column(self.time), bipartite=self.bipartite, **found)


def find_layout(header: Header, wanted: Reading, *, timed: bool = True) -> Layout:
    """Find the wanted columns; those that are not given by their usual names or, without a header, by position.

    `timed`: whether there must be a column of times.
    """
    where, roles = header.where, ("src", "dst", "time", *OPTIONAL_COLUMNS)
    given = {role: column for role in roles if (column := getattr(wanted, role)) is not None}
    found = {role: header.find(role, column) for role, column in given.items()}
    ends = ("", "")
    if not header.is_given:
        found = {"src": 0, "dst": 1, "time": 2 if timed else -1} | found
        if max(found[role] for role in ("src", "dst", "time")) >= len(header.names):
            expected = "source, destination and time" if timed else "source and destination"
            count = len(header.names)
            raise DataError(f"{where}: {count} column(s), expected at least {expected}; is the delimiter right?")
    if "src" not in found or "dst" not in found:
        found["src"], found["dst"], ends = _find_ends(header, found.get("src"), found.get("dst"))
    if "time" not in found:
        times = time_columns(header.names, (found["src"], found["dst"]))
        if timed and len(times) != 1:
            problem = "more than one choice of times" if times else "no column of times"
            raise DataError(f"{where}: {problem} among {header.listed}; say which with time (--time)")
        found["time"] = times[0] if timed else -1
    categorical, msg = (
        tuple(dict.fromkeys(header.find(role, column) for column in getattr(wanted, role)))
        for role in ("categorical", "msg")
    )
    taken = {found["src"], found["dst"], found["time"]}
    if len(taken) < 3:
        raise DataError(f"{where}: source, destination and time must be three different columns")
    optional = {role: at for role, at in found.items() if role in OPTIONAL_COLUMNS}
    if optional.get("negative") in taken:
        raise DataError(f"{where}: negatives need their own column, not that of sources, destinations or times")
    bipartite = ends in _BIPARTITE if wanted.bipartite is None else wanted.bipartite
    return Layout(found["src"], found["dst"], found["time"], msg, frozenset(categorical), optional, bipartite)


def partition_columns(keys: Sequence[str], names: Sequence[str], wanted: Reading) -> list[str]:
    """The keys of folders KEY=VALUE that are columns of a file whose own columns have these names.

    A key is a column if it is asked for, or where the file lacks a usual column: a folder for each date is no second
    column of times.
    """
    asked = {getattr(wanted, role) for role in ("src", "dst", "time", *OPTIONAL_COLUMNS)}
    asked |= {*wanted.msg, *wanted.categorical}
    ends = None in (wanted.src, wanted.dst) and not has_usual_ends(names)
    times = [] if wanted.time is not None or time_columns(names) else time_columns(keys)
    return [key for i, key in enumerate(keys) if key in asked or ends or i in times]


def has_usual_ends(names: Sequence[str]) -> bool:
    """Whether the usual names of a source and a destination column are among these."""
    plain = {_plain(name) for name in names}
    return any(a in plain and b in plain for a, b in _ENDS)


def time_columns(names: Sequence[str], taken: tuple[int, ...] = ()) -> list[int]:
    """The columns with a usual name of times that have no other role."""
    return [i for i, name in enumerate(names) if _plain(name) in _TIMES and i not in taken]


def _find_ends(header: Header, src: int | None, dst: int | None) -> tuple[int, int, tuple[str, str]]:
    """The positions of sources and destinations by their usual names, and these; one of them may be known."""
    plain = [_plain(name) for name in header.names]
    found = [
        (plain.index(a), plain.index(b), (a, b))
        for a, b in _ENDS
        if plain.count(a) == plain.count(b) == 1 and src in (None, plain.index(a)) and dst in (None, plain.index(b))
    ]
    if len({(a, b) for a, b, _ in found}) != 1:
        problem = f"{'more than one choice' if found else 'no columns'} of source and destination"
        raise DataError(
            f"{header.where}: {problem} among {header.listed}; say which with src and dst (--src and --dst)"
        )
    return found[0]


def name_prefixes(header: Header, layout: Layout) -> tuple[str, str]:
    """Of sources and destinations in a bipartite network: 'user_id', 'item_id' -> 'user', 'item'."""
    names = [header.names[i] for i in (layout.src, layout.dst)] if header.is_given else ["src", "dst"]
    first, second = (name.strip().lower().removesuffix("_id").removesuffix("id").strip("_") or name for name in names)
    return (first, second) if first != second else ("src", "dst")


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
