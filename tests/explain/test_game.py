"""Games: their values against a slow twin, and contributions that add up for every kind of model."""

import numpy as np
import pytest
import torch

import cawn
from cawn.caw.features import WALK_SEED, Batch, columns
from cawn.caw.system import WalkScorer
from cawn.explain.game import Game, StandIns
from cawn.index.features import NO_SEQUENCES
from cawn.walks.kernels.prefixes import Level
from networks import random_events
from small_cawn import OPTIONS, attributed, random_scorer
from small_explanation import M, random_pairs
from tolerances import SCORES, assert_same_scores

ALPHA = (0.05, 1.0)
NO_X = {"logarithms": False, "degree": False, "directed": False, "attributes": False}  # features of positions


Ends = tuple[np.ndarray, np.ndarray, np.ndarray]


def attributed_game(**changes: object) -> tuple[WalkScorer, Game, Ends]:
    """A scorer, and the games of six pairs: with a new node and, last, a time before all links."""
    config = cawn.Config(**{"num_walks": 8, "length": 2, "dim": 8, "frequencies": 4, "alpha": ALPHA} | changes)
    scorer = random_scorer(config, attributed(), ALPHA, noise=0.2)
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 13, (2, 6))  # node 12 is new
    ends = src, dst, np.append(rng.integers(20, 110, 5), 0)
    return scorer, Game(scorer, *ends), ends


@pytest.mark.parametrize(
    "changes", [*(one | {"length": 2, "tree": ()} for one in OPTIONS), {"length": 1}, {"length": 4}, NO_X], ids=str
)
def test_everything_adds_up_for_every_model(changes: dict) -> None:
    """All parts: the logit. No part: that of strangers. Walks and counts within a part: its contribution."""
    scorer, game, (src, dst, t) = attributed_game(**changes)
    found = game.contributions()
    assert_same_scores(found.table[:, -1], scorer(src, dst, t))
    strangers = np.full(6, 50)
    assert_same_scores(found.table[:, 0], scorer(strangers, strangers + 1, t))
    np.testing.assert_allclose(found.table[:, 0] + found.parts.sum(axis=1), found.table[:, -1], atol=1e-9)
    within = found.counted.copy()
    np.add.at(within, (game.walks.pair, game.part_of_walk), found.walks)
    walks = game.parts.walks
    np.testing.assert_allclose(within[:, walks], found.parts[:, walks], atol=1e-9)
    assert not found.counted[:, [i for i in range(len(game.parts.names)) if i not in walks]].any()


def test_two_strangers_have_no_contributions() -> None:
    scorer, _, _ = attributed_game()
    found = Game(scorer, np.array([40]), np.array([41]), np.array([60])).contributions()
    np.testing.assert_allclose(found.parts, 0, atol=1e-6)


def test_pairs_do_not_depend_on_each_other() -> None:
    scorer, game, (src, dst, t) = attributed_game()
    together, alone = game.contributions(), Game(scorer, src[2:3], dst[2:3], t[2:3]).contributions()
    np.testing.assert_allclose(alone.parts[0], together.parts[2], atol=2 * SCORES)
    np.testing.assert_allclose(alone.walks, together.walks[game.walks.pair == 2], atol=2 * SCORES)


def test_more_pairs_than_are_evaluated_at_once() -> None:
    scorer, _, _ = attributed_game()
    rng = np.random.default_rng(2)
    src, dst, t = rng.integers(0, 12, 70), rng.integers(0, 12, 70), rng.integers(20, 110, 70)
    found = Game(scorer, src, dst, t).contributions()
    assert_same_scores(found.table[:, -1], scorer(src, dst, t))
    last = Game(scorer, src[69:], dst[69:], t[69:]).contributions()
    np.testing.assert_allclose(last.parts[0], found.parts[69], atol=2 * SCORES)


def test_both_ends_are_treated_alike() -> None:
    """In a model that ignores the order of the ends, exchanging them exchanges their contributions and no others."""
    config = cawn.Config(num_walks=8, dim=8, directed=False, alpha=ALPHA)
    events = random_events(3, num_nodes=10, num_links=150)
    scorer = random_scorer(config, events, ALPHA, noise=0.2)
    src, dst, t = np.array([1, 4, 7]), np.array([2, 3, 5]), np.full(3, events.t[-20])
    one, two = (Game(scorer, *ends, t).contributions().parts for ends in ((src, dst), (dst, src)))
    names = Game(scorer, src, dst, t).parts.names
    exchanged = [names.index({"source": "destination", "destination": "source"}.get(name, name)) for name in names]
    np.testing.assert_allclose(one, two[:, exchanged], atol=5 * SCORES)
    assert np.abs(one).max() > 0.01


@pytest.mark.parametrize(
    "changes",
    [{}, {"sides": "joint", "rnn": "gru"}, {"directed": False}, {"rnn": "transformer"}, {"head": "linear"}],
    ids=str,
)
def test_values_by_a_slow_twin(changes: dict) -> None:
    """Every walk encoded alone, its identities counted over the walks that are known, in plain loops."""
    scorer, game, _ = attributed_game(**changes)
    coalitions = np.random.default_rng(6).random((8, len(game.parts.names))) < 0.6
    found = game.values(coalitions, game.players)
    for b in (0, 3):
        for c, known in enumerate(coalitions):
            assert found[b, c] == pytest.approx(slow_value(scorer, game, b, known), abs=5 * SCORES)


def slow_value(scorer: WalkScorer, game: Game, b: int, known: np.ndarray) -> float:
    parts, batcher, model = game.parts, scorer.batcher, scorer.module.eval()
    has = {name: bool(known[i]) for i, name in enumerate(parts.names)}
    nodes, times, events = (values[game._rows[b]] for values in game._sampled)  # [2, M, L] each
    present = known[game.part_of_walk[game._walk_numbers[b]]]  # [2, M]
    L = nodes.shape[2]
    counts: list[dict[int, np.ndarray]] = [{}, {}]
    for side in (0, 1):
        for w in range(nodes.shape[1]):
            for i in range(L if present[side, w] else 1):
                if nodes[side, w, i] >= 0:
                    counts[side].setdefault(int(nodes[side, w, i]), np.zeros(L, np.int32))[i] += 1
    pooled = []
    stranger = encode(
        scorer, [(50, times[0, 0, 0], -1)], [(np.array([len(nodes[0]), *[0] * (L - 1)]), np.zeros(L))], {}
    )
    for side in (0, 1):
        encoded = []
        for w in range(nodes.shape[1]):
            if not present[side, w]:
                encoded.append(stranger)
                continue
            steps = [i for i in range(L) if nodes[side, w, i] >= 0]
            path = [(int(nodes[side, w, i]), times[side, w, i], int(events[side, w, i])) for i in steps]
            zero = np.zeros(L, np.int32)
            pairs = [(counts[side][node], counts[1 - side].get(node, zero)) for node, _, _ in path]
            encoded.append(encode(scorer, path, pairs, has))
        pooled.append(torch.stack(encoded).mean(dim=0))
    own, strangers = game._features[b], game._stand_ins.features[b]
    features = np.array([own[i] if known[part] else strangers[i] for i, part in enumerate(parts.feature.tolist())])
    means = torch.stack([sum(pooled) / 2] if batcher.config.sides == "joint" else pooled)
    with torch.no_grad():
        return float(model.head(model.join(means, torch.from_numpy(features)[None])))


def encode(scorer: WalkScorer, path: list, pairs: list, has: dict[str, bool]) -> torch.Tensor:
    """The encoding of one walk, given as (node, time, event), with the counts of its nodes on both sides."""
    batcher, levels, vectors = scorer.batcher, [], []
    for i, ((node, t, event), (own, other)) in enumerate(zip(path, pairs, strict=True)):
        vectors += [own, other]
        before = path[max(i - 1, 0)][1]
        level = Level(
            np.array([i and 0]), np.array([0]), np.array([2 * i]), np.array([2 * i + 1]), np.ones(1, np.float32),
            np.array([node], np.int32), np.array([event]), np.array([t]), np.array([float(before - t)]),
            np.array([float(path[0][1] - t)]),
        )  # fmt: skip
        level = batcher._with_features(level, levels[-1] if levels else level)
        x, code = level.x.copy(), batcher.config.time_code
        for name, part in columns(batcher.config, batcher.events).items():
            if name in ("msg", "x") and not has.get("attributes", True):
                x[:, part] = 0
            if name == "time" and not has.get("time", True):
                x[:, part] = 0
        level = level._replace(x=x)
        if not has.get("time", True):
            level = level._replace(**{code: np.zeros(1, np.float32)})
        levels.append(level)
    batch = Batch(batcher.config.num_walks, np.array(vectors, np.int32), levels, np.empty((1, 0), np.float32))
    with torch.no_grad():
        return scorer.module.walks(batch.to("cpu"))[-1][0]


def test_walks_of_a_linear_model() -> None:
    """Without relative identities, the contribution of a walk is its term of the logit, less that of a stranger's."""
    scorer, model, (src, dst, t) = random_pairs(head="linear", identity="none", rates=False, time=False, **NO_SEQUENCES)
    game = Game(scorer, src, dst, t)
    found = game.contributions()
    batch = scorer.batcher.trace(src, dst, t, seed=WALK_SEED)
    with torch.no_grad():
        states = model.walks(batch.to("cpu"))
        stranger = model.walks(scorer.batcher.trace(np.array([50]), np.array([51]), t[:1], seed=0).to("cpu"))[0][0]
    weight = model.head.weight.detach()[0].reshape(2, -1)
    for i, contribution in enumerate(found.walks):
        state = states[game.walks.level[i]][game.walks.row[i]]
        term = game.walks.count[i] / M * (weight[game.walks.side[i]] @ (state - stranger)).item()
        assert contribution == pytest.approx(term, abs=2 * SCORES)


def test_other_stand_ins() -> None:
    """With other pairs as stand-ins, the value of no part is their logit, and contributions still add up."""
    scorer, _, (src, dst, t) = random_pairs()
    others = np.array([3, 8, 1, 0, 5]), np.array([7, 2, 6, 4, 9])
    found = Game(scorer, src, dst, t, StandIns.pairs(scorer.batcher, *others, t)).contributions()
    assert_same_scores(found.table[:, -1], scorer(src, dst, t))
    assert_same_scores(found.table[:, 0], scorer(*others, t))
    np.testing.assert_allclose(found.parts.sum(axis=1), found.table[:, -1] - found.table[:, 0], atol=1e-9)


@pytest.mark.gpu
@pytest.mark.parametrize("changes", [{}, {"pooling": "attention", "sides": "joint"}, {"directed": False}], ids=str)
def test_the_same_on_a_gpu(gpu, changes: dict) -> None:
    scorer, game, ends = attributed_game(**changes)
    expected = game.contributions()
    scorer.module.to(gpu)
    found = Game(scorer, *ends).contributions()
    np.testing.assert_allclose(found.parts, expected.parts, atol=1e-4)
    np.testing.assert_allclose(found.walks, expected.walks, atol=1e-4)
