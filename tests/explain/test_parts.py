"""Every input of the network belongs to one part: exact features by what they count, walks by how they meet."""

import numpy as np
import pytest

import cawn
from cawn.explain.parts import TITLES, WALK_PARTS, InputParts, feature_parts, walk_kinds
from cawn.index.features import PairParts
from networks import random_events
from small_cawn import attributed, random_scorer

ALPHA = (0.05, 1.0)


def test_kinds_of_walks_by_hand() -> None:
    """How a walk from the source (and one from the destination, mirrored) meets the other side; m = 2, ∞ is 3."""
    shapes = {
        "repeated": [(0, 1), (1, 0), (2, 1)],
        "common": [(0, 3), (1, 1), (2, 3)],
        "longer": [(0, 3), (1, 2), (2, 3)],
        "apart": [(0, 1), (1, 3), (0, 1)],  # the other side reaches the source, but this walk only returns to it
    }
    for name, shape in shapes.items():
        both = np.array([shape, [pair[::-1] for pair in shape]], np.int16)
        assert [WALK_PARTS[kind] for kind in walk_kinds(both, np.array([0, 1]), 2)] == [name] * 2
    ended = np.array([[(0, 3), (-1, -1), (-1, -1)]], np.int16)
    assert WALK_PARTS[walk_kinds(ended, np.array([0]), 2)[0]] == "apart"
    through = np.array([[(0, 3), (1, 3), (2, 0)]], np.int16)  # to the destination through a node it has not walked to
    assert WALK_PARTS[walk_kinds(through, np.array([0]), 2)[0]] == "common"


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("since", [True, False])
@pytest.mark.parametrize("transitions", [True, False])
def test_every_exact_feature_has_its_part(directed: bool, since: bool, transitions: bool) -> None:
    """Features that change with links between the two ends belong to the pair; those of an end do not."""
    parts = PairParts(True, directed, since, True, transitions)
    found = feature_parts(parts, 3)
    assert len(found) == parts.width(3)
    assert {*found} - {*TITLES} == set()
    assert ("longer" in found) == transitions
    assert found.count("source") == found.count("destination")


def test_features_of_the_pair_are_those_that_its_links_change() -> None:
    """Features of the pair differ from those of strangers; without its links, most of them no longer do."""
    events = random_events(5, num_nodes=12, num_links=300)
    config = cawn.Config(num_walks=8, dim=8, alpha=ALPHA)
    links = [(a, b) for a, b in zip(events.src.tolist(), events.dst.tolist(), strict=True) if a != b]
    u, v = max(set(links), key=links.count)
    of_pair = ((events.src == u) & (events.dst == v)) | ((events.src == v) & (events.dst == u))
    ends = np.array([u]), np.array([v]), events.t[-1:]
    with_pair, without = (
        random_scorer(config, some, ALPHA).batcher.exact_features(*ends)[0] for some in (events, events[~of_pair])
    )
    names = np.array(feature_parts(config.pair_parts, 2))
    strangers = random_scorer(config, events, ALPHA).batcher.exact_features(np.array([50]), np.array([51]), ends[2])[0]
    pair = names == "pair"
    assert (with_pair[pair] != strangers[pair]).all()
    assert (without[pair] == strangers[pair]).sum() > pair.sum() / 2


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, list(TITLES)),
        ({"attributes": False, "time": False}, [name for name in TITLES if name not in ("attributes", "time")]),
        (cawn.Config.PRESETS["walks"] | {"length": 1}, ["repeated", "common", "apart", "time", "attributes"]),
        ({"length": 1}, list(TITLES)),  # transitions are longer paths, too
    ],
    ids=str,
)
def test_a_model_has_the_parts_that_its_settings_use(changes: dict, names: list[str]) -> None:
    parts = InputParts.of(cawn.Config(**changes), attributed(), 8)
    assert list(parts.names) == names
    assert [parts.names[part] for part in parts.walks] == [name for name in WALK_PARTS if name in names]
    assert (parts.time >= 0, parts.attributes >= 0) == ("time" in names, "attributes" in names)
    assert parts.coalition(range(len(names))) == 2 ** len(names) - 1
