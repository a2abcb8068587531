"""Local copies of the named networks: finding, downloading and verifying them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from cawn.data.datasets.catalog import CATALOG, Dataset, Source
from cawn.errors import QueryError, StorageError, brief
from cawn.files import sha256_of, write_text

Progress = Callable[[int, int | None], object]


class Copy(NamedTuple):
    """A local file of a network; `source` is None for a prepared copy in `$CAWN_DATA`."""

    path: Path
    source: Source | None


def get_dataset(name: str) -> Dataset:
    """The dataset of this name."""
    if not isinstance(name, str) or name not in CATALOG:
        raise QueryError(f"there is no dataset {brief(name)}; there are {', '.join(sorted(CATALOG))}")
    return CATALOG[name]


def where(name: str) -> Path | None:
    """The file that `load` reads, or None if it has to be downloaded (or installed) first."""
    copy = find_copy(get_dataset(name))
    return None if copy is None else copy.path


def download(name: str, *, progress: Progress | None = None, force: bool = False) -> Path:
    """Download the published file into the user's cache, unless it is there already.

    An interrupted download is resumed. Where the publisher states no checksum, that of the first download is stored
    beside the file.

    Args:
        progress: Called with the bytes received and the bytes expected (None if unknown).
        force: Download the file again, and accept a new checksum where the publisher states none.
    """
    dataset = get_dataset(name)
    cached = None if force else _cached(dataset)
    return (cached or fetch_copy(dataset, progress, force=force)).path


def verify(name: str) -> str:
    """Compare the file that `load` reads with its checksum: 'ok: ...', or 'not checked: ...' if none is known.

    Most publishers state no checksum; then that of the first download is used, so that 'ok' means unchanged since
    then, not that the download was right. Raises StorageError if the checksum differs.
    """
    dataset = get_dataset(name)
    copy = find_copy(dataset)
    if copy is None:
        raise StorageError(f"{name}: no copy to verify; download it first")
    if copy.source is None:
        return f"not checked: {copy.path} is a prepared copy without a known checksum"
    expected = copy.source.sha256 or _stored_checksum(copy.path)
    if expected is None:
        return f"not checked: no checksum of {copy.path} is known"
    found = sha256_of(copy.path)
    if found != expected:
        remedy = f"install {dataset.package} again" if dataset.package else "download it again with force=True"
        raise StorageError(f"{copy.path}: sha256 is {found}, expected {expected}; {remedy}")
    return "ok: as published" if copy.source.sha256 else "ok: as first downloaded; the publisher states no checksum"


def fetch_copy(dataset: Dataset, progress: Progress | None, *, force: bool = False) -> Copy:
    """Download from the first source that works."""
    if dataset.package is not None:
        return Copy(_installed(dataset), dataset.sources[0])
    from cawn.data.datasets.fetch import NoAnswerError, discard, fetch

    failures = []
    for source in dataset.sources:
        path = _cache_path(dataset, source)
        if force:
            discard(path)
        expected = source.sha256 or (None if force else _stored_checksum(path))
        try:
            found = fetch(source.url, path, expected, progress)
        except NoAnswerError as error:
            failures.append(error)
            continue
        if source.sha256 is None:
            write_text(_checksum_file(path), f"{found}  {path.name}\n")
        return Copy(path, source)
    by_hand = _cache_path(dataset, dataset.sources[0])
    raise StorageError(f"{failures[0]}; try again later, or see {dataset.homepage} and put the file at {by_hand}")


def find_copy(dataset: Dataset) -> Copy | None:
    """The local copy that `load` uses, if there is one."""
    folder = os.environ.get("CAWN_DATA")
    if folder:
        prepared = Path(os.path.expanduser(folder)) / dataset.name / "edges.csv.gz"
        if prepared.is_file():
            return Copy(prepared, None)
    if dataset.package is not None:
        with suppress(StorageError):
            return Copy(_installed(dataset), dataset.sources[0])
        return None
    return _cached(dataset)


def cache_folder() -> Path:
    """The folder of downloads: `$XDG_CACHE_HOME/cawn` if that is set, else in the platform's cache folder."""
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if chosen.is_absolute():
        return chosen / "cawn"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "cawn" / "cache"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "cawn"


def _installed(dataset: Dataset) -> Path:
    """The file of an installed package, found without importing it."""
    package = dataset.package or ""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise StorageError(f"{dataset.name} needs a package: pip install {package}")
    path = Path(spec.submodule_search_locations[0]) / "data" / dataset.sources[0].file
    if not path.is_file():
        raise StorageError(f"{path}: no such file in the package {package}; install it again")
    return path


def _cached(dataset: Dataset) -> Copy | None:
    copies = (Copy(_cache_path(dataset, source), source) for source in dataset.sources)
    return next((copy for copy in copies if copy.path.is_file()), None)


def _cache_path(dataset: Dataset, source: Source) -> Path:
    return cache_folder() / dataset.name / source.file


def _checksum_file(path: Path) -> Path:
    """The file of the checksum, in the format of `sha256sum --check`."""
    return path.with_name(f"{path.name}.sha256")


def _stored_checksum(path: Path) -> str | None:
    try:
        return next(iter(_checksum_file(path).read_text(encoding="utf-8").split()), None)
    except (OSError, UnicodeError):
        return None
