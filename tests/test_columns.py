"""Optional columns of links: weights, own negatives, ids."""

from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.events import hash_ids
from cawn.name_index import NameIndex
from cawn.node_names import Spelling
from cawn.runs import read_network, write_network
from cawn.updates import joined


def example() -> cawn.Events:
    return cawn.Events(
        [0, 1, 2], [1, 2, 0], [3, 1, 2], weight=[0.5, 0.0, 2.0], negative=[2, -1, 5], link_id=["c", "a", "b"]
    )


def test_columns_follow_order_and_choice() -> None:
    events = example()
    assert events.num_nodes == 6  # a negative that occurs nowhere else is a node
    assert events.weight.tolist() == [0.0, 2.0, 0.5]
    assert events.weight.dtype == np.float32
    assert events.negative.tolist() == [-1, 5, 2]
    assert events.negative.dtype == np.int32
    assert events.link_id.tolist() == hash_ids("abc").tolist()
    part = events[1:]
    assert part.weight.tolist() == [2.0, 0.5]
    assert part.negative.tolist() == [5, 2]
    assert part.link_id.tolist() == hash_ids("bc").tolist()
    with pytest.raises(ValueError, match="read-only"):
        part.weight[0] = 1


def test_ids_are_compared_by_their_text() -> None:
    assert hash_ids([7]).tolist() == hash_ids(["7"]).tolist() == [9407870976149377255]
    assert hash_ids(["7"]) != hash_ids(["007"])
    events = cawn.Events([0], [1], [1], link_id=hash_ids(["x"]))
    assert events.link_id.tolist() == hash_ids(["x"]).tolist()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"weight": [1, -1]}, r"weight\[1\] is -1.0: link weights are numbers from 0"),
        ({"weight": [1, np.inf]}, r"weight\[1, 0\] is inf"),
        ({"weight": [0, 0]}, "weight: all are 0"),
        ({"weight": [1]}, "expected one row for each of the 2 links"),
        ({"weight": [[1, 2], [3, 4]]}, "weight has 2 columns"),
        ({"negative": [0, -2]}, r"negative\[1\] is -2: negatives are node ids, or -1 for none"),
        ({"negative": [0.5, 1]}, "negative is float64"),
        ({"negative": [1]}, "a node id for each of the 2 links"),
        ({"link_id": ["a"]}, r"link_id has shape \(1,\)"),
        ({"link_id": ["a", None]}, "link_id holds None"),
    ],
)
def test_refused(columns, message: str) -> None:
    with pytest.raises(cawn.DataError, match=message):
        cawn.Events([0, 1], [1, 0], [1, 2], **columns)


def test_stored_with_the_network(tmp_path: Path) -> None:
    events = example()
    write_network(tmp_path, events)
    held, _ = read_network(tmp_path)
    for name in ("weight", "negative", "link_id"):
        assert getattr(held, name).tolist() == getattr(events, name).tolist()
        assert getattr(held, name).dtype == getattr(events, name).dtype


def test_updates_carry_ids() -> None:
    events = example()
    names = NameIndex.of(events.labels)
    both, _ = joined(events, names, cawn.Events([0], [1], [9], link_id=["d"]), Spelling(None))
    assert both.link_id.tolist() == hash_ids("abcd").tolist()
    without, _ = joined(events, names, cawn.Events([0], [1], [9]), Spelling(None))
    assert without.link_id.tolist() == [*hash_ids("abc").tolist(), 0]
