"""Node names as users give them: one or many, and in two-sided networks with or without the prefix of their side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.name_index import UNKNOWN, Name, NameIndex
from cawn.errors import QueryError, brief

Names = Name | Iterable[Name]


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a network spells the names of its sides: with these prefixes, or as they are."""

    prefixes: tuple[str, str] | None

    def spelled(self, name: Name, side: int) -> Name:
        """As the network spells the names of this side."""
        if self.prefixes is None or str(name).startswith(f"{self.prefixes[side]}:"):
            return name
        return f"{self.prefixes[side]}:{name}"

    def same(self, u: Name, v: Name) -> bool:
        """Whether a source and a destination of these names, both strangers, are one node."""
        return self.spelled(str(u), 0) == self.spelled(str(v), 1)

    def ids(self, names: NameIndex, given: list[Name], side: int) -> npt.NDArray[np.int64]:
        """Ids of names; a stranger gets one beyond all nodes, another on either side."""
        ids = names.ids([self.spelled(name, side) for name in given])
        missing = np.flatnonzero(ids == UNKNOWN)
        if self.prefixes is not None and len(missing):
            ids[missing] = names.ids([given[i] for i in missing])
        return np.where(ids == UNKNOWN, len(names) + side, ids)


def listed(names: Names) -> list[Name]:
    """Names one by one, as they were given."""
    if isinstance(names, str | bytes | float | int | np.generic) or not hasattr(names, "__iter__"):
        given: list[Any] = [names]
    elif isinstance(names, np.ndarray):
        given = names.reshape(-1).tolist()
    else:
        try:
            given = names.to_pylist() if hasattr(names, "to_pylist") else list(names)
        except Exception as error:  # whatever the iteration of the user's object raises
            raise QueryError(f"names cannot be listed ({type(error).__name__}); give a list of names") from error
    found = [int(name) if isinstance(name, np.integer) else name for name in given]
    if wrong := [name for name in found if not isinstance(name, str | int) or isinstance(name, bool)]:
        raise QueryError(f"{brief(wrong[0])} is no node name: names are integers or strings")
    return found


def one(name: Any, what: str) -> Name:
    """The only name given."""
    found = listed(name)
    if len(found) != 1 or (hasattr(name, "__iter__") and not isinstance(name, str)):
        raise QueryError(f"{what} is {brief(name)}: give one name")
    return found[0]
