"""What each experiment measures, with which settings; and the paper's numbers."""

from pathlib import Path
from typing import Any

import pytest

import cawn
from cawn import systems
from cawn.caw.config import Config
from cawn.data.datasets import CATALOG
from cawn.paper import EXPERIMENTS
from cawn.paper.ablation import ALL, DIFFERENCES, Ablation, Authors
from cawn.paper.clocks import Clocks
from cawn.paper.complexity import Complexity
from cawn.paper.curves import BEST, Sensitivity, Tree, values_of
from cawn.paper.experiments import Request
from cawn.paper.grid import Grid
from cawn.paper.measurements import Measurement, config_of, inductive
from cawn.paper.published import CAWN, NAMES, NETWORKS, TESTS, paper_value, published
from cawn.paper.records import Records
from cawn.paper.results import Result, ResultStore
from cawn.paper.shapes import Shapes
from cawn.paper.tables import KindsOfNegatives, Table2, Table6
from cawn.paper.transfer import Transfer
from cawn.paper.variants import BY_NAME, VARIANTS, check_request, paper_config, settings_of, tuned
from networks import random_events
from paper_results import gather, result, searched


def request(
    seeds: int = 1,
    found: ResultStore | None = None,
    systems: tuple[str, ...] | None = None,
    device: str = "cpu",
    **changes: Any,
) -> Request:
    results = ResultStore(Path("none")) if found is None else found
    return Request({"uci": random_events(0)}, seeds, results, changes, systems, device=device)


def by_label(plan: list[Measurement]) -> dict[str, Any]:
    assert len({one.key({"uci": "d"}) for one in plan}) == len(plan)
    found = {one.label: one.settings for one in plan}
    assert len(found) == len(plan)
    return found


def test_every_experiment_is_described() -> None:
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name
        assert experiment.title[0].isupper()
        assert set(experiment.options) <= {"--seeds", "--systems", "--trials", "--set"}
        assert experiment.systems or "--systems" not in experiment.options
        assert set(experiment.systems) <= set(BY_NAME)
        assert experiment.title.startswith("Beyond the paper") == experiment.beyond
        assert experiment().show(Records(gather())) is None


def test_both_tables_and_the_negatives_have_the_same_runs() -> None:
    plan = Table2().plan(request(2, systems=("rates",)))
    assert [one.label for one in plan] == [
        *(f"rates, transductive, seed {seed}" for seed in range(2)),
        *(f"rates, inductive, seed {seed}" for seed in range(4)),
    ]
    assert (
        Table6().plan(request(2, systems=("rates",))) == KindsOfNegatives().plan(request(2, systems=("rates",))) == plan
    )
    assert plan[0].settings["baselines"]


def test_rows_of_other_experiments_are_those_of_table2() -> None:
    keys = {one.key({"uci": "d"}) for one in Table2().plan(request(systems=("paper-mean",)))}
    assert inductive("uci", Config.preset("paper-mean"), 1, "any label").key({"uci": "d"}) in keys
    assert inductive("uci", Config.preset("paper-attn"), 1, "any label").key({"uci": "d"}) not in keys


def test_ablation() -> None:
    found = by_label(Ablation().plan(request(epochs=2)))
    assert len(found) == 2 * (6 + 6 + 7)
    assert {settings["config"]["epochs"] for settings in found.values()} == {2}
    assert found["ablation, paper-mean, alpha = 0, inductive, seed 1"]["config"]["alpha"] == 0
    assert found["ablation, default, without direction, inductive, seed 0"]["config"]["sides"] == "symmetric"
    assert len(Ablation().plan(request(systems=("paper-mean",)))) == 2 * 6


def test_authors() -> None:
    found, base = Authors().plan(request(2)), Config.preset("paper-mean").to_dict()
    assert len(found) == 2 * (2 + len(DIFFERENCES))
    for one in found:
        name, config = one.label.split(", ")[1], one.settings["config"]
        changed = {key for key in config if config[key] != base[key] and (config[key] or base[key])}
        assert changed == set(DIFFERENCES.get(name, {})) or name == ALL
        assert (one.settings["ties"] == "rows") == (name in (ALL, "ties read row by row"))


def test_sensitivity_varies_one_setting_at_a_time() -> None:
    best = {"num_walks": 32, "alpha": 3e-6, "length": 1}
    found = by_label(Sensitivity().plan(request(found=gather(searched(**best)), epochs=2)))
    assert len(found) == 2 * (1 + 4 + 8 + 4)
    for label, settings in found.items():
        assert settings["config"]["epochs"] == 2
        assert sum(settings["config"][name] != value for name, value in best.items()) == (not label.startswith(BEST))


def test_values_of_alpha_lie_around_the_best() -> None:
    events = cawn.Events([0, 1, 2, 0], [1, 2, 3, 3], [0, 10, 20, 80])  # tau = 2 * 4 / 4 / 80
    found = values_of("alpha", Config(alpha=3e-6), events)
    assert found[:2] == [0.0, "paper"]
    assert found[2:] == pytest.approx([1e-7, 3e-7, 1e-6, 3e-6, 9e-6, 3e-5, 9e-5])
    assert values_of("alpha", Config(alpha="paper"), events)[5] == pytest.approx(0.025 / 5)
    assert values_of("alpha", Config(alpha=0.0), events)[5] == pytest.approx(0.025 / 5)


def test_trees_have_fixed_walks_whatever_the_grid_search_found() -> None:
    best = {"num_walks": 32, "alpha": 3e-6, "length": 3}
    configs = [
        one["config"] for one in by_label(Tree().plan(request(found=gather(searched(**best)), epochs=2))).values()
    ]
    assert [config["tree"] for config in configs[:7]] == [[1, 64], [2, 32], [4, 16], [8, 8], [16, 4], [32, 2], []]
    wanted = {"num_walks": 64, "length": 2, "alpha": 3e-6, "epochs": 2}
    assert all(config | wanted == config for config in configs)
    assert all(config_of({"system": "cawn", "config": config}).widths[-1] == 64 for config in configs)


def test_shapes_and_complexity_have_the_settings_of_the_papers_figures() -> None:
    for one, identity in zip(Shapes().plan(request()), ("caw", "aw"), strict=True):
        config = one.settings["config"]
        assert (config["num_walks"], config["length"], config["identity"]) == (32, 3, identity)
        assert (config["head"], config["pooling"], config["sides"]) == ("linear", "mean", "joint")
    assert Shapes().plan(request(num_walks=8))[0].settings["config"]["num_walks"] == 8
    first, second = Complexity().plan(request(2, length=1))
    config = first.settings["config"]
    assert (config["num_walks"], config["length"], config["batch_size"]) == (32, 1, 32)
    assert (first.settings["seed"], second.settings["seed"]) == (0, 1)
    on_gpu = Complexity().plan(request(device="cuda:1"))[0]
    assert [one.label.split(", ")[1] for one in (first, on_gpu)] == ["cpu", "cuda"]
    assert on_gpu.key({"uci": "d"}) != first.key({"uci": "d"})


def test_clocks() -> None:
    planned = Clocks().plan(request(systems=("paper-mean", "rates")))
    assert [one.label for one in planned] == [
        "clocks, ties",
        "clocks, CAW-N-mean, transductive, seed 0",
        "clocks, CAW-N-mean, ties by rows, transductive, seed 0",
        *(f"clocks, CAW-N-mean{ties}, inductive, seed {seed}" for seed in (0, 1) for ties in ("", ", ties by rows")),
        "clocks, rates, transductive, seed 0",
        "clocks, rates, inductive, seed 0",
        "clocks, rates, inductive, seed 1",
    ]
    clocks = {(one.settings["ties"], *one.settings["clocks"]) for one in planned[1:]}
    assert clocks == {("strict", "strict", "event", "batch:200"), ("rows", "strict")}


def test_transfer() -> None:
    networks = {name: random_events(0) for name in ("uci", "enron")}
    found = Transfer().plan(Request(networks, 2, gather()))
    assert len(found) == 2 * 4 * 2
    assert found[0].label == "transfer, CAW-N-mean, transductive, seed 0"
    assert found[0].networks == ("uci", "enron")
    assert "vgrnn" not in Transfer.systems  # it has a weight for each node
    with pytest.raises(cawn.QueryError, match="at least two datasets"):
        Transfer().plan(request())


# Measurements


def test_the_key_depends_on_everything_that_matters_and_on_nothing_else() -> None:
    def key(network: str = "uci", digest: str = "d", label: str = "any", **settings: object) -> str:
        one = Measurement(network, "training", {"seed": 0, "others": ["enron"]} | settings, label)
        return one.key({network: digest, "enron": "e"})

    assert key() == key(label="other")
    assert len({key(), key(seed=1), key(digest="other"), key(others=[])}) == 4
    one, two = (Measurement("uci", "training", settings, "a") for settings in ({"a": 1, "b": 2}, {"b": 2, "a": 1}))
    assert one.key({"uci": "d"}) == two.key({"uci": "d"})


# Variants


def trial(ap: float, preset: str = "paper-mean", stopped: bool = False, **found: object) -> Result:
    value = {"validation": [0.1, ap]} | ({"stopped": True} if stopped else {})
    return result("trial", f"grid {preset}, {found}", value, {"preset": preset, "searched": found})


def test_every_variant_has_settings_that_a_user_may_change() -> None:
    for variant in VARIANTS:
        config = settings_of(variant, "uci", request(epochs=3))
        assert systems.name_of(config) == variant.system
        assert config.to_dict().get("epochs", 3) == 3


def test_paper_presets_take_what_the_search_found() -> None:
    found = gather(trial(0.8, alpha=1e-5), trial(0.9, alpha=1e-6), trial(0.95, alpha=1e-7, stopped=True))
    assert tuned(found, "uci", "paper-mean") == {"alpha": 1e-6}
    assert tuned(found, "uci", "paper-attn") == {"alpha": 1e-6}  # has no search of its own
    assert tuned(found, "uci", "default") == {}
    assert tuned(found, "enron", "paper-mean") == {}
    assert paper_config(request(found=found), "uci").alpha == 1e-6
    assert paper_config(request(found=found, alpha=1e-4), "uci").alpha == 1e-4


def test_of_nearly_equal_settings_the_cheapest_are_taken() -> None:
    found = gather(trial(0.9, num_walks=128), trial(0.89999, num_walks=32), trial(0.8, num_walks=16))
    assert tuned(found, "uci", "paper-mean") == {"num_walks": 32}


@pytest.mark.parametrize(
    ("experiment", "names", "changes", "reason"),
    [
        (Table2, ("frob",), {}, "system is 'frob': give one of paper-mean"),
        (Grid, ("rates",), {}, r"system is 'rates': give one of paper-mean, paper-attn$"),
        (Table2, ("rates",), {"num_walks": 3}, "no system that table2 trains has this setting"),
        (Table2, None, {"frob": 3}, "--set 'frob'"),
    ],
)
def test_refusals(experiment: Any, names: tuple[str, ...] | None, changes: dict[str, int], reason: str) -> None:
    check_request(experiment(), ("rates",) if experiment is Table2 else None, {"epochs": 3})
    with pytest.raises(cawn.QueryError, match=reason):
        check_request(experiment(), names, changes)


# The paper's numbers, against cells copied from it by hand


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (("auc", "uci", "CAW-N-mean", "transductive"), (95.25, 0.30)),
        (("auc", "uci", "CAW-N-attn", "new-new"), (93.16, 0.25)),
        (("auc", "wikipedia", "CAW-N-mean", "new-old"), (98.77, 0.13)),
        (("auc", "enron", "DyRep", "transductive"), (96.71, 0.04)),
        (("auc", "mooc", "EvolveGCN", "new-new"), (52.31, 4.14)),
        (("auc", "socialevolve", "CAW-N-attn", "transductive"), (92.54, 0.58)),
        (("auc", "reddit", "TGAT", "new-old"), (97.25, 0.18)),
        (("ap", "uci", "CAW-N-mean", "transductive"), (95.33, 0.30)),
        (("ap", "reddit", "CAW-N-mean", "transductive"), (98.72, 0.09)),
        (("auc", "uci", "best", "transductive"), (95.25, 0.30)),  # of mean
        (("auc", "enron", "best", "transductive"), (92.06, 0.16)),  # of attn
        (("auc", "flights", "CAW-N-mean", "new-new"), None),
        (("auc", "flights", "best", "new-new"), None),
        (("auc", "uci", "DyGFormer", "new-new"), None),
    ],
)
def test_cells_of_tables_2_and_6(cell: tuple, expected: tuple[float, float] | None) -> None:
    assert paper_value(*cell) == expected


def test_no_cell_of_the_paper_is_missing() -> None:
    for metric in ("auc", "ap"):
        cells = published()[metric]
        assert set(cells) == set(NETWORKS)
        assert all(set(cells[network][method]) == set(TESTS) for network in cells for method in cells[network])
        assert all(method in cells[network] for network in cells for method in CAWN)
    assert published()["ablation"]["1"]["wikipedia"] == [98.94, 0.11]
    assert set(NAMES) == set(CATALOG)
