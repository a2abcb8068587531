"""The messages of batches of links."""

import numpy as np
import pytest
import torch

import cawn
from cawn.systems.base import Context
from cawn.systems.memory.config import TgnSettings
from cawn.systems.memory.stream import Stream
from cawn.systems.memory.system import MemorySystem

CPU = torch.device("cpu")


def stream_of(events: cawn.Events, **settings: object) -> Stream:
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

    batch = stream.batch(0)
    assert batch.nodes.tolist() == [0, 1, 2, 3]
    assert batch.latest.tolist() == [6, 7, 6, 7]
    events = stream.events
    found = {
        (int(batch.nodes[receiver]), int(batch.nodes[sender]), int(events.t[link]))
        for receiver, sender, link in zip(batch.receiver, batch.sender, batch.links, strict=True)
    }
    latest = {(0, 2, 6), (0, 3, 6), (1, 3, 7), (2, 0, 6), (3, 1, 7)}
    earlier = {(0, 1, 5), (1, 0, 5), (3, 0, 6)}
    assert found == (latest if aggregation == "last" else latest | earlier)
    assert batch.counts is not None
    assert batch.counts.tolist() == ([2, 1, 1, 1] if aggregation == "last" else [3, 2, 1, 2])
    assert torch.equal(torch.repeat_interleave(torch.arange(4), batch.counts), batch.receiver)


def test_a_node_with_one_message_needs_no_aggregation() -> None:
    stream = stream_of(cawn.Events([0, 1, 0, 1], [2, 3, 3, 2], [1, 2, 3, 4]), batch_size=2)
    assert all(stream.batch(number).counts is None for number in range(2))


def test_no_batches_without_links() -> None:
    assert len(stream_of(cawn.Events([], [], np.empty(0, np.int64), num_nodes=3), batch_size=2)) == 0
