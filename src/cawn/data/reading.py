"""Reading: how a log of links was read, kept with a run so that later files need no options."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from cawn.errors import DataError

Column = str | int
Unit = Literal["s", "ms", "us", "ns"]
_OPTIONAL = ("weight", "negative", "link_id")


@dataclass(frozen=True, slots=True)
class Reading:
    """The columns and conventions of a file or table of links. None means not recorded.

    Args:
        src, dst, time: Columns, by name, or by position where there was no header.
        msg: Columns of link attributes.
        categorical: Those of them that hold categories.
        weight, negative, link_id: Columns of link weights, own negatives and link ids.
        bipartite: Whether equal names on both sides are two nodes.
        dates: Whether times were written as dates; they are Unix time in the events.
        unit: The unit of times that were dates: seconds, unless these would round some of them.
    """

    src: Column | None = None
    dst: Column | None = None
    time: Column | None = None
    msg: tuple[Column, ...] = ()
    bipartite: bool | None = None
    dates: bool = False
    weight: Column | None = None
    negative: Column | None = None
    link_id: Column | None = None
    categorical: tuple[Column, ...] = ()
    unit: Unit = "s"

    def columns_in(self, names: list[str], has_names: bool) -> dict[str, Any]:
        """Those of the recorded columns that a file or table with these columns has, as arguments of `cawn.read`."""

        def has(column: Column | None) -> bool:
            if isinstance(column, str):
                return has_names and column in names
            return column is not None and not has_names and column < len(names)

        found = {role: getattr(self, role) for role in ("src", "dst", "time", "link_id") if has(getattr(self, role))}
        if self.msg and all(map(has, self.msg)):
            found |= {"msg": list(self.msg), "categorical": list(self.categorical)}
        return found

    def to_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return asdict(self) | {"msg": list(self.msg), "categorical": list(self.categorical)}

    @classmethod
    def from_dict(cls, found: Any) -> Reading:
        """The inverse of `to_dict`; raises DataError where that is not what was given."""
        known = {field.name for field in fields(cls)}
        if not isinstance(found, dict) or not set(found) <= known:
            raise DataError("not the description of how a file was read")
        src, dst, time, *_ = columns = [found.get(name) for name in ("src", "dst", "time", *_OPTIONAL)]
        bipartite, dates = found.get("bipartite"), found.get("dates", False)
        msg, categorical = (found.get(name, []) for name in ("msg", "categorical"))
        unit = found.get("unit", "s")
        if (
            not all(column is None or _is_column(column) for column in columns)
            or not all(isinstance(several, list) and all(map(_is_column, several)) for several in (msg, categorical))
            or not isinstance(bipartite, bool | None)
            or not isinstance(dates, bool)
            or unit not in get_args(Unit)
        ):
            raise DataError("not the description of how a file was read")
        optional = {name: found.get(name) for name in _OPTIONAL} | {"categorical": tuple(categorical)}
        return cls(src, dst, time, msg=tuple(msg), bipartite=bipartite, dates=dates, unit=unit, **optional)


def _is_column(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)
