"""The arrays of an index by name, as files have them, and the index of an index folder."""

from __future__ import annotations

import warnings

import numpy as np

from cawn.checks import Array
from cawn.data.array_folders import Arrays
from cawn.data.events import Events
from cawn.data.stored import StoredIndex, check_array, check_range, matching_index, require
from cawn.errors import DataError, StorageError
from cawn.index.features import PairParts
from cawn.index.index import Index
from cawn.index.kernels.lists import FREE, spans_are_inside
from cawn.index.kernels.nodes import hops_are_sound
from cawn.index.kinds import ALL, KINDS, NEXT, NODES, PAIRS, PARTNERS, TOTAL_BITS, WAYS, Kind

_ROUNDING = 1e-9


def named_arrays(index: Index) -> Arrays:
    """The arrays of an index by name, lists one after the other."""
    kinds = index.flat().kinds.items()
    return {f"{kind}.{name}": array for kind, columns in kinds for name, array in columns.items()}


def array_names(kinds: tuple[Kind, ...]) -> list[str]:
    """The names of the arrays of an index with these kinds."""
    found = [f"{kind.name}.{name}" for kind in kinds for name in kind.arrays(0, 0, 0, 0)]
    return found + ([f"{ALL}.totals", f"{ALL}.firsts"] if NEXT in kinds else [])


def index_of(
    events: Events, alphas: tuple[float, ...], unit: float, parts: PairParts, arrays: Arrays, decay: float | None = None
) -> Index:
    """The index of these events that `arrays` are; raises DataError where compiled code could not read them.

    `decay` is that of the transitions in `arrays`, which may be there although `parts` do not need them.
    """
    found = dict[str, Arrays]()
    for name in array_names(parts.kinds):
        require(name in arrays, f"{name} is missing")
        kind, field = name.split(".")
        found.setdefault(kind, {})[field] = arrays[name]
    index = Index(events.t, events.num_nodes, np.array(alphas), parts.decay(unit) if decay is None else decay, found)
    check_index(index)
    return index


def check_index(index: Index) -> None:
    """Raise DataError if compiled code could not read the arrays of an index, in one pass over them."""
    for kind in KINDS:
        if kind.name in index.kinds:
            _check_kind(index, kind)
    if rest := index.kinds.get(ALL):
        check_sums(check_array(rest, "totals", np.float64, 1, len(index.t) >> TOTAL_BITS), "totals", 0, len(index.t))
        firsts = check_array(rest, "firsts", np.int32, 1)
        sound = len(firsts) <= index.num_nodes and bool((firsts[1:] >= firsts[:-1]).all())
        require(sound, "firsts are not sorted")


def _check_kind(index: Index, kind: Kind) -> None:
    columns, decays = index.kinds[kind.name], kind.decays(index.alphas, index.decay)
    size, span, num_rows = len(columns[kind.columns[0]]), columns["span"], index.num_nodes
    if kind.keyed or kind is WAYS:
        num_rows = len(span) if kind.keyed else 2 * len(index.kinds[PAIRS.name]["span"])
    shapes = kind.arrays(size, num_rows, len(index.alphas), len(decays), index.t.dtype)
    for name, (shape, dtype) in shapes.items():
        array = check_array(columns, name, dtype, len(shape))
        require(array.shape == shape, f"{kind.name}.{name} has shape {array.shape}")
    require(spans_are_inside(span, size), f"{kind.name}.span points outside the lists")
    check_sums(columns["sums"], f"{kind.name}.sums", 0, size)
    if kind is NODES:
        sound = hops_are_sound(span, columns["hop"], columns["time"], index.t)
        require(sound, "nodes.hop and nodes.time are not those of the links")
        check_sums(columns["logsum"], "nodes.logsum", 0, float(np.log(max(size, 1))))
    else:
        check_range(columns["link"], f"{kind.name}.link", 0, 2 * len(index.t))
    if kind is PARTNERS:
        check_range(columns["partner"], "partners.partner", 0, index.num_nodes)
    if kind.keyed:
        keys = columns["keys"]
        require(bool((keys[1:] > keys[:-1]).all()), f"{kind.name}.keys are not sorted")
        taken = columns["slots"][columns["slots"] != FREE]
        sound = len(taken) == len(keys) and (not len(keys) or 0 <= taken.min() <= taken.max() < len(keys))
        require(bool(sound), f"{kind.name}.slots are damaged")


def check_sums(values: Array, name: str, low: float, high: float) -> None:
    """Require that all values are numbers from `low` to `high`, up to rounding."""
    if values.size:
        lowest, highest = float(values.min()), float(values.max())  # NaN, if there is any
        require(low - _ROUNDING <= lowest and highest <= high * (1 + _ROUNDING) + _ROUNDING, f"{name} is out of range")


def stored_index(
    events: Events, alphas: tuple[float, ...], unit: float, parts: PairParts, *, attributes: bool
) -> Index | None:
    """The index of these events, memory-mapped from the index folder they were read from.

    None if they are not all links of such a folder, or if its index is for other settings; a warning says which.
    """
    stored = matching_index(events)
    if stored is None:
        return None
    if differs := _difference(stored, events, alphas, unit, parts, attributes):
        warnings.warn(
            f"{stored.folder}: the stored index does not match ({differs}); building one in memory", stacklevel=2
        )
        return None
    has_transitions = f"{ALL}.totals.npy" in stored.description["index"]["files"]
    decay = parts._replace(transitions=has_transitions).decay(stored.description["facts"]["unit"])
    try:
        return index_of(events, alphas, unit, parts, stored.index, decay)
    except DataError as error:
        raise StorageError(f"{stored.folder}: damaged ({error}); build the index again (cawn index)") from error


def _difference(
    stored: StoredIndex, events: Events, alphas: tuple[float, ...], unit: float, parts: PairParts, attributes: bool
) -> str:
    """What differs between the stored index and the one that is needed; "" if nothing does."""
    facts, held = stored.description["facts"], stored.description["index"]["files"]
    if tuple(facts["alpha"]) != alphas:
        return "it has decays {}, but {} are needed".format(*map(_decays, (facts["alpha"], alphas)))
    if missing := [name for name in array_names(parts.kinds) if f"{name}.npy" not in held]:
        return f"it lacks {missing[0].split('.')[0]}"
    if parts.sequences:
        if facts["unit"] != unit:
            return f"its unit of time is {facts['unit']:.6g}, the one needed is {unit:.6g}"
        if stored.description["attributes"] != attributes or (attributes and not stored.holds(events, "msg", "x")):
            return "it orders simultaneous links by different attributes"
    return ""


def _decays(alphas: tuple[float, ...]) -> str:
    return f"{len(alphas)} from {min(alphas):.6g} to {max(alphas):.6g}"
