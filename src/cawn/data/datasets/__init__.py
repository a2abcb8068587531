"""The named public networks: what each is, where it comes from, and its copy on this computer.

A network is read from `$CAWN_DATA/<name>/` (`edges.csv.gz` with the columns u, i, ts and label, and where there are
link attributes `edge_features.npz` with the key `features`), else from the user's cache, else from its publisher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cawn.data.datasets.catalog import CATALOG, Dataset, Source
from cawn.data.datasets.copies import Progress, download, fetched, find, named, verify, where

if TYPE_CHECKING:
    from cawn.data.events import Events

__all__ = ["CATALOG", "Dataset", "Source", "download", "load", "verify", "where"]


def load(name: str, *, progress: Progress | None = None) -> Events:
    """The network of this name, downloaded first if there is no copy of it.

    A copy in `$CAWN_DATA` is taken as it is: its node names and the origin of its times may be others than the
    publisher's. In the files of JODIE users and items are different nodes, `user:7` and `item:7`.

    Args:
        progress: Called with the bytes received and the bytes expected (None if unknown), while a file is downloaded.
    """
    dataset = named(name)
    copy = find(dataset) or fetched(dataset, progress)
    from cawn.data.datasets import formats

    return formats.read_prepared(copy.path) if copy.source is None else formats.read_raw(copy.path, copy.source.format)
