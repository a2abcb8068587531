"""The index of an index folder, instead of one built in memory."""

from __future__ import annotations

import warnings

from cawn.data.array_folders import Arrays
from cawn.data.events import Events
from cawn.data.stored import StoredIndex, matching_index
from cawn.errors import DataError, StorageError
from cawn.walks.history import STORED as HISTORY
from cawn.walks.pairs import PairParts
from cawn.walks.rates import STORED_NAMES, DecayedCounts
from cawn.walks.sequences import STORED as SEQUENCES
from cawn.walks.validation import check_history, check_pairs


def stored_index(
    events: Events, alphas: tuple[float, ...], unit: float, parts: PairParts, *, attributes: bool
) -> Arrays | None:
    """The arrays of the index of these events, memory-mapped from the index folder they were read from.

    None if they are not all links of such a folder, or if its index is for other settings; a warning says which.

    Args:
        alphas: The decays.
        unit: The unit of time of the model.
        parts: The features of pairs that need an index.
        attributes: Whether attributes may order simultaneous links.
    """
    stored = matching_index(events)
    if stored is None:
        return None
    if differs := _difference(stored, events, alphas, unit, parts, attributes):
        warnings.warn(
            f"{stored.folder}: the stored index does not match ({differs}); building one in memory", stacklevel=2
        )
        return None
    arrays = {name: stored.index[name] for name in needed_arrays(parts)}
    headers_only = not stored.verified
    try:
        lists = {name.removeprefix("history."): array for name, array in arrays.items() if name.startswith("history.")}
        check_history(lists, events.t, events.num_nodes, alphas, headers_only=headers_only)
        check_pairs(arrays, events.t, events.num_nodes, alphas, parts, headers_only=headers_only)
    except DataError as error:
        raise StorageError(f"{stored.folder}: damaged ({error}); build the index again (cawn index)") from error
    return arrays


def needed_arrays(parts: PairParts) -> list[str]:
    """The names of the arrays of the index that these features need, those of the walks included."""
    names = [f"history.{name}" for name in HISTORY]
    if parts.any:
        kinds = STORED_NAMES if parts.rates and parts.directed else STORED_NAMES[:1]
        names += [f"rates.{kind}.{field}" for kind in kinds for field in DecayedCounts._fields]
    if any(parts.sequences):
        names += [f"sequences.{name}" for name in SEQUENCES]
    return names


def _difference(
    stored: StoredIndex, events: Events, alphas: tuple[float, ...], unit: float, parts: PairParts, attributes: bool
) -> str:
    """What differs between the stored index and the one that is needed; "" if nothing does."""
    facts, held = stored.description["facts"], stored.description["index"]["files"]
    if tuple(facts["alpha"]) != alphas:
        return "it has decays {}, but {} are needed".format(*map(_decays, (facts["alpha"], alphas)))
    if missing := [name for name in needed_arrays(parts) if f"{name}.npy" not in held]:
        return f"it lacks {missing[0].split('.')[0]}"
    if any(parts.sequences):
        if facts["unit"] != unit:
            return f"its unit of time is {facts['unit']:.6g}, the one needed is {unit:.6g}"
        if stored.description["attributes"] != attributes or (attributes and not stored.holds(events, "msg", "x")):
            return "it orders simultaneous links by different attributes"
    return ""


def _decays(alphas: tuple[float, ...]) -> str:
    return f"{len(alphas)} from {min(alphas):.6g} to {max(alphas):.6g}"
