"""Named public networks.

A network is read from `$CAWN_DATA/<name>/` (`edges.csv.gz` with the columns u, i, ts and label, and for link attributes
`edge_features.npz` with the key `features`), else from the user's cache, else downloaded from its publisher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cawn.data.datasets.catalog import CATALOG, Dataset, Source
from cawn.data.datasets.copies import Progress, download, fetch_copy, find_copy, get_dataset, verify, where

if TYPE_CHECKING:
    from cawn.data.events import Events

__all__ = ["CATALOG", "Dataset", "Source", "download", "load", "verify", "where"]


def load(name: str, *, progress: Progress | None = None) -> Events:
    """The network of this name, downloaded first if there is no local copy.

    A copy in `$CAWN_DATA` is used as it is: its node names and the origin of its times may differ from the
    publisher's. In JODIE's networks, users and items are different nodes, `user:7` and `item:7`.

    Args:
        progress: Called during a download with the bytes received and the bytes expected (None if unknown).
    """
    dataset = get_dataset(name)
    copy = find_copy(dataset) or fetch_copy(dataset, progress)
    from cawn.data.datasets import formats

    return formats.read_prepared(copy.path) if copy.source is None else formats.read_raw(copy.path, copy.source.format)
