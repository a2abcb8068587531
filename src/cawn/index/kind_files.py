"""The files of one kind of lists, written a group of rows at a time."""

from __future__ import annotations

import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.array_files import ArrayFile, release_pages
from cawn.data.columns import ColumnFile
from cawn.index.building import link_column
from cawn.index.kernels import building
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
    keys, order = building.sort_keys(keys - keys.dtype.type(group.first))
    columns = {name: column[order] for name, column in zip(names, read, strict=True)}
    del read, order
    rows, num_rows, distinct, spans = keys, group.last - group.first, np.empty(0, np.int64), list[Array]()
    if files[0].kind.keyed:
        distinct, rows = building.number_sorted(keys)
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
        start = at
        for i in range(len(group.bounds)):
            columns = dict(zip(names, runs.read(group._replace(bounds=group.bounds[i : i + 1]))[1:], strict=True))
            if side is not None:
                columns = {name: column[columns["link"] & 1 == side] for name, column in columns.items()}
            files.write_columns(at, columns)
            at += len(columns[names[0]])
        files.fill_long(start, at - start, runs.group)
        spans.append(start << START_BITS | EXACT | (at - start))
    return np.array(spans)


class KindFiles:
    """The files of one kind, but for the hash table; groups are written in any order, and spans and keys appended."""

    def __init__(
        self, stack: ExitStack, folder: Path, kind: Kind, size: int, t: Array, alphas: Array, decay: float
    ) -> None:
        self.kind, self._size, self._t, self._alphas = kind, size, t, alphas
        self._decays = kind.decays(alphas, decay)
        shapes = kind.arrays(size, 0, len(alphas), len(self._decays), t.dtype)
        self._files = {
            name: stack.enter_context(ArrayFile(folder / f"{kind.name}.{name}.npy", *shapes[name]))
            for name in (*kind.columns, "sums")
        }
        appended = ("span", "keys") if kind.keyed else ("span",)
        self._appended = [ColumnFile(folder / f"{kind.name}.{name}.npy", np.int64) for name in appended]

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
        for name in self._files.keys() & columns.keys():
            self._files[name].write(columns[name], at * math.prod(self._files[name].shape[1:]))

    def write(self, at: int, span: Array, columns: Entries) -> None:
        """Write the lists of a group from entry `at` on; spans begin at 0."""
        self.write_columns(at, columns)
        bits, size, width, known = self.kind.bits, int((span & LENGTH).sum()), len(self._decays), np.zeros_like(span)
        for a in range(len(self._alphas) if self.kind is NODES else 0):
            logsum, P = np.empty((1, size)), np.zeros((len(span), 1))
            building.fill_logsums(span, known, columns["time"], self._alphas[a : a + 1], P, logsum)
            self._files["logsum"].write(logsum, a * self._size + at)
        if width:
            begin = at & ((1 << bits) - 1)
            link = (2 * np.arange(-begin, size)).astype(np.int32)
            sums = np.zeros((block_rows(begin + size, bits), width))
            shifted = span + (begin << START_BITS)
            building.fill_sums(shifted, known, link, columns["time"], self._decays, bits, sums)
            first, stop = block_row(at, 0, bits), block_row(at + size, 0, bits)
            self._files["sums"].write(sums[first - (at >> bits) : stop - (at >> bits)], first * width)

    def fill_long(self, start: int, size: int, step: int) -> None:
        """Compute the sums of a list whose entries are written, from its files, `step` entries at a time."""
        P = np.zeros((1, len(self._alphas)))
        for known in range(0, size, step):
            files = {name: file.path for name, file in self._files.items() if math.prod(file.shape)}
            held: Entries = {name: np.load(path, mmap_mode="r+") for name, path in files.items()}
            lists = np.array([start << START_BITS | EXACT | min(known + step, size)]), np.array([known])
            if self.kind is NODES:
                building.fill_logsums(*lists, held["time"], self._alphas, P, held["logsum"])
            if len(self._decays):
                link = link_column(held)
                building.fill_sums(*lists, link, self._t, self._decays, self.kind.bits, held["sums"])
            release_pages(self._t)
