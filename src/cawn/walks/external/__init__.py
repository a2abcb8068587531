"""The index of links that do not fit into memory, built in pieces and written to files.

The files hold, byte for byte, the arrays that `History`, `Rates` and `Sequences` have in memory.
"""

from __future__ import annotations

from pathlib import Path

from cawn.data.array_files import write_array
from cawn.data.events import Events
from cawn.errors import QueryError
from cawn.files import storing
from cawn.progress import ShowProgress, progress
from cawn.walks.external.history import HistoryFiles
from cawn.walks.external.pairs import PairFiles
from cawn.walks.history import MAX_EVENTS, History
from cawn.walks.pairs import PairFeatures, PairParts
from cawn.walks.sampling import check_alphas


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
    """Write one .npy file for each array of the index to an existing folder; returns the names of the arrays.

    Args:
        events: Links, memory-mapped if there are more than fit into memory.
        alphas: The decays.
        unit: The unit of time of the model.
        parts: The features of pairs whose index is needed.
        memory: Bytes of memory that may be used, besides what the process has in use already. An index that fits is
            built in memory.
        attributes: Whether attributes of links may order simultaneous ones.
        report: Shows the progress of each stage.
    """
    if len(events) >= MAX_EVENTS:
        raise QueryError(f"{len(events):,} events: one index holds fewer than 2**30; split the events by time")
    decays = check_alphas(alphas)
    with storing(folder):
        if memory_in_core(events, len(decays), parts) <= memory:
            return _write_in_core(events, alphas, unit, parts, folder, attributes, threads, report)
        names = HistoryFiles(events, decays, folder, memory, threads, report).write()
        if parts.any:
            pairs, sequences = PairFiles(events, decays, unit, folder, memory, threads, report), any(parts.sequences)
            names += pairs.write_rates(directed=parts.rates and parts.directed, with_sums=sequences)
            names += pairs.write_sequences(attributes=attributes) if sequences else []
        return list(dict.fromkeys(names))


def memory_in_core(events: Events, num_decays: int, parts: PairParts) -> int:
    """Bytes that building the index in memory may take, with the links."""
    sorting = (64 if parts.any else 0) + (160 if any(parts.sequences) else 0)
    return index_bytes(events, num_decays, parts) + len(events) * (16 + sorting) + 16 * events.num_nodes


def index_bytes(events: Events, num_decays: int, parts: PairParts) -> int:
    """Bytes of the files of the index, at most."""
    return 32 * events.num_nodes + len(events) * bytes_per_link(num_decays, parts)


def bytes_per_link(num_decays: int, parts: PairParts) -> int:
    """Bytes of the files of the index for each link, at most."""
    kinds = (4 if parts.rates and parts.directed else 1) if parts.any else 0
    return 2 * (20 + 8 * num_decays) + kinds * (24 + 8 * num_decays) + (154 if any(parts.sequences) else 0)


def temporary_bytes(events: Events, parts: PairParts) -> int:
    """Bytes of temporary files while the index is built, at most."""
    return len(events) * (32 if any(parts.sequences) else 16 if parts.any else 8)


def _write_in_core(
    events: Events,
    alphas: tuple[float, ...],
    unit: float,
    parts: PairParts,
    folder: Path,
    attributes: bool,
    threads: int | None,
    report: ShowProgress,
) -> list[str]:
    history = History(events, alphas, threads=threads)
    features = PairFeatures.of(parts, events, history, unit, attributes=attributes)
    arrays = {f"history.{name}": array for name, array in history.arrays.items()}
    arrays |= {} if features is None else features.arrays
    done = 0
    with report("writing the index", sum(array.nbytes for array in arrays.values()), unit="bytes") as show:
        for name, array in arrays.items():
            write_array(folder / f"{name}.npy", array)
            done += array.nbytes
            show(done)
    return list(arrays)
