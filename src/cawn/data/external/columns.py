"""Folders of columns: what `cawn.read` gives in memory, as one .npy file for each array."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cawn.data.attributes import Attribute
from cawn.data.events import PER_LINK, Events
from cawn.data.names import NameIndex
from cawn.data.reading import Reading
from cawn.errors import StorageError
from cawn.progress import Report, progress

Array = npt.NDArray[Any]


class ShowProgress(Protocol):
    """How progress is shown: `cawn.progress.progress`, or the same with `quiet` given."""

    def __call__(self, title: str, total: float | None = None, *, unit: Any = "") -> AbstractContextManager[Report]: ...


@dataclass(frozen=True, slots=True)
class Columns:
    """A folder of columns.

    Args:
        folder: Where they are.
        files: The names of the arrays; each is in the file NAME.npy: src, dst, t, of `PER_LINK` and x those that the
            log has, rows (only if the log was not sorted by time), and those of a `NameIndex`.
        num_links, num_nodes: Their numbers.
        reading: How the log was read.
        columns, node_columns: What msg and x hold.
    """

    folder: Path
    files: tuple[str, ...]
    num_links: int
    num_nodes: int
    reading: Reading
    columns: tuple[Attribute, ...] = ()
    node_columns: tuple[Attribute, ...] = ()

    def arrays(self) -> dict[str, Array]:
        """All arrays by name, memory-mapped copy-on-write."""
        return {name: _mapped(self.folder / f"{name}.npy") for name in self.files}

    def events(self) -> Events:
        """The links. Nothing is read before it is used; node names become `labels` when these are asked for."""
        arrays = self.arrays()
        names = NameIndex({name: array for name, array in arrays.items() if name.startswith("name")})
        held = {name: arrays.get(name) for name in ("src", "dst", "t", "x", "rows", *PER_LINK)}
        events = Events.mapped(self.num_nodes, names, **held)
        events.columns, events.node_columns, events.reading = self.columns, self.node_columns, self.reading
        return events


def write_columns(
    source: Any, folder: Path, *, memory: int, report: ShowProgress = progress, **options: Any
) -> Columns:
    """Read a log in pieces and write its columns to an existing empty folder.

    The files hold, byte for byte, what `cawn.read(source, **options)` gives in memory.

    Args:
        source: A path, pattern, folder or list of these, as `cawn.read` takes them.
        memory: The most memory to use, in bytes, resident and mapped.
        report: Shows progress.
        options: Those of `cawn.read`.

    Raises:
        DataError: As `cawn.read`.
        StorageError: Where the files cannot be written; what was written is removed.
    """
    from cawn.data.readers import read

    events = read(source, **options)
    held = {name: getattr(events, name) for name in ("src", "dst", "t", "x", *PER_LINK)}
    held |= {"rows": events._rows} | NameIndex.of(events.labels).arrays
    held = {name: array for name, array in held.items() if array is not None}
    for name, array in held.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    assert events.reading is not None
    return Columns(
        folder, tuple(held), len(events), events.num_nodes, events.reading, events.columns, events.node_columns
    )


def _mapped(path: Path) -> Array:
    try:
        if path.stat().st_size and (array := np.load(path, mmap_mode="c", allow_pickle=False)).ndim:
            return np.asarray(array)
        raise ValueError("no array")
    except Exception as error:  # a damaged header can raise almost anything
        raise StorageError(f"{path}: missing or damaged; read the log again") from error
