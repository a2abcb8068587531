"""Writing the index of links to files, which may take more memory than there is."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cawn.data.array_files import write_array
from cawn.data.events import Events
from cawn.files import storing
from cawn.index.features import PairParts
from cawn.index.index import Index
from cawn.index.stored import named_arrays
from cawn.progress import ShowProgress, progress


def write_index(
    events: Events,
    alphas: tuple[float, ...],
    unit: float,
    parts: PairParts,
    folder: Path,
    *,
    memory: int,
    attributes: bool = True,
    threads: int | None = None,
    report: ShowProgress = progress,
) -> list[str]:
    """Write one .npy file for each array of the index to an existing folder; returns the names of the arrays."""
    with storing(folder):
        decays = np.array(alphas), parts.kinds, parts.decay(unit)
        arrays = named_arrays(Index.of(events, *decays, attributes=attributes, threads=threads))
        done = 0
        with report("writing the index", sum(array.nbytes for array in arrays.values()), unit="bytes") as show:
            for name, array in arrays.items():
                write_array(folder / f"{name}.npy", array)
                done += array.nbytes
                show(done)
    return list(arrays)


def index_bytes(events: Events, num_decays: int, parts: PairParts) -> int:
    """Bytes of the files of the index, at most."""
    return 64 * events.num_nodes + len(events) * bytes_per_link(num_decays, parts)


def bytes_per_link(num_decays: int, parts: PairParts) -> int:
    """Bytes of the files of the index for each link, at most."""
    sums = 0.5 * num_decays + 4
    nodes = 2 * (20 + 8 * num_decays)
    pairs = parts.any * (4 + sums + 32) + parts.directed * (3 * (4 + sums) + 16)
    return int(nodes + pairs + parts.sequences * (16 + 2 * (2 * 5 + 32) + 2))


def temporary_bytes(events: Events, parts: PairParts) -> int:
    """Bytes of temporary files while the index is built, at most."""
    return 0
