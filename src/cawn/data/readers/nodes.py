"""Tables of nodes: a column of names, and attributes in all other columns."""

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
from cawn.data.forms import bipartite_prefixes
from cawn.data.names import UNKNOWN
from cawn.data.readers.rows import PIECE, Rows, TableInMemory, open_rows
from cawn.data.readers.tables import AttributeReader, Origin, TableColumn
from cawn.data.reading import Column
from cawn.errors import DataError, brief

PRESENCE = "in the table of nodes"


@dataclass(frozen=True, slots=True)
class NodeTable:
    """Nodes with attributes, in the order of the rows."""

    names: list[str | int]
    x: npt.NDArray[np.float32]
    columns: tuple[Attribute, ...]
    origin: Origin

    @classmethod
    def read(cls, given: Any, node: Column | None, categorical: Sequence[Column]) -> NodeTable:
        """From a path or a table; `categorical` may also name columns of the links."""
        if isinstance(given, str | os.PathLike):
            rows: Rows = open_rows(given, columns=2)
        elif hasattr(given, "__arrow_c_stream__"):
            rows = TableInMemory(given, "nodes")
        else:
            raise DataError(f"nodes is a {type(given).__name__}: give a path or a table (pyarrow, pandas, polars)")
        at = rows.header.find_nodes() if node is None else rows.header.find("node", node)
        rest = [i for i in range(len(rows.names)) if i != at]
        if not rest:
            raise DataError(f"{rows.name}: no columns beside {brief(rows.names[at])}; expected node attributes")
        readers = [AttributeReader("node", {}, rows.names[i] in categorical, rows.dialect is not None) for i in rest]
        tables = [piece.table for piece in rows.pieces(PIECE, [at, *rest])]
        if not sum(map(len, tables)):
            raise DataError(f"{rows.name}: no rows; expected at least one node")
        whole = pa.concat_tables(tables)  # so that no column is of another kind than its beginning
        name, *columns = (TableColumn.at(whole, i, rows.origin()) for i in range(len(rest) + 1))
        names = name.trimmed().names(needed="every row needs the name of a node").to_pylist()
        x = np.stack([reader.add(column) for reader, column in zip(readers, columns, strict=True)], axis=1)
        return cls(names, x, tuple(reader.finish() for reader in readers), rows.origin())

    def attached(self, events: Events) -> Events:
        """The links with these attributes of their nodes; a last column marks the nodes that are in the table."""
        ids = self._ids(events)
        known = np.flatnonzero(ids != UNKNOWN)
        if len(known) == 0:
            found = f"none of its {len(ids):,} names, such as {brief(self.names[0])}, occurs in the links"
            raise DataError(f"{self.origin.name}: {found}; is the column of names right (node)?")
        first = np.full(events.num_nodes, -1)
        first[ids[known[::-1]]] = known[::-1]
        if (repeated := known[first[ids[known]] != known]).size:
            row = int(repeated[0])
            raise DataError(
                f"{self.origin.name}, {self.origin.place(row)}: {brief(self.names[row])} occurs twice; keep one"
            )
        x = np.zeros((events.num_nodes, self.x.shape[1] + 1), np.float32)
        x[ids[known], :-1] = self.x[known]
        x[ids[known], -1] = 1
        return events.replace(x=x, node_columns=(*self.columns, Attribute(PRESENCE, "presence")))

    def _ids(self, events: Events) -> npt.NDArray[np.int64]:
        """The node of each row. In a bipartite network, a name without its prefix must occur on one side only."""
        index = events.names
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
            where = f"{self.origin.name}, {self.origin.place(row)}"
            raise DataError(f"{where}: {brief(name)} could be {sides}; write the prefix")
        return np.where(ids != UNKNOWN, ids, np.where(left != UNKNOWN, left, right))
