"""What each link may draw, compared with sets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cawn
from cawn.learn.negatives import CHOICES
from cawn.systems import choices as negatives
from cawn.systems.choices import Choices, by_first_link, first_links

LINKS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=40)


def allowed(choices: Choices, i: int) -> list[int]:
    """The destinations that a link draws with the numbers 0, 1, ... below its count."""
    skipped = choices.skipped[choices.skip_from[i] : choices.skip_to[i]]
    return [int(choices.nodes[choices.first[i] + r + (skipped <= r).sum()]) for r in range(choices.count[i])]


def expected(events: cawn.Events, link: int, seen: list[int], new: bool) -> list[int]:
    """The same, by sets."""
    links = list(zip(events.src.tolist(), events.dst.tolist(), events.t.tolist(), strict=True))
    u, _, now = links[link]
    partners = {v for a, v, _ in (links[i] for i in seen) if a == u}
    if new:
        partners = {v for a, v, _ in links if a == u} - partners
    partners -= {v for a, v, t in links if (a, t) == (u, now)}
    order = list(dict.fromkeys(node for a, v, _ in links for node in (a, v)))
    return sorted(partners, key=order.index)


@pytest.mark.parametrize("kind", ["historical", "inductive"])
@settings(max_examples=60)
@given(data=st.data(), links=LINKS)
def test_partners_of_the_source(kind: str, data: st.DataObject, links: list) -> None:
    src, dst, t = np.array(sorted(links, key=lambda link: link[2])).T
    events = cawn.Events(src, dst, t, num_nodes=8)
    seen = data.draw(st.lists(st.integers(0, len(src) - 1), unique=True).map(sorted))
    asked = data.draw(st.lists(st.integers(0, len(src) - 1), min_size=1))  # in any order, some perhaps twice
    choices = CHOICES[kind](events, np.array(asked), np.array(seen, np.int64))
    for i, link in enumerate(asked):
        assert allowed(choices, i) == expected(events, link, seen, kind == "inductive")


@pytest.mark.parametrize("block", [1, 3, 1 << 20])
@given(links=LINKS)
def test_nodes_by_their_first_link(block: int, links: list) -> None:
    src, dst, _ = np.array(links).T
    nodes = [node for u, v, _ in links for node in (u, v)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(negatives, "_BLOCK", block)
        assert by_first_link(src, dst, 8).tolist() == list(dict.fromkeys(nodes))
        assert first_links(dst, 8).tolist() == [dst.tolist().index(v) for v in dict.fromkeys(dst.tolist())]
