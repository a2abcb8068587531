"""The tables of the report, from made-up results of every experiment.

`python tests/paper/test_goldens_of_paper.py` writes the file anew; do that only where tables are meant to change.
"""

import json
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from cawn.data import laws
from cawn.paper import EXPERIMENTS
from cawn.paper.experiments import Request, Table
from cawn.paper.measurements import Measurement
from cawn.paper.report import collect
from cawn.paper.results import ResultStore
from cawn.systems.baselines import STANDING
from paper_results import gather, result

GOLDEN = Path(__file__).parents[1] / "goldens" / "paper.json"
SYSTEMS = ("paper-mean", "paper-attn", "default", "tgn", "jodie-original", "rates")
NETWORKS = {
    "table2": ("wikipedia", "uci", "bitcoin-otc"),
    "ablation": ("wikipedia", "uci"),
    "datasets": ("wikipedia", "uci"),
    "clocks": ("uci", "bitcoin-otc"),
    "transfer": ("wikipedia", "uci", "bitcoin-otc"),
}
CHOSEN = {"table2": SYSTEMS, "clocks": ("paper-mean", "default", "rates"), "transfer": ("default", "rates")}
TESTED = {"transductive": ("all",), "inductive": ("all", "new-new", "new-old")}
CAWS = ["(0,∞) → (1,2) → (2,3) → (1,2)", *(f"(0,∞) → (1,{n})" for n in range(2, 9))]


def drawn(*names: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(names).encode()))


def accuracy(one: Measurement, *where: object) -> dict[str, float]:
    """Higher for some labels than for others, with noise that depends on the seed."""
    label, seed = one.label.rpartition(", seed ")[0], one.settings["seed"]
    base = 0.85 + 0.08 * drawn(one.network, label).normal() / 2 + 0.02 * drawn(*where).normal()
    noise = 0.02 * drawn(one.network, seed).normal() + 0.004 * drawn(one.network, label, seed, *where).normal()
    value = float(np.clip(base + noise, 0.3, 0.999))
    return {
        name: round(value - shift, 6)
        for name, shift in (("auc", 0), ("ap", 0.01), ("auc_batch30", 0.02), ("ap_batch30", 0.03))
    }


def training(one: Measurement) -> dict[str, Any]:
    settings, rows = one.settings, []
    for links in TESTED[settings["task"]]:
        for kind in settings["negatives"]:
            for clock in settings["clocks"]:
                row = {"links": links, "negatives": kind, "clock": clock, "count": 100}
                row["split"] = split(one.network, settings["task"], settings["seed"], settings["ties"])
                row["digest"] = "n" if links == "new-new" and kind != "inductive" else kind
                row |= accuracy(one, links, kind, clock)
                row["mrr"] = round(row["ap"] / 2, 6)
                if settings["baselines"]:
                    names = STANDING
                    row["baselines"] = {name: accuracy(one, links, kind, name) for name in names}
                rows.append(row)
    alpha = settings["config"].get("alpha", 0.0)
    value = {"rows": rows, "validation": [0.8, 0.9], "facts": {"alpha": [1.7e-6 if alpha == "paper" else alpha]}}
    return value | ({"cut_short": True} if one.label.startswith("JODIE") else {})


def split(network: str, task: str, seed: int, ties: str = "strict") -> str:
    hidden = f", {seed}" if task == "inductive" else ""
    return f"split of {network}, {task}{hidden}, {ties}"


def statistics(one: Measurement) -> dict[str, Any]:
    counts = {"uci": (1899, 59835, 3.78e-06), "wikipedia": (9227, 157474, 1.27e-05)}[one.network]
    shares = ("ties", "identical", "repeats_directed", "repeats_undirected", "surprise", "unseen")
    return (
        dict(zip(("nodes", "links", "intensity"), counts, strict=True))
        | {"node attributes": 0, "link attributes": 0, "seconds": 1.7e7, "bipartite": one.network == "wikipedia"}
        | {"distinct_times": 12345}
        | {name: round(float(drawn(one.network, name).uniform()), 4) for name in shares}
    )


def times(one: Measurement) -> dict[str, Any]:
    rng = drawn(one.label)
    rows = []
    for links in range(1000, 11_000, 1000):
        noise = dict(zip(("walks", "epoch", "index"), 1 + 0.1 * rng.uniform(size=3), strict=True))
        seconds = {name: round(links * scale * noise[name], 7) for name, scale in SECONDS.items()}
        rows.append({"links": links, "draws": int(100 * links**1.1), **seconds})
    return {"rows": rows}


SECONDS = {"walks": 2e-5, "epoch": 3e-4, "index": 1e-7}


def shapes(one: Measurement) -> dict[str, Any]:
    caw = one.settings["config"]["identity"] == "caw"
    names = CAWS if caw else ["0 → 1 → 2", "0 → 1 → 0", "0 → 1", "0"]
    rows = [
        {"shape": name, "meaning": "in words" if caw else "", "steps": name.count("→"), "rank": rank}
        | {"score": round(2 - rank / 2, 6), "with_positives": 0.4 / rank, "with_negatives": 0.01 * rank**2}
        for rank, name in enumerate(names, start=1)
    ]
    power = [0.6 if caw else 0.4, 0.05]
    ranked = {"pairs": 200, "shapes": rows, "printed": rows[0] if caw else None, "ranked": len(rows), "rare": 7}
    return training(one) | ranked | {"power": [round(power[0] + one.settings["seed"] / 100, 6), power[1]]}


def ties(one: Measurement) -> list[dict[str, Any]]:
    return [
        {"task": task, "seed": seed, "links": links, "count": 100 + seed}
        | {
            name: round(float(drawn(one.network, name, links).uniform()), 6)
            for name in ("simultaneous", "repeated", "last")
        }
        for task, seeds in one.settings["seeds"].items()
        for seed in range(seeds if task == "inductive" else 1)
        for links in TESTED[task]
    ]


def transfer(one: Measurement) -> dict[str, Any]:
    tests = {}
    for network in (one.network, *one.settings["others"]):
        scorers = ("trained", "recency") if network == one.network else ("rescaled", "unchanged", "recency")
        rows = [
            {"scorer": name, "negatives": kind} | accuracy(one, network, name, kind)
            for name in scorers
            for kind in one.settings["negatives"]
        ]
        place = split(network, "transductive", one.settings["seed"])
        tests[network] = {"links": f"links of {network}", "split": place, "negatives": {}, "rows": rows}
    return {"tests": tests}


VALUES = {
    "training": training,
    "statistics": statistics,
    "complexity": times,
    "shapes": shapes,
    "ties": ties,
    "transfer": transfer,
}


def made_up() -> ResultStore:
    """Results of all experiments, of two seeds; Table 2 has no inductive results of one system."""
    results = gather(*trials())
    for name, experiment in EXPERIMENTS.items():
        if name not in ("grid", "table6", "negatives"):
            networks = NETWORKS.get(name, ("uci",))
            events = {network: laws.triadic_closure(20, 200, seed=i).events for i, network in enumerate(networks)}
            request = Request(events, 2, results, systems=CHOSEN.get(name))
            for one in experiment().plan(request):
                if "DyRep" not in one.label and not one.label.startswith("rates, inductive, seed 3"):
                    add(results, one)
    return results


def trials() -> list[Any]:
    made = []
    for number, (ap, length) in enumerate(((0.8, 1), (0.9, 2), (0.9004, 3), (0.7, 3), (0.6, 3))):
        searched = {"num_walks": 32, "length": length, "alpha": 2e-6, "dim": 64, "lr": 1e-3}
        value = {"validation": [0.5, ap]} | ({"stopped": True} if number == 3 else {})
        made.append(
            result("trial", f"grid paper-mean, trial {number}", value, {"preset": "paper-mean", "searched": searched})
        )
    return made


def add(results: ResultStore, one: Measurement) -> None:
    digests = {network: f"links of {network}" for network in one.networks}
    key, found = one.key(digests), results.found.setdefault(one.network, {})
    if key in found:
        found[key].labels.append(one.label)
    else:
        settings = json.loads(json.dumps(dict(one.settings)))
        made = result(one.kind, one.label, VALUES[one.kind](one), settings, one.network)
        found[key] = made
        object.__setattr__(made, "key", key)


def tables() -> dict[str, Any]:
    """Every table of the report and of the pages, as lists: the title, the headings, the rows."""
    results = made_up()
    report = collect(results)
    found: dict[str, list[Table]] = {part.experiment.name: part.section.tables for part in report.parts}
    found |= {"summary": report.summary.tables, "claims": [report.claims()]}
    return {name: {table.title: [table.headings, *table.rows] for table in some} for name, some in found.items()}


TABLES = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return tables()


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_are_as_before(found: dict[str, Any], name: str) -> None:
    for title, rows in TABLES[name].items():
        assert found[name][title] == rows, title
    assert list(found[name]) == list(TABLES[name])


def test_every_experiment_has_tables() -> None:
    assert set(TABLES) == {*EXPERIMENTS, "summary", "claims"}


if __name__ == "__main__":
    made = {
        name: "{\n"
        + ",\n".join(
            f"  {json.dumps(title, ensure_ascii=False)}: [\n"
            + ",\n".join(f"   {json.dumps(row, ensure_ascii=False)}" for row in rows)
            + "\n  ]"
            for title, rows in some.items()
        )
        + "\n }"
        for name, some in tables().items()
    }
    GOLDEN.write_text(
        "{\n" + ",\n".join(f' "{name}": {text}' for name, text in made.items()) + "\n}\n", encoding="utf-8"
    )
