"""The batches of links that update memories, the messages of each batch, and the resulting versions of memories."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cawn.data.events import Events
from cawn.rivals.memory.config import TgnSettings
from cawn.rivals.stream import Batches
from cawn.systems.neural import NeuralSystem

Array = npt.NDArray[Any]

NONE = -1  # no version


class BatchMessages(NamedTuple):
    """The messages of consecutive batches, grouped by the n versions that they produce."""

    nodes: Tensor  # [n] the receivers
    sender: Tensor  # [m] the other end of each link, as a position among the versions of its batch
    links: Tensor  # [m] positions in `MemoryBatches.events`
    gap: Tensor  # [m] time since the receiver's previous version, 0 without one; float64
    counts: Tensor | None  # [n] messages of each version; None if each has one

    def mean(self, values: Tensor) -> Tensor:
        """Averages over the messages of each version: [m, d] -> [n, d]."""
        if self.counts is None:
            return values
        return torch.segment_reduce(values, "mean", lengths=self.counts, axis=0, unsafe=True)


class MemoryBatches(Batches):
    """The past links of nodes, and the updates of memories by each batch; see `batch_ends`.

    Each batch produces a new version of the memory of every node in it. Versions are numbered by batch, then by node;
    the numbering depends only on the links.

    Args:
        versions: The most versions in a part of the stream, unless it is one batch.
    """

    def __init__(self, events: Events, system: NeuralSystem, versions: int) -> None:
        super().__init__(events, system)
        config: TgnSettings = system.config
        self._index(last=config.aggregation == "last")
        self.bounds = part_bounds(self.first_version, versions)  # of the parts that are replayed at once, in batches

    def version(self, nodes: Tensor, complete: Tensor) -> Tensor:
        """The latest version of each node's memory after the first `complete` batches; NONE if it has none."""
        if len(self._version_codes) == 0:
            return torch.full_like(nodes + complete, NONE)
        base = self.rows(nodes) * (len(self) + 1)
        at = torch.searchsorted(self._version_codes, base + complete) - 1
        exists = (at >= 0) & (self._version_codes[at.clamp(min=0)] >= base)
        return torch.where(exists, self._versions_by_node[at], NONE)

    def time_since(self, nodes: Tensor, t: Tensor, complete: Tensor) -> Tensor:
        """The time from the latest message of each node to t, 0 without one; float64."""
        version = self.version(nodes, complete)
        return torch.where(version == NONE, 0, t - self.latest[version]).double()

    def messages(self, first: int, last: int) -> BatchMessages:
        """The messages of batches first..last."""
        versions = slice(self.first_version[first], self.first_version[last])
        messages = slice(self._first_message[first], self._first_message[last])
        single = versions.stop - versions.start == messages.stop - messages.start
        sender, links, gap = (column[messages] for column in (self._sender, self._links_of_messages, self._gap))
        return BatchMessages(self.owner[versions], sender, links, gap, None if single else self._counts[versions])

    def _index(self, *, last: bool) -> None:
        """Group the messages of all batches by version; with `last`, only those at its latest time."""
        count = int(self.ends[-1]) if len(self.ends) else 0
        src, dst, t = (column[:count] for column in (self.events.src, self.events.dst, self.events.t))
        both = np.stack([np.ones(count, bool), src != dst], axis=1)  # a self-loop sends one message
        links = np.repeat(np.arange(count), both.sum(axis=1))
        receiver, sender = np.stack([src, dst], axis=1)[both], np.stack([dst, src], axis=1)[both]
        batch, stride = self.complete(links), self.num_nodes + 1
        order = np.argsort(batch * stride + receiver, kind="stable")  # by batch, receiver and time
        links, sender = links[order], (batch * stride + sender)[order]
        versions, first, counts = np.unique((batch * stride + receiver)[order], return_index=True, return_counts=True)
        latest = t[links[first + counts - 1]]
        version = np.repeat(np.arange(len(versions)), counts)  # the version of each message
        if last:
            kept = t[links] == latest[version]
            links, version, sender = links[kept], version[kept], sender[kept]
            counts = np.bincount(version, minlength=len(versions))
        batch, owner = np.divmod(versions, stride)
        bounds = np.arange(len(self) + 1)
        first_version = np.searchsorted(batch, bounds)
        self.first_version: list[int] = first_version.tolist()  # [batches + 1]
        self._first_message: list[int] = np.searchsorted(batch[version], bounds).tolist()
        codes = owner * (len(self) + 1) + batch
        by_node = np.argsort(codes)
        previous = np.full(len(versions), NONE)
        previous[by_node[1:]] = np.where(np.diff(owner[by_node]) == 0, by_node[:-1], NONE)
        gap = np.where(previous[version] == NONE, 0, t[links] - latest[previous[version]]) if count else np.empty(0)

        def tensor(array: Array) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

        self.owner, self.previous, self._counts = tensor(owner), tensor(previous), tensor(counts)  # [versions]
        self.latest = tensor(np.append(latest, latest.dtype.type(0)))  # [versions + 1] times; 0 for NONE
        self._versions_by_node, self._version_codes = tensor(by_node), tensor(codes[by_node])
        self._links_of_messages, self._gap = tensor(links), tensor(gap.astype(np.float64))
        self._sender = tensor(np.searchsorted(versions, sender) - first_version[batch[version]])


def part_bounds(first_version: list[int], versions: int) -> list[int]:
    """Divides batches into parts of at most `versions` versions, or one batch: the bounds of at least one part."""
    starts, bounds = np.array(first_version), [0]
    while bounds[-1] < len(starts) - 1:
        end = int(np.searchsorted(starts, starts[bounds[-1]] + versions, side="right")) - 1
        bounds.append(max(end, bounds[-1] + 1))
    return bounds if len(bounds) > 1 else [0, 0]
