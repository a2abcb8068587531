"""The smoothed-count model, compared with its equations written as plain loops."""

import math

import numpy as np
import pytest

import cawn
from cawn.data.ties import in_canonical_order
from cawn.learn import metrics
from cawn.systems.counts import DECAY, RECENCY, CountsSettings, CountTables
from networks import random_events, with_columns

PERIOD = 30.0


def slow_features(events: cawn.Events, config: CountsSettings, u: int, z: int, t: float) -> list[float]:
    """The features of one pair, by one pass over the links before t."""
    ordered = in_canonical_order(events)
    links = [(a, b, s) for a, b, s in zip(ordered.src, ordered.dst, ordered.t, strict=True) if s < t]
    alpha, history = config.smoothing, dict[int, list[int]]()
    rows: dict[str, list[tuple[int, int, float]]] = {"pairs": [], "transitions": [], "windows": []}
    for a, b, s in links:
        weight = math.exp(-(t - s) / (DECAY * PERIOD))
        recent = history.setdefault(a, [])
        rows["pairs"].append((a, b, weight))
        rows["transitions"] += [(v, b, weight) for v in recent[:1]]
        rows["windows"] += [(v, b, weight) for v in recent[: config.depth]]
        recent.insert(0, b)

    def count(table: str, row: int | None, column: int | None) -> float:
        return sum(w for a, b, w in rows[table] if row in (None, a) and column in (None, b))

    size = max(len({b for _, b, _ in links}), 1)
    marginal = base = (count("pairs", None, z) + alpha) / (count("pairs", None, None) + alpha * size)
    if config.backoff == "continuation":
        kinds = {(v, b) for v, b, _ in rows["transitions"]}
        base = (sum(b == z for _, b in kinds) + alpha) / (len(kinds) + alpha * size)

    def smoothed(table: str, contexts: list[int]) -> float:
        seen, total = (sum(count(table, x, column) for x in contexts) for column in (z, None))
        return math.log((seen + alpha * base) / (total + alpha))

    recent = history.get(u, [])[: config.depth]
    age = min((t - s for a, b, s in links if (a, b) == (u, z)), default=math.inf)
    idle = min((t - s for _, b, s in links if b == z), default=math.inf)
    each = [smoothed("transitions", [v]) for v in recent]
    return [
        math.log(marginal),
        smoothed("pairs", [u]),
        smoothed("windows", recent),
        *each,
        *[0.0] * (config.depth - len(each)),
        *[math.exp(-age / (scale * PERIOD)) for scale in RECENCY],
        math.exp(-idle / (RECENCY[1] * PERIOD)),
    ]


@pytest.mark.parametrize("backoff", ["marginal", "continuation"])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_features_are_those_of_the_equations(backoff: str, dtype: type) -> None:
    config = CountsSettings(backoff=backoff, depth=3, smoothing=0.5)
    events = random_events(4, num_links=120, dtype=dtype)
    tables = CountTables(events, config, PERIOD)
    rng = np.random.default_rng(0)
    src, dst, t = rng.integers(0, 10, 40), rng.integers(0, 10, 40), rng.choice(events.t, 40)
    expected = [slow_features(events, config, *pair) for pair in zip(src, dst, t, strict=True)]
    np.testing.assert_allclose(tables.features(src, dst, t, tables.before(t)), expected, rtol=1e-5, atol=1e-6)


def test_the_worked_example_of_the_paper() -> None:
    """Six links and four destinations a, b, c, d; counts are not decayed."""
    u, w, a, b, c, d = range(6)
    events = cawn.Events([u, u, u, u, u, w], [a, b, c, b, c, d], [1, 2, 3, 4, 5, 5.5])
    asked = np.full(4, u), np.array([a, b, c, d]), np.full(4, 6.0)
    expected = {
        "marginal": [[0.20, 0.30, 0.30, 0.20], [0.20, 0.38, 0.38, 0.03], [0.10, 0.65, 0.15, 0.10]],
        "continuation": [[0.20, 0.30, 0.30, 0.20], [1 / 6 * (1 + 1 / 7), 1 / 6 * (2 + 3 / 7)], [1 / 14, 10 / 14]],
    }
    for backoff, rows in expected.items():
        tables = CountTables(events, CountsSettings(backoff=backoff, depth=2), 1e12)
        found = np.exp(tables.features(*asked, tables.before(asked[2])))
        for column, row in zip((0, 1, 3), rows, strict=True):
            np.testing.assert_allclose(found[: len(row), column], row, atol=0.006)
    tables = CountTables(events, CountsSettings(depth=2), 1e12)
    given_b = np.exp(tables.features(*asked, tables.before(asked[2])))[:, 4]
    np.testing.assert_allclose(given_b, [0.07, 0.10, 0.77, 0.07], atol=0.006)


def test_it_learns_which_destination_follows_which() -> None:
    """Every source walks round a ring of ten destinations: what follows is known from other sources."""
    rng = np.random.default_rng(0)
    src = rng.integers(0, 20, 1_000)
    steps = np.zeros(1_000, int)
    for source in range(20):
        mine = src == source
        steps[mine] = rng.integers(0, 10) + np.arange(mine.sum())
    events = cawn.Events(src, 20 + steps % 10, np.arange(1_000))
    config = CountsSettings(epochs=5, batch_size=100)
    run = cawn.train(events, config, quiet=True, task=cawn.Task(negatives=("random",)))
    assert run.results.tests[0]["model"]["auc"] > 0.99
    assert run.results.tests[0]["baselines"]["recency"]["auc"] < 0.8
    weighted = with_columns(events, weight=1.0 + (events.src % 2))
    other = cawn.train(weighted, config, quiet=True, task=cawn.Task(negatives=("random",)))
    assert not np.allclose(other.model.weight.detach(), run.model.weight.detach(), atol=1e-4)


def test_no_links_at_all() -> None:
    tables = CountTables(cawn.Events([], [], []), CountsSettings(), 1.0)
    found = tables.features(np.array([3]), np.array([4]), np.array([1]), np.array([0]))
    np.testing.assert_array_equal(found, np.zeros((1, 12)))


def test_accuracy_on_a_real_network(network) -> None:
    """A few hundred steps on UCI: clearly above popularity, and near recency, which decides most links there."""
    events = network("uci")
    trainer = cawn.Trainer(events, CountsSettings(epochs=2), quiet=True, device="cpu")
    for _ in trainer.steps(0, 0):
        pass
    assert metrics.average_precision(*trainer._validate(slice(None))) == pytest.approx(0.930, abs=0.01)
