"""The network: sharing changes nothing, names change nothing, every option does something."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import cawn
from cawn.caw.config import Config
from cawn.caw.features import Batch
from cawn.caw.variants import TransformerPooling
from cawn.index.features import NO_SEQUENCES
from cawn.walks.kernels.prefixes import Level
from networks import random_events
from small_cawn import OPTIONS, SMALL, attributed, network, pairs
from tolerances import assert_same_scores


def unshared(batch: Batch, num_walks: int) -> Batch:
    """The same walks, each encoded for itself: every prefix repeated as often as walks run through it."""
    paths: list[list[int]] = []  # per walk, the prefix at each depth
    for depth, level in enumerate(batch.levels):
        for n, times in enumerate((level.weight * num_walks).round().int().tolist()):
            path, at = [n], n
            for i in range(depth, 0, -1):
                at = int(batch.levels[i].parent[at])
                path.insert(0, at)
            paths += [path] * times
    levels, previous = [], [-1] * len(paths)
    for depth, level in enumerate(batch.levels):
        alive = [w for w, path in enumerate(paths) if len(path) > depth]
        chosen = torch.tensor([paths[w][depth] for w in alive], dtype=torch.long)
        ends = torch.tensor([len(paths[w]) == depth + 1 for w in alive])
        fields = {name: value[chosen] for name, value in level._asdict().items() if value is not None}
        fields["parent"] = torch.tensor([previous[w] for w in alive], dtype=torch.long)
        fields["weight"] = ends.float() / num_walks
        levels.append(Level(**fields))
        for position, w in enumerate(alive):
            previous[w] = position
    return replace(batch, levels=levels)


@pytest.mark.parametrize("options", OPTIONS)
def test_encoding_once_is_exact(options: dict) -> None:
    config = Config(**SMALL, **options)
    model, batcher = network(attributed(), config)
    batch = batcher.trace(*pairs(), seed=3).to("cpu")
    every = unshared(batch, config.num_walks)
    assert sum(len(level.owner) for level in every.levels) > 1.5 * sum(len(level.owner) for level in batch.levels)
    assert_same_scores(model(batch), model(every))


@pytest.mark.parametrize("options", OPTIONS)
def test_merging_equal_prefixes_changes_nothing(options: dict) -> None:
    """Pairs that have ends and times in common, as those of a ranking do; and some that have not."""
    model, batcher = network(attributed(), Config(**SMALL, **options))
    src, dst, t = pairs(300)
    src[:200], t[:250] = src[0], t[0]
    merged, plain = batcher.pairs(src, dst, t, seed=3), batcher.trace(src, dst, t, seed=3)
    assert merged.levels[0].row is not None
    assert plain.levels[0].row is None
    assert sum(len(level.node) for level in merged.levels) < sum(len(level.node) for level in plain.levels)
    with torch.no_grad():
        assert_same_scores(model(merged), model(plain))
        assert torch.equal(model(merged), model(merged))


@pytest.mark.parametrize("options", OPTIONS)
def test_renaming_nodes_changes_no_score(options: dict) -> None:
    config = Config(**SMALL, **options)
    events = attributed()
    name = np.random.default_rng(1).permutation(12)
    x = np.empty_like(events.x)
    x[name] = events.x
    renamed = cawn.Events(name[events.src], name[events.dst], events.t, msg=events.msg, x=x)
    src, dst, t = (a[:30] for a in pairs())
    src, dst = src % 12, dst % 12
    scores = []
    for network_events, u, v in ((events, src, dst), (renamed, name[src], name[dst])):
        model, batcher = network(network_events, config)
        scores.append(model(batcher.pairs(u, v, t, seed=3)))
    assert_same_scores(*scores)


@pytest.mark.parametrize("options", OPTIONS[1:])
def test_every_option_does_something(options: dict) -> None:
    events = attributed()
    scores = []
    for config in (Config(**SMALL), Config(**SMALL, **options)):
        model, batcher = network(events, config)
        scores.append(model(batcher.pairs(*pairs(), seed=3)))
    assert not torch.allclose(*scores)


def test_contrast_is_two_sets_of_pairs() -> None:
    model, batcher = network(attributed(), Config(**SMALL))
    src, dst, t = pairs()
    false = np.roll(dst, 3)
    both = model(batcher.contrast(src, dst, false, t, seed=2)).view(2, -1)
    assert_same_scores(both[0], model(batcher.pairs(src, dst, t, seed=2)))
    assert_same_scores(both[1], model(batcher.pairs(src, false, t, seed=2)))


def test_the_papers_equations_by_hand() -> None:
    """paper-mean on one pair, computed again with torch's own LSTM over every walk."""
    config = Config.preset("paper-mean").with_(num_walks=8, length=2, dim=6, frequencies=3, alpha=0.05)
    events = random_events(4, num_nodes=12, num_links=200, span=100)
    model, batcher = network(events, config)
    history = batcher.history
    u, v, t = np.array([1]), np.array([2]), np.array([90])
    sets = [history.sample(ends, t, num_walks=8, length=2, seed=5) for ends in (u, v)]
    counts = torch.from_numpy(cawn.anonymize(*sets)[0]).float() / 8  # [2, 8, 3, 2, 3]
    position = model.walks.position
    mlp, f2 = position.f1.mlps[0], position.f2
    encodings = []
    for side, walks in enumerate(sets):
        for w in range(8):
            h, c = torch.zeros(6), torch.zeros(6)
            for i in range(3):
                if walks.nodes[0, w, i] < 0:
                    break
                f1 = mlp(counts[side, w, i, 0]) + mlp(counts[side, w, i, 1])
                elapsed = torch.tensor([(walks.t[0, w, max(i - 1, 0)] - walks.t[0, w, i]) / 10.0], dtype=torch.float32)
                z = position.f1.project.weight @ f1 + position.bias[0] + position.from_features(f2(elapsed))[0]
                z = z + model.walks.from_state.weight @ h
                i_gate, f_gate, o_gate, new = z.chunk(4)
                c = f_gate.sigmoid() * c + i_gate.sigmoid() * new.tanh()
                h = o_gate.sigmoid() * c.tanh()
            encodings.append(h)
    expected = model.head(torch.stack(encodings).mean(dim=0))
    assert_same_scores(model(batcher.pairs(u, v, t, seed=5)), expected)


@pytest.mark.parametrize(
    "options",
    [{}, {"rates": False}, {"pooling": "attention"}, {"sides": "joint", "rates": False} | NO_SEQUENCES],
    ids=str,
)
def test_without_directions_both_orders_score_the_same(options: dict) -> None:
    config = Config(**SMALL, directed=False, **options)
    assert config.symmetric
    model, batcher = network(attributed(), config)
    src, dst, t = pairs()
    with torch.no_grad():
        one, other = (model(batcher.pairs(*ends, t, seed=3)).numpy() for ends in ((src, dst), (dst, src)))
    assert_same_scores(one, other)
    assert np.ptp(one) > 1e-3


def test_with_directions_the_order_matters() -> None:
    model, batcher = network(attributed(), Config(**SMALL))
    assert not model.config.symmetric
    src, dst, t = pairs()
    with torch.no_grad():
        one, other = (model(batcher.pairs(*ends, t, seed=3)).numpy() for ends in ((src, dst), (dst, src)))
    assert np.abs(one - other).max() > 1e-3


def test_the_age_in_the_authors_code() -> None:
    """cos(omega (t_0 - t_i) + phase), with the frequencies and the unit of `TimeEncoding`."""
    model, batcher = network(attributed(), Config(**SMALL, time_code="age"))
    batch, position = batcher.trace(*pairs(), seed=3), model.walks.position
    torch.nn.init.constant_(position.f2.b, 0.5)
    for i, level in enumerate(batch.to("cpu").levels):
        now = pairs()[2][level.owner.numpy() // 2]
        angles = (now - level.t.numpy())[:, None] / 10.0 * 10.0 ** -np.array([0, 3, 6, 9]) + 0.5
        np.testing.assert_allclose(position.features(level)[:, :4].detach(), np.cos(angles), atol=1e-5)
        assert i or (angles == 0.5).all()


def test_the_transformer_layer_is_that_of_pytorch() -> None:
    """Applied to all walks of each set, however often each of them occurs."""
    torch.manual_seed(0)
    ours = TransformerPooling(Config(dim=16)).eval()
    theirs = torch.nn.TransformerEncoderLayer(16, 8, 64, batch_first=True).eval()
    weights = ours.state_dict()
    names = {
        "queries_keys_values.weight": "self_attn.in_proj_weight",
        "queries_keys_values.bias": "self_attn.in_proj_bias",
    }
    parts = {
        "from_heads": "self_attn.out_proj",
        "norms.0": "norm1",
        "norms.1": "norm2",
        "feedforward.0": "linear1",
        "feedforward.3": "linear2",
    }
    for one, other in parts.items():
        names |= {f"{one}.{kind}": f"{other}.{kind}" for kind in ("weight", "bias")}
    theirs.load_state_dict({names[name]: weight for name, weight in weights.items()})
    distinct = torch.randn(5, 16)
    owner, times = torch.tensor([0, 1, 1, 0, 1]), torch.tensor([4, 1, 2, 2, 3])
    walks = torch.stack([distinct.repeat_interleave(times * (owner == s), dim=0) for s in (0, 1)])  # [2, 6, 16]
    with torch.no_grad():
        expected = theirs(walks).mean(dim=1)
        assert_same_scores(ours(walks), expected)
        assert_same_scores(ours.weighted(distinct, times / 6, owner, 2), expected)
        alone = ours.weighted(distinct, times / 6 * (owner == 1), owner, 2)
        assert_same_scores(alone, torch.stack([torch.zeros(16), expected[1]]))
