"""Networks in words, and the decays that follow from their pace."""

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cawn
from cawn.data import laws
from cawn.data.decays import LADDERS, time_unit
from cawn.data.summary import describe, in_words
from cawn.data.times import usual
from cawn.learn.indexing import build_index
from cawn.progress import progress
from cawn.systems.cawn.config import Config
from cawn.systems.cawn.system import decays

DAY = 86_400


@pytest.mark.parametrize(
    ("events", "sentences"),
    [
        (cawn.Events([], [], []), ["no links, so there is nothing to learn from"]),
        (cawn.Events([0, 1], [1, 2], [7, 7]), ["all links are at 7, so no link has a history"]),
        (
            cawn.Events([0, 1, 2, 0, 3], [1, 0, 3, 1, 3], [10, 20, 30, 40, 40], msg=np.ones((5, 2)), x=np.ones(4)),
            [
                "4 nodes, 5 links, 2 link and 1 node attributes; 40% repeat an earlier pair (in either direction), ",
                "20% share a time, 20% self-loops\nfrom 10 to 40; an average node links every 12 units of time (1/tau)",
            ],
        ),
        (
            cawn.Events([0] * 20, [1] * 20, 1_704_067_200 + np.arange(20) * DAY // 2 + 0.5),
            ["from 2024-01-01T00:00:00.5 to 2024-01-10T12:00:00.5; an average node links every 11.4 hours"],
        ),
        (
            cawn.Events([0] * 400, [1] * 400, np.append(np.arange(398) * DAY + 1_600_000_000, [0, 2_600_000_000])),
            ["from 2020-09-13T12:26:40 to 2021-10-15T12:26:40 (but for 2 links far from these", "23.9 hours (1/tau)"],
        ),
    ],
)
def test_networks_in_words(events: cawn.Events, sentences: list[str]) -> None:
    found = describe(events)
    words = in_words(found)
    assert all(sentence in words for sentence in sentences), words
    assert ("alpha" in words) == (events.intensity > 0)
    assert found["alpha"] == [LADDERS["wide"][0] * events.intensity, LADDERS["wide"][-1] * events.intensity]


def test_the_pairs_of_a_stored_index_are_counted(tmp_path: Path) -> None:
    """If it has them."""
    events = laws.null(20, 100, seed=0).events
    log = tmp_path / "log.parquet"
    pq.write_table(pa.table({"src": events.src, "dst": events.dst, "t": events.t}), log)
    for preset, expected in (("fast", describe(events)), ("paper-mean", describe(events) | {"repeats": None})):
        folder, config = tmp_path / preset, Config.preset(preset)
        build_index(log, folder, config, memory=2**33, report=partial(progress, quiet=True))
        assert describe(cawn.read(folder)) == expected


@given(
    gaps=st.lists(st.integers(1, 50), min_size=299, max_size=299),
    far=st.lists(st.sampled_from([-(10**6), -(10**7), 10**6, 10**8]), max_size=4),
    unit=st.sampled_from([1, 1000, 2.0**-10]),
)
def test_links_dated_far_from_all_others_do_not_move_decays(gaps: list[int], far: list[int], unit: float) -> None:
    t = np.append(0, np.cumsum(gaps))
    plain = cawn.Events(np.arange(300) % 9, np.arange(300) % 7, t * unit)
    both = cawn.Events([*plain.src, *[1] * len(far)], [*plain.dst, *[2] * len(far)], np.append(t, far) * unit)
    sides = sum(time < 0 for time in far), sum(time > 0 for time in far)
    if max(sides) <= 3 and t[-1] > 0:
        assert usual(both.t) == slice(sides[0], 300 + sides[0])
        assert (both.intensity, time_unit(both)) == (plain.intensity, time_unit(plain))
    assert usual(plain.t) == slice(0, 300)


def test_the_ladder_follows_the_pace_of_the_network() -> None:
    events = laws.null(50, 1_000, seed=0).events
    tau = events.intensity
    assert decays(Config(), tau) == tuple(f * tau for f in LADDERS["wide"])
    assert len(decays(Config(num_walks=12), tau)) == 4
    assert decays(Config(num_walks=5), tau) == (LADDERS["wide"][4] * tau,)
    assert decays(Config(alpha=0.5), tau, "slow") == (0.5,)
    assert decays(Config(alpha=(0.5, 2.0)), tau) == (0.5, 2.0)
    assert decays(Config.preset("paper-mean"), tau) == (tau / 5,)
    faster = cawn.Events(events.src, events.dst, events.t / 1000.0, num_nodes=50)
    np.testing.assert_allclose(np.array(decays(Config(), faster.intensity)) / decays(Config(), tau), 1000)
