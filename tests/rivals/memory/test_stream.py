"""The messages of batches of links."""

import numpy as np
import pytest
import torch

import cawn
from cawn.rivals.memory.config import TgnSettings
from cawn.rivals.memory.stream import MemoryBatches
from cawn.rivals.memory.system import MemorySystem
from cawn.systems.base import Context

CPU = torch.device("cpu")


def stream_of(events: cawn.Events, **settings: object) -> MemoryBatches:
    config = TgnSettings(dim=2, time_dim=2, **settings)
    system = MemorySystem(Context(config, events, 0, CPU, facts={"unit": 1.0}))
    return system.past(events)


@pytest.mark.parametrize("aggregation", ["last", "mean"])
def test_the_messages_of_a_batch(aggregation: str) -> None:
    #                      batch 0                     batch 1      no batch
    src, dst, t = [0, 0, 3, 1], [1, 2, 0, 3], [5, 6, 6, 7]
    events = cawn.Events([*src, 4, 1, 4, 2, 0], [*dst, 4, 2, 1, 4, 1], [*t, 8, 8, 9, 9, 10])
    stream = stream_of(events, aggregation=aggregation, batch_size=4)
    assert stream.ends.tolist() == [4, 8]
    assert stream.complete(np.array([0, 3, 4, 7, 8, 9])).tolist() == [0, 0, 1, 1, 2, 2]

    messages = stream.messages(0, 1)
    assert messages.nodes.tolist() == [0, 1, 2, 3]
    assert stream.latest[:4].tolist() == [6, 7, 6, 7]
    assert messages.counts is not None
    assert messages.counts.tolist() == ([2, 1, 1, 1] if aggregation == "last" else [3, 2, 1, 2])
    receiver = torch.repeat_interleave(messages.nodes, messages.counts)
    sender, t = messages.nodes[messages.sender], stream.t[messages.links]
    latest = {(0, 2, 6), (0, 3, 6), (1, 3, 7), (2, 0, 6), (3, 1, 7)}
    earlier = {(0, 1, 5), (1, 0, 5), (3, 0, 6)}
    found = set(zip(receiver.tolist(), sender.tolist(), t.tolist(), strict=True))
    assert found == (latest if aggregation == "last" else latest | earlier)
    assert (messages.gap == 0).all()


def test_versions_of_memories() -> None:
    #                    batch 0       batch 1       no batch
    events = cawn.Events([0, 0, 1, 2, 0], [1, 2, 2, 2, 1], [5, 6, 8, 9, 10])
    stream = stream_of(events, batch_size=2)
    assert stream.first_version == [0, 3, 5]
    assert stream.owner.tolist() == [0, 1, 2, 1, 2]
    assert stream.latest.tolist() == [6, 5, 6, 8, 9, 0]
    assert stream.previous.tolist() == [-1, -1, -1, 1, 2]
    assert stream.messages(1, 2).gap.tolist() == [8 - 5, 9 - 6]
    nodes = torch.tensor([0, 1, 2, 3, -1])
    for complete, versions in enumerate([[-1] * 5, [0, 1, 2, -1, -1], [0, 3, 4, -1, -1]]):
        assert stream.version(nodes, torch.tensor(complete)).tolist() == versions
    assert stream.time_since(nodes, torch.tensor(20), torch.tensor(2)).tolist() == [14, 12, 11, 0, 0]


def test_a_node_with_one_message_needs_no_aggregation() -> None:
    stream = stream_of(cawn.Events([0, 1, 0, 1], [2, 3, 3, 2], [1, 2, 3, 4]), batch_size=2)
    assert stream.messages(0, 2).counts is None


def test_no_batches_without_links() -> None:
    assert len(stream_of(cawn.Events([], [], np.empty(0, np.int64), num_nodes=3), batch_size=2)) == 0
