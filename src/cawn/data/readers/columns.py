"""Which column is which: by the usual names, or as the user says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cawn.data.reading import OPTIONAL_COLUMNS, Column, Reading
from cawn.errors import DataError, brief

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
class ReadOptions:
    """What is known of a file before it is opened.

    Args:
        wanted: Columns and conventions that the user gave.
        recorded: Those of an earlier file, which are used where the user gave none and this file has them.
        delimiter, header: The layout of text; guessed if None.
    """

    wanted: Reading
    recorded: Reading | None = None
    delimiter: str | None = None
    header: bool | None = None

    def columns(self, names: Sequence[str], has_names: bool = True) -> Reading:
        """The columns to use in a file whose columns have these names."""
        return self.wanted.completed(self.recorded, names, has_names)


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of the columns that matter."""

    src: int
    dst: int
    time: int  # -1 if there is none
    msg: tuple[int, ...] = ()
    bipartite: bool = False  # by the names of the columns
    prefixes: tuple[str, str] = ("src", "dst")  # of node names, if bipartite
    categorical: frozenset[int] = frozenset()  # of msg
    weight: int | None = None
    negative: int | None = None
    link_id: int | None = None

    @property
    def optional(self) -> dict[str, int]:
        """The positions of those of weight, negative and link_id that were asked for."""
        found = {role: getattr(self, role) for role in OPTIONAL_COLUMNS}
        return {role: at for role, at in found.items() if at is not None}

    @property
    def needed(self) -> tuple[int, ...]:
        """Every position once, in the order src, dst, time, msg, weight, negative, link_id."""
        return tuple(dict.fromkeys((self.src, self.dst, self.time, *self.msg, *self.optional.values())))

    def narrowed(self) -> Layout:
        """The layout of a table that has the needed columns only."""
        at = {old: new for new, old in enumerate(self.needed)}
        changed: dict[str, Any] = {role: at[old] for role, old in self.optional.items()}
        changed["msg"] = tuple(at[i] for i in self.msg)
        changed["categorical"] = frozenset(at[i] for i in self.categorical)
        return replace(self, src=at[self.src], dst=at[self.dst], time=at[self.time], **changed)

    def reading(self, names: Sequence[str], wanted: Reading, *, has_names: bool = True) -> Reading:
        """The same as a `Reading`: columns by name where that is unique, else by position."""
        occurrences = Counter(names) if has_names else Counter[str]()

        def column(i: int) -> Column:
            return names[i] if names[i] and occurrences[names[i]] == 1 else i

        return Reading(
            column(self.src),
            column(self.dst),
            column(self.time),
            msg=tuple(map(column, self.msg)),
            categorical=tuple(column(i) for i in self.msg if i in self.categorical),
            bipartite=self.bipartite if wanted.bipartite is None else wanted.bipartite,
            **{role: column(i) for role, i in self.optional.items()},  # type: ignore[arg-type]
        )


def find_layout(
    names: Sequence[str], wanted: Reading, where: str, *, has_names: bool = True, timed: bool = True
) -> Layout:
    """Find the wanted columns; those that are not given by their usual names or, without a header, by position.

    Args:
        where: The file, for messages.
        timed: Whether there must be a column of times.
    """

    def find(role: str, column: Column | None) -> int | None:
        return None if column is None else find_column(column, names, role, where, has_names=has_names)

    src, dst, time = (find(role, getattr(wanted, role)) for role in ("src", "dst", "time"))
    ends = ("", "")
    if not has_names:
        src, dst = 0 if src is None else src, 1 if dst is None else dst
        time = (2 if timed else -1) if time is None else time
        if max(src, dst, time) >= len(names):
            expected = "source, destination and time" if timed else "source and destination"
            raise DataError(f"{where}: {len(names)} column(s), expected at least {expected}; is the delimiter right?")
    if src is None or dst is None:
        src, dst, ends = _find_ends(names, src, dst, where)
    if time is None:
        time = _find_time(names, (src, dst), where) if timed else -1
    categorical, msg = (
        tuple(dict.fromkeys(find_column(column, names, role, where, has_names=has_names) for column in columns))
        for role, columns in (("categorical", wanted.categorical), ("msg", wanted.msg))
    )
    optional: dict[str, Any] = {role: find(role, getattr(wanted, role)) for role in OPTIONAL_COLUMNS}
    if len({src, dst, time}) < 3:
        raise DataError(f"{where}: source, destination and time must be three different columns")
    if optional["negative"] in (src, dst, time):
        raise DataError(f"{where}: negatives need their own column, not that of sources, destinations or times")
    prefixes = _prefixes(names, src, dst) if has_names else ("src", "dst")
    return Layout(src, dst, time, msg, ends in _BIPARTITE, prefixes, frozenset(categorical), **optional)


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


def partition_columns(keys: Sequence[str], names: Sequence[str], options: ReadOptions, has_names: bool) -> list[str]:
    """The keys of folders KEY=VALUE that are columns of a file whose own columns have these names.

    A key is a column if it is asked for, or where the file lacks a usual column: a folder for each date is no second
    column of times. Without a header, columns are asked for by position, and all keys follow the columns of the file.
    """
    free = [key for key in keys if key not in names]
    if not has_names:
        return free
    wanted = options.columns([*names, *free])
    asked = {wanted.src, wanted.dst, wanted.time, wanted.weight, wanted.negative, wanted.link_id}
    asked |= {*wanted.msg, *wanted.categorical}
    ends = None in (wanted.src, wanted.dst) and not has_usual_ends(names)
    times = [] if wanted.time is not None or time_columns(names, ()) else time_columns(free, ())
    return [key for i, key in enumerate(free) if key in asked or ends or i in times]


def find_node_column(names: Sequence[str], where: str) -> int:
    """The column of node names in a table of nodes."""
    plain = [_plain(name) for name in names]
    for usual in _NODES:
        if plain.count(usual) == 1:
            return plain.index(usual)
    raise DataError(f"{where}: no column of node names among {_listed(names)}; say which (node)")


def has_usual_ends(names: Sequence[str]) -> bool:
    """Whether the usual names of a source and a destination column are among these."""
    plain = {_plain(name) for name in names}
    return any(a in plain and b in plain for a, b in _ENDS)


def time_columns(names: Sequence[str], taken: tuple[int, ...]) -> list[int]:
    """The columns with a usual name of times that have no other role."""
    return [i for i, name in enumerate(names) if _plain(name) in _TIMES and i not in taken]


def _find_ends(names: Sequence[str], src: int | None, dst: int | None, where: str) -> tuple[int, int, tuple[str, str]]:
    """The positions of sources and destinations by their usual names, and these; one of them may be known."""
    plain = [_plain(name) for name in names]
    found = [
        (plain.index(a), plain.index(b), (a, b))
        for a, b in _ENDS
        if plain.count(a) == plain.count(b) == 1 and src in (None, plain.index(a)) and dst in (None, plain.index(b))
    ]
    if len({(a, b) for a, b, _ in found}) != 1:
        problem = f"{'more than one choice' if found else 'no columns'} of source and destination"
        raise DataError(f"{where}: {problem} among {_listed(names)}; say which with src and dst (--src and --dst)")
    return found[0]


def _find_time(names: Sequence[str], ends: tuple[int, int], where: str) -> int:
    times = time_columns(names, ends)
    if len(times) != 1:
        problem = "more than one choice of times" if times else "no column of times"
        raise DataError(f"{where}: {problem} among {_listed(names)}; say which with time (--time)")
    return times[0]


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
