"""The files of one kind of lists, written a group of rows at a time."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.columns import ArrayFile, ColumnFile
from cawn.index.kernels import building, pieces
from cawn.index.kernels.lists import EXACT, LENGTH, START_BITS, block_row, block_rows
from cawn.index.kinds import NODES, WAYS, Kind
from cawn.index.runs import Group, Runs

Array = npt.NDArray[Any]
Entries = dict[str, Array]  # columns by name


def write_group(
    runs: Runs, group: Group, names: tuple[str, ...], files: list[KindFiles]
) -> tuple[int, list[Array], Array]:
    """Write the lists of a group; returns the number of its entries, the spans of each kind, and the keys.

    Args:
        names: Of the columns of the runs, after the sorted one.
        files: Those of each kind that has these entries; pairs come before ways.
    """
    if group.size > runs.group and group.last - group.first == 1:
        return group.size, [_write_long(runs, group, names, each) for each in files], np.array([group.first])
    keys, *read = runs.read(group)
    keys, order = pieces.sort_keys(keys - keys.dtype.type(group.first))
    columns = {name: column[order] for name, column in zip(names, read, strict=True)}
    del read, order
    rows, num_rows, distinct, spans = keys, group.last - group.first, np.empty(0, np.int64), list[Array]()
    if files[0].kind.keyed:
        distinct, rows = pieces.number_sorted(keys)
        num_rows = len(distinct)
    for each in files:
        if each.kind is WAYS:
            rows, num_rows = 2 * rows + (columns["link"] & 1), 2 * num_rows
        span, position = building.lay_out(rows, num_rows)
        if each.kind is WAYS:
            order = np.empty_like(position)
            order[position] = np.arange(len(position))
            columns = {name: column[order] for name, column in columns.items()}
        each.write(group.at, span, columns)
        spans.append(span + (group.at << START_BITS))
    return group.size, spans, distinct + group.first


def _write_long(runs: Runs, group: Group, names: tuple[str, ...], files: KindFiles) -> Array:
    """Write the lists of one row, which do not fit into memory, a run at a time; returns their spans."""
    at, spans = group.at, []
    for side in (0, 1) if files.kind is WAYS else (None,):
        long = _LongList(files, at)
        for i in range(len(group.bounds)):
            columns = dict(zip(names, runs.read(group._replace(bounds=group.bounds[i : i + 1]))[1:], strict=True))
            taken = slice(None) if side is None else columns["link"] & 1 == side
            long.add({name: column[taken] for name, column in columns.items()})
        spans.append(at << START_BITS | EXACT | long.size)
        at += long.size
    return np.array(spans)


class KindFiles:
    """The files of one kind, but for the hash table; groups are written in any order, and spans and keys appended."""

    def __init__(
        self, stack: ExitStack, folder: Path, kind: Kind, size: int, times: np.dtype[Any], alphas: Array, decay: float
    ) -> None:
        self.kind, self.size, self.alphas = kind, size, alphas
        self.decays = kind.decays(alphas, decay)
        shapes: dict[str, tuple[tuple[int, ...], Any]] = {
            "time": ((size,), times),
            "hop": ((size, 3), np.int32),
            "logsum": ((len(alphas), size), np.float64),
            "sums": ((block_rows(size, kind.bits), len(self.decays)), np.float64),
        }
        self.files: dict[str, ArrayFile] = {}
        for name in (*kind.columns, "sums"):
            shape, dtype = shapes.get(name, ((size,), np.int32))
            self.files[name] = stack.enter_context(ArrayFile(folder / f"{kind.name}.{name}.npy", shape, dtype))
        self._appended = [ColumnFile(folder / f"{kind.name}.span.npy", np.int64)]
        if kind.keyed:
            self._appended.append(ColumnFile(folder / f"{kind.name}.keys.npy", np.int64))

    def append(self, span: Array, keys: Array) -> None:
        """Write the spans, and keys, of the next rows."""
        for file, values in zip(self._appended, (span, keys), strict=False):
            file.append(values)

    def finish(self) -> None:
        """Finish the spans and keys."""
        for file in self._appended:
            file.finish()

    def write_columns(self, at: int, columns: Entries) -> None:
        """Write what entries from `at` on have, but for their sums."""
        if self.kind is NODES:
            hop = np.stack([columns["other"], columns["link"], columns["cut"]], axis=1)
            columns = {"time": columns["time"], "hop": hop}
        for name in self.files.keys() & columns.keys():
            self.files[name].write(columns[name], at * (3 if name == "hop" else 1))

    def write(self, at: int, span: Array, columns: Entries) -> None:
        """Write the lists of a group from entry `at` on; spans begin at 0."""
        self.write_columns(at, columns)
        bits, size = self.kind.bits, int((span & LENGTH).sum())
        if self.kind is NODES:
            for a in range(len(self.alphas)):
                logsum = np.empty((1, size))
                building.fill_logsums(span, columns["time"], self.alphas[a : a + 1], logsum, 0, len(span))
                self.files["logsum"].write(logsum, a * self.size + at)
        if len(self.decays):
            begin = at & ((1 << bits) - 1)
            link = (2 * np.arange(-begin, size)).astype(np.int32)
            sums = np.zeros((block_rows(begin + size, bits), len(self.decays)))
            shifted, t = span + (begin << START_BITS), columns["time"]
            building.fill_sums(shifted, link, t, self.decays, bits, sums, 0, len(span))
            first, stop = block_row(at, 0, bits), block_row(at + size, 0, bits)
            self.files["sums"].write(sums[first - (at >> bits) : stop - (at >> bits)], first * len(self.decays))


class _LongList:
    """A list that does not fit into memory, written a part at a time, from entry `at` on."""

    def __init__(self, files: KindFiles, at: int) -> None:
        self._files, self._at, self.size = files, at, 0
        self._P, self._newest = np.zeros(len(files.alphas)), np.empty(0)
        self._times, self._sums, self._blocks = np.empty(0), np.zeros((0, len(files.decays))), 0

    def add(self, columns: Entries) -> None:
        """Write the next entries."""
        files, at, size = self._files, self._at + self.size, len(columns["link"])
        files.write_columns(at, columns)
        self.size += size
        if files.kind is NODES and size:
            time, logsum = columns["time"], np.empty((len(files.alphas), size))
            before = self._newest[-1] if len(self._newest) else time[0]
            pieces.continue_logsums(time, before, files.alphas, self._P, logsum)
            self._newest = time[-1:].copy()
            for a, sums in enumerate(logsum):
                files.files["logsum"].write(sums, a * files.size + at)
        if len(files.decays):
            self._add_sums(columns["time"])

    def _add_sums(self, time: Array) -> None:
        """Write the sums of full blocks; the times and sums of the last one are kept for the next."""
        files, bits, known = self._files, self._files.kind.bits, len(self._sums)
        times = np.concatenate([self._times.astype(time.dtype), time])
        count = len(times) >> bits
        sums = np.zeros((count, len(files.decays)))
        sums[:known] = self._sums
        pieces.continue_sums(times, files.decays, bits, known, sums)
        files.files["sums"].write(sums[known:], block_row(self._at, self._blocks, bits) * len(files.decays))
        self._blocks += count - known
        self._times, self._sums = times[max(count - 1, 0) << bits :].copy(), sums[max(count - 1, 0) :]
