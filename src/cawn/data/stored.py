"""Index folders: links and their index as files that are mapped into memory; `cawn index` writes them.

index.json       what the folder holds: settings and facts of the index, how the log was read, sizes and checksums
network-*/       the columns of the links, and the names of the nodes
index-*/         the arrays of the index
building.json    while the folder is being written: the stages that are finished
.lock            held by the process that writes to the folder
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cawn.checks import Array
from cawn.data.array_folders import Arrays, Stamp, manifest_of, read_arrays
from cawn.data.attributes import Attribute
from cawn.data.events import PER_LINK, Events
from cawn.data.hashing import check_seal, read_json, read_sealed, write_sealed
from cawn.data.names import SLOTS, NameIndex
from cawn.data.reading import Reading
from cawn.data.times import check_span
from cawn.errors import DataError, StorageError

DESCRIPTION, BUILDING, COLUMNS = "index.json", "building.json", "columns.json"
FORMAT = 2
BUILD_AGAIN = "build the index again (cawn index)"
READ_AGAIN = "read the log again"
_TYPES: dict[str, Any] = {"src": np.int32, "dst": np.int32, "t": None, "negative": np.int32, "link_id": np.uint64}
_TYPES |= {"rows": np.int64, "weight": np.float32, "msg": np.float32, "x": np.float32}
FOLDER = re.compile(r"(network|index)-[0-9a-f]{16}")


@dataclass(frozen=True, eq=False)
class StoredIndex:
    """An index folder whose description was read; `Events.stored` of its links.

    The first use of its arrays reads all of their files and compares the checksums.
    """

    folder: Path
    description: dict[str, Any] = field(repr=False)  # index.json

    @cached_property
    def network(self) -> Arrays:
        """The columns of the links and the names of the nodes, memory-mapped."""
        return self._arrays("network")

    @cached_property
    def index(self) -> Arrays:
        """The arrays of the index, memory-mapped."""
        return self._arrays("index")

    def _arrays(self, kind: str) -> Arrays:
        held = self.description[kind]
        return read_arrays(self.folder / held["folder"], held["files"], remedy=BUILD_AGAIN)

    def holds(self, events: Events, *names: str) -> bool:
        """Whether these columns of the events are the stored ones, all rows of them."""
        return all(_same_memory(getattr(events, name), self.network.get(name)) for name in names)

    def file_of(self, array: Array) -> tuple[Path, Stamp] | None:
        """The file that an array is mapped from, all of it, and the stamp of the file."""
        for kind in ("network", "index"):
            for name, held in self.__dict__.get(kind, {}).items():  # only those that were read
                if _same_memory(array, held):
                    found = self.description[kind]
                    return self.folder / found["folder"] / f"{name}.npy", found["files"][f"{name}.npy"]
        return None


def _same_memory(a: Array | None, b: Array | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.ctypes.data == b.ctypes.data and a.shape == b.shape and a.dtype == b.dtype


def is_index(path: Any) -> bool:
    """Whether this is the path of an index folder, finished or not."""
    return _holds(path, DESCRIPTION) or _holds(path, BUILDING)


def is_columns(path: Any) -> bool:
    """Whether this is the path of a folder that `cawn.read(..., out=folder)` has written."""
    return _holds(path, COLUMNS)


def _holds(path: Any, name: str) -> bool:
    try:
        return isinstance(path, str | Path) and (Path(path) / name).is_file()
    except (OSError, ValueError):
        return False


def read_stored(folder: Path, *, verify: bool = False) -> Events:
    """The links of an index folder, memory-mapped; `events.stored` leads to their index.

    The checksums of the links are compared, and those of the index when it is used; with `verify`, all are compared
    now, and the values of the links are checked as well.
    """
    stored = StoredIndex(folder, read_description(folder))
    arrays = stored.network
    held = stored.description["index"]
    for name, (size, _) in held["files"].items():  # which are not read yet
        path = folder / held["folder"] / name
        if not path.is_file() or path.stat().st_size != size:
            raise StorageError(f"{path}: missing or damaged; {BUILD_AGAIN}")
    events = map_events(folder, arrays, stored.description, BUILD_AGAIN, verify=verify)
    if verify:
        _ = stored.index
    events.stored = stored
    return events


def write_columns_description(folder: Path, events: Events) -> None:
    """Write columns.json, with which `read_columns` opens a folder of columns."""
    files = manifest_of(folder, sorted(path.name for path in folder.glob("*.npy")))
    write_sealed(folder / COLUMNS, {"files": files} | describe_network(events))


def read_columns(folder: Path) -> Events:
    """The events of a folder of columns, memory-mapped; their checksums are compared."""
    found = read_sealed(folder / COLUMNS, READ_AGAIN)
    if not isinstance(found.get("files"), dict):
        raise StorageError(f"{folder}: written by another version of cawn; {READ_AGAIN}")
    return map_events(folder, read_arrays(folder, found["files"], remedy=READ_AGAIN), found, READ_AGAIN)


def map_events(folder: Path, arrays: Arrays, found: dict[str, Any], remedy: str, *, verify: bool = False) -> Events:
    """Events of the arrays of a folder, as `describe_network` describes them; with `verify`, every value is checked."""
    try:
        check_columns(arrays, found["links"], found["nodes"])
        check_name_arrays(arrays, found["nodes"])
        if verify:
            check_names(arrays)
            check_links(arrays, found["nodes"])
        events = Events.of_arrays(found["nodes"], arrays)
        events.columns, events.node_columns = (
            tuple(Attribute(**column | {"levels": tuple(column["levels"])}) for column in found[key])
            for key in ("columns", "node_columns")
        )
        events.reading = Reading.from_dict(found["reading"])
    except (DataError, KeyError, TypeError, ValueError) as error:
        raise StorageError(f"{folder}: damaged ({error}); {remedy}") from error
    return events


def read_description(folder: Path) -> dict[str, Any]:
    """The content of index.json; StorageError if this version cannot read it."""
    path = folder / DESCRIPTION
    try:
        found = read_json(path, BUILD_AGAIN)
    except FileNotFoundError as error:
        if (folder / BUILDING).is_file():
            raise StorageError(f"{folder}: the index is not finished; run the same cawn index command again") from error
        raise StorageError(f"{folder}: holds no index (no {DESCRIPTION})") from error
    if found.get("format") != FORMAT:
        version = str(found.get("cawn", "unknown"))[:20]
        raise StorageError(f"{path}: written by another version of cawn ({version}); {BUILD_AGAIN}")
    check_seal(path, found, BUILD_AGAIN)
    for kind in ("network", "index"):
        if not isinstance(found.get(kind), dict) or not FOLDER.fullmatch(str(found[kind].get("folder"))):
            raise StorageError(f"{path}: damaged ({kind}); {BUILD_AGAIN}")
    return found


def describe_network(events: Events) -> dict[str, Any]:
    """The part of index.json that `read_stored` makes events of, besides their arrays."""
    assert events.reading is not None
    return {
        "links": len(events),
        "nodes": events.num_nodes,
        "reading": events.reading.to_dict(),
        "columns": [asdict(column) for column in events.columns],
        "node_columns": [asdict(column) for column in events.node_columns],
    }


def matching_index(events: Events) -> StoredIndex | None:
    """The index folder of these events, if they are all links of it, unchanged."""
    stored = events.stored
    whole = stored is not None and events.num_nodes == stored.description["nodes"]
    return stored if whole and stored is not None and stored.holds(events, "src", "dst", "t") else None


def recorded_digest(events: Events) -> str | None:
    """The digest of links and names in index.json, if these events are all links of an index folder, unchanged."""
    stored = matching_index(events)
    if stored is None or not stored.holds(events, "x", *PER_LINK):
        return None
    same = all(_same_memory(array, stored.network.get(name)) for name, array in events.names.arrays.items())
    return stored.description["contents"] if same else None


# Checks of arrays read from files, before compiled code uses them as indices without bounds checks. Each raises
# DataError, and takes time linear in the size of the arrays.


def check_columns(arrays: Arrays, num_links: int, num_nodes: int) -> None:
    """The types and lengths of the columns of links and nodes, which kernels rely on."""
    for name, dtype in _TYPES.items():
        if name in arrays or name in ("src", "dst", "t"):
            ndim = 2 if name in ("msg", "x") else 1
            check_array(arrays, name, dtype, ndim, num_nodes if name == "x" else num_links)


def check_links(arrays: Arrays, num_nodes: int) -> None:
    """Links sorted by time between known nodes, with any optional columns."""
    t = check_array(arrays, "t", None, 1)
    check_columns(arrays, len(t), num_nodes)
    require(t.dtype in (np.int64, np.float64), f"t is {t.dtype}")
    require(t.dtype.kind == "i" or bool(np.isfinite(t).all()), "t is not finite")
    require(bool((t[1:] >= t[:-1]).all()), "t is not sorted")
    check_span(t[[0, -1]] if len(t) else t)
    for name, least in (("src", 0), ("dst", 0), ("negative", -1)):
        if name in arrays:
            check_range(arrays[name], name, least, num_nodes)
    for name in ("msg", "x"):
        if name in arrays:
            require(bool(np.isfinite(arrays[name]).all()), f"{name} is not finite")
    weight = arrays.get("weight", np.empty(0))
    require(bool((np.isfinite(weight) & (weight >= 0)).all()), "weight is negative or not finite")


def check_names(arrays: Arrays) -> None:
    """The arrays of a `NameIndex`: every node has a name of its own, at which its hash table finds it."""
    index = NameIndex(arrays)
    check_name_arrays(arrays, len(index))
    if index.strings:
        ends, text = arrays["name_ends"], arrays["name_bytes"]
        ascending = bool(ends[0] == 0 and (ends[1:] >= ends[:-1]).all())
        require(ascending, f"name_ends do not divide {len(text):,} into {len(index):,} lists")
        require(not ((text[ends[:-1][ends[:-1] < len(text)]] & 0xC0) == 0x80).any(), "name_ends split a character")
        try:
            text.tobytes().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise DataError("name_bytes are not UTF-8") from error
    if SLOTS in arrays:
        used = arrays[SLOTS][arrays[SLOTS] != 0] & np.uint64(0xFFFFFFFF)
        check_range(used, SLOTS, 1, len(index) + 1)
        require(len(used) == len(index), f"{SLOTS} have {len(used):,} names")
    require(index.is_consistent(), "a name is not found at its node, or two nodes have it")


def check_name_arrays(arrays: Arrays, count: int) -> None:
    """The types and lengths of the arrays of a `NameIndex` of `count` names, which kernels rely on."""
    if "name_bytes" in arrays:
        ends = check_array(arrays, "name_ends", np.int64, 1, count + 1)
        check_array(arrays, "name_bytes", np.uint8, 1, int(ends[-1]))
    else:
        check_array(arrays, "names", np.int64, 1, count)
    if (slots := arrays.get(SLOTS)) is not None:
        right = slots.dtype == np.uint64 and slots.ndim == 1 and len(slots) > count and len(slots).bit_count() == 1
        require(right, f"{SLOTS} are {slots.dtype} of shape {slots.shape}")


def check_array(arrays: Arrays, name: str, dtype: Any, ndim: int, size: int | None = None) -> Array:
    """An array of this type (any, if None) and number of dimensions, contiguous and in native byte order."""
    require(name in arrays, f"{name} is missing")
    array = arrays[name]
    right = array.ndim == ndim and array.flags.c_contiguous and array.dtype.isnative
    require(right and (dtype is None or array.dtype == dtype), f"{name} is {array.dtype} of shape {array.shape}")
    require(size is None or len(array) == size, f"{name} has {len(array):,} rows")
    return array


def check_range(values: Array, name: str, low: int, high: int) -> None:
    """Integers of at least `low` and less than `high`."""
    right = not values.size or (values.min() >= low and values.max() < high)
    require(bool(right), f"{name} has a value outside {low} to {high - 1:,}")


def require(condition: bool, problem: str) -> None:
    if not condition:
        raise DataError(problem)
