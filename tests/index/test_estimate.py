"""Sizes of an index by formula, beside those of one that is built."""

import json

import numpy as np
import pytest

import cawn
from cawn.index.features import PairParts
from cawn.index.index import Index
from cawn.index.sizes import Counts, index_bytes, memory_to_build
from command_line import assert_refused, call_cawn

WALKS_ALONE = PairParts(False, False, False, False, False)
UNDIRECTED = PairParts(rates=True, directed=False, since=False, two_steps=False, transitions=False)


@pytest.mark.parametrize("parts", [PairParts(), UNDIRECTED, WALKS_ALONE])
@pytest.mark.parametrize("links", [2_000, 20_000])
@pytest.mark.parametrize("num_decays", [1, 8])
def test_the_formula_gives_the_bytes_of_an_index(parts: PairParts, links: int, num_decays: int) -> None:
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, links // 10, (2, links))
    events = cawn.Events(src, dst, np.arange(links), num_nodes=links // 10)
    index = Index.of(events, np.linspace(0, 1, num_decays), parts.kinds, parts.decay(1.0))
    keys = [len(index.kinds[kind]["keys"]) if kind in index.kinds else 0 for kind in ("pairs", "next")]
    found = index_bytes(Counts(links, events.num_nodes, *keys), num_decays, parts)
    assert found == pytest.approx(index.nbytes, rel=0.03)  # self-loops, and nodes whose last link is followed by none
    most = Counts.at_most(links, events.num_nodes)
    assert memory_to_build(most, num_decays, parts) > index_bytes(most, num_decays, parts) >= found


def test_info_estimates_an_index_that_does_not_exist() -> None:
    options = ("--estimate", "links=3e5,nodes=1e4", "--estimate", "pairs=1e5", "--set", "alpha=0.1", "--json")
    found, small = (json.loads(call_cawn("info", *options, "--memory", limit).out) for limit in ("4GiB", "20MiB"))
    assert (found["links"], found["nodes"], found["pairs"], found["decays"]) == (300_000, 10_000, 100_000, 1)
    assert found["disk"] == small["disk"] > 300_000 * 100
    assert found["temporary"] == 0 < small["temporary"]
    assert found["seconds"] > 0
    assert "300,000 links" in call_cawn("info", *options[:-1]).out
    assert_refused(call_cawn("info", "--estimate", "nodes=3"), "--estimate lacks links=N")
    assert_refused(call_cawn("info", "--estimate", "links=many"), "--estimate is 'links=many'")
    assert_refused(call_cawn("info", "--estimate", "links=2e9"), "one index holds fewer than 2**30")
    assert_refused(call_cawn("info", "--estimate", "links=9", "--system", "tgn"), "has no index")
    assert_refused(call_cawn("info"), "give either RUN, a run or index folder, or --estimate links=N")
