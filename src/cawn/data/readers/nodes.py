"""Tables of nodes: a column of names, and attributes in all others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cawn.data.attributes import Attribute
from cawn.data.events import Events
from cawn.data.names import UNKNOWN, NameIndex, bipartite_prefixes
from cawn.data.readers import files, text
from cawn.data.readers.columns import find_column, find_node_column
from cawn.data.readers.tables import Origin, attributes_of, name_column
from cawn.data.reading import Column
from cawn.errors import DataError, brief

PRESENCE = "in the table of nodes"


@dataclass(frozen=True, slots=True)
class NodeTable:
    """Nodes with attributes, in the order of the rows."""

    names: list[str | int]
    x: npt.NDArray[np.float32]
    columns: tuple[Attribute, ...]
    source: Origin

    @classmethod
    def read(cls, given: Any, node: Column | None, categorical: Sequence[Column]) -> NodeTable:
        """From a path or a table. Columns of `categorical` that are not here belong to the links."""
        if isinstance(given, str | os.PathLike):
            path = files.check(given)
            kind = files.kind_of(path)
            if kind == "text":
                table, source = text.read_columns(
                    path, lambda names: [_name_column(names, node, str(path))], categorical
                )
            else:
                table, source = files.read_table(path, kind), Origin(str(path))
        elif hasattr(given, "__arrow_c_stream__"):
            table, source = files.import_stream(given), Origin("nodes")
        else:
            raise DataError(f"nodes is a {type(given).__name__}: give a path or a table (pyarrow, pandas, polars)")
        return cls._of(table, source, node, categorical)

    @classmethod
    def _of(cls, table: pa.Table, source: Origin, node: Column | None, categorical: Sequence[Column]) -> NodeTable:
        if table.num_rows == 0:
            raise DataError(f"{source.name}: no rows; expected at least one node")
        at = _name_column(table.column_names, node, source.name)
        rest = [i for i in range(table.num_columns) if i != at]
        if not rest:
            raise DataError(
                f"{source.name}: no columns beside {brief(table.column_names[at])}; expected node attributes"
            )
        names = name_column(
            table.column(at), table.column_names[at], source, needed="every row needs the name of a node"
        )
        categories = {i for i in rest if table.column_names[i] in categorical}
        x, columns = attributes_of(table, rest, categories, source, of="node")
        assert x is not None
        return cls(names.to_pylist(), x, columns, source)

    def attached(self, events: Events) -> Events:
        """The links with these attributes of their nodes, and a last column that says which nodes are in the table."""
        ids = self._ids(events)
        known = np.flatnonzero(ids != UNKNOWN)
        if len(known) == 0:
            found = f"none of its {len(ids):,} names, such as {brief(self.names[0])}, occurs in the links"
            raise DataError(f"{self.source.name}: {found}; is the column of names right (node)?")
        first = np.full(events.num_nodes, -1)
        first[ids[known[::-1]]] = known[::-1]
        if (repeated := known[first[ids[known]] != known]).size:
            row = int(repeated[0])
            raise DataError(
                f"{self.source.name}, {self.source.place(row)}: {brief(self.names[row])} occurs twice; keep one"
            )
        x = np.zeros((events.num_nodes, self.x.shape[1] + 1), np.float32)
        x[ids[known], :-1] = self.x[known]
        x[ids[known], -1] = 1
        return events.with_attributes(
            events.msg, x, columns=events.columns, node_columns=(*self.columns, Attribute(PRESENCE, "presence"))
        )

    def _ids(self, events: Events) -> npt.NDArray[np.int64]:
        """The node of each row. In a two-sided network, a name without its prefix must fit one side only."""
        index = NameIndex.of(events.labels)
        ids = index.ids(self.names)
        prefixes = bipartite_prefixes(events)
        if prefixes is None:
            return ids
        left, right = (index.ids([f"{prefix}:{name}" for name in self.names]) for prefix in prefixes)
        both = np.flatnonzero((ids == UNKNOWN) & (left != UNKNOWN) & (right != UNKNOWN))
        if len(both):
            row = int(both[0])
            name = self.names[row]
            sides = " or ".join(brief(f"{prefix}:{name}") for prefix in prefixes)
            where = f"{self.source.name}, {self.source.place(row)}"
            raise DataError(f"{where}: {brief(name)} could be {sides}; write the one that is meant")
        return np.where(ids != UNKNOWN, ids, np.where(left != UNKNOWN, left, right))


def _name_column(names: Sequence[str], node: Column | None, where: str) -> int:
    return find_node_column(names, where) if node is None else find_column(node, names, "node", where)
