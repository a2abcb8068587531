"""Reading: which columns of a file hold what. Recorded with a run, so that later files need no options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from cawn.errors import DataError, brief

Column = str | int
Unit = Literal["s", "ms", "us", "ns"]
OPTIONAL_COLUMNS = ("weight", "negative", "link_id")


@dataclass(frozen=True, slots=True)
class Reading:
    """The columns and conventions of a file or table of links; None where not given, or not recorded.

    Args:
        src, dst, time: Columns, by name, or by position where there is no header.
        msg: Columns of link attributes.
        categorical: Those of them that hold categories.
        weight, negative, link_id: Columns of link weights, of the user's negatives and of link ids.
        bipartite: Whether a source and a destination of the same name are different nodes.
        dates: Whether times were written as dates; the events have them as Unix time.
        unit: The unit of times that were dates: seconds, unless seconds would round some of them.
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
