"""Memories as latest messages and as versions: the same values."""

import numpy as np
import pytest
import torch

from cawn import systems
from cawn.rivals.memory.memories import LatestMessages, MemoryVersions
from cawn.rivals.memory.network import MemoryNetwork
from cawn.rivals.memory.stream import MemoryBatches
from cawn.systems.base import Context
from networks import random_events


def network_and_stream(name: str) -> tuple[MemoryNetwork, MemoryBatches]:
    events = random_events(3, num_nodes=9, num_links=90, span=50)
    config = systems.settings_type(name)(batch_size=12, dim=6, time_dim=4, neighbours=3)
    facts = {"unit": 2.0, "gaps": (4.0, 9.0)}
    system = systems.build(name, Context(config, events, 0, torch.device("cpu"), facts=facts))
    system.module.eval()
    return system.module, system.past(events)


@pytest.mark.parametrize("name", ["tgn", "dyrep"])
@pytest.mark.parametrize("cut", [0, 2, 5])
def test_versions_are_the_memories_after_each_batch(name: str, cut: int) -> None:
    """Whether all batches are replayed at once, or in two parts."""
    network, stream = network_and_stream(name)
    begin = MemoryVersions(network, stream, torch.zeros(10, 6), 0, cut)
    versions = MemoryVersions(network, stream, begin.after(), cut, len(stream))
    latest = LatestMessages(network, stream, LatestMessages.initial(network, stream))
    nodes = torch.arange(-1, 12)
    assert len(stream) > 5
    for complete in range(len(stream) + 1):
        if complete > 0:
            latest.add(complete - 1)
        held = begin if complete < cut else versions
        expected = latest.read(nodes, torch.tensor(complete)).detach()
        torch.testing.assert_close(held.read(nodes, torch.tensor(complete)), expected)
        assert torch.equal((expected != 0).any(dim=1)[1:10], latest.seen[:9])  # 0 without messages
        assert not expected[[0, 10, 11, 12]].any()


def test_the_latest_versions_of_all_nodes() -> None:
    network, stream = network_and_stream("tgn")
    versions = MemoryVersions(network, stream, torch.zeros(10, 6), 0, len(stream))
    nodes = torch.arange(10)
    assert torch.equal(versions.after(), versions.read(nodes, torch.tensor(len(stream))))
    assert np.isfinite(versions.memory.numpy()).all()
