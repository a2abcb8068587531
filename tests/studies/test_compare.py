"""Comparisons of systems: complete, resumable, and not ended by one system that fails."""

import json
from pathlib import Path

import pytest

import cawn
from cawn.data import laws
from cawn.learn.runs import read_record
from cawn.studies import trainings
from cawn.studies.compare import plan
from cawn.systems.rates import RatesSettings
from ctrl_c import stopped_after

RATES = RatesSettings(epochs=2, batch_size=64)
CAWN = cawn.Config(epochs=2, batch_size=64, alpha="ladder", num_walks=4, dim=4)
KINDS = ("random", "historical")
BOTH = [cawn.Task(nodes, negatives=KINDS) for nodes in ("transductive", "inductive")]


@pytest.fixture(scope="module")
def events() -> cawn.Events:
    return laws.triadic_closure(30, 500, seed=0).events


@pytest.fixture(scope="module")
def folder(events, tmp_path_factory) -> Path:
    """A finished comparison."""
    folder = tmp_path_factory.mktemp("comparison")
    cawn.compare(events, RATES, task=BOTH, seeds=2, out=folder, quiet=True, jobs=0)
    return folder


def test_accuracy_and_cost_of_every_run(events, folder: Path) -> None:
    found = json.loads((folder / "comparison.json").read_text())
    assert {row["task"] for row in found["accuracy"]} == {"transductive", "inductive"}
    assert {row["negatives"] for row in found["accuracy"]} == {"random", "historical"}
    aps = {(row["task"], row["negatives"], row["system"]): row for row in found["accuracy"] if row["metric"] == "ap"}
    names = [name for *where, name in aps if where == ["transductive", "random"]]
    assert names[0] == "rates"
    assert {"recency", "edgebank", "popularity"} < set(names)
    assert not {"rates only", "counts"} & set(names)
    row = aps["transductive", "random", "rates"]
    runs = [read_record(folder / "transductive" / "rates" / f"seed-{seed}")[0] for seed in (0, 1)]
    values = [run.results.tests[0]["model"]["ap"] for run in runs]
    assert row["mean"] == pytest.approx(sum(values) / 2)
    assert row["half"] == pytest.approx(12.706 * abs(values[0] - values[1]) / 2)  # Student's t, one degree of freedom
    assert row["seeds"] == 2
    assert [(cost["task"], cost["system"], cost["epochs"]) for cost in found["cost"]] == [
        ("transductive", "rates", 2),
        ("inductive", "rates", 2),
    ]
    assert found["failed"] == []
    assert found["about"]["splits"]["transductive"] == [runs[0].results.tests[0]["split"]]
    assert (folder / "comparison.md").read_text().startswith("# Comparison of systems\n\n- Data: 500 links, 30 nodes")


def test_finished_runs_are_skipped(events, folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(trainings, "train", None)
    again = cawn.compare(events, RATES, task=BOTH, seeds=2, out=folder, quiet=True, jobs=0)
    assert again.to_dict() == json.loads((folder / "comparison.json").read_text())


def test_a_stopped_comparison_continues_exactly(events, folder: Path, tmp_path: Path, capsys) -> None:
    options = {"out": tmp_path / "c", "task": BOTH[0], "seeds": 2, "jobs": 0}
    with stopped_after(9):
        cawn.compare(events, RATES, **options)
    assert "to continue, compare again with the same folder" in capsys.readouterr().err
    run = Path("transductive", "rates", "seed-0")
    assert (tmp_path / "c" / run / "checkpoint.safetensors").exists()
    cawn.compare(events, RATES, **options)
    results = [(base / run / "results.json").read_text() for base in (folder, tmp_path / "c")]
    assert results[0] == results[1]
    assert "rates, transductive, seed 1: AP random 0." in capsys.readouterr().err


def test_a_system_that_fails_does_not_end_the_others(events, tmp_path: Path, monkeypatch, capsys) -> None:
    train = trainings.train

    def failing(links, config, **options):
        if isinstance(config, cawn.Config):
            raise cawn.QueryError("out of memory") if options["seed"] else ZeroDivisionError("a bug")
        return train(links, config, **options)

    monkeypatch.setattr(trainings, "train", failing)
    found = cawn.compare(events, [CAWN, RATES], seeds=2, out=tmp_path / "c", jobs=0)
    trace = tmp_path / "c" / "transductive" / "cawn" / "seed-0.error.txt"
    assert [(row["system"], row["seed"], row["reason"]) for row in found.failed] == [
        ("cawn", 0, f"ZeroDivisionError: a bug (see {trace})"),
        ("cawn", 1, "out of memory"),
    ]
    assert "in failing" in trace.read_text()
    assert {row["system"] for row in found.cost} == {"rates"}
    assert "cawn, transductive, seed 1: out of memory" in capsys.readouterr().err
    assert "- cawn, transductive, seed 1: out of memory" in (tmp_path / "c" / "comparison.md").read_text()
    monkeypatch.undo()
    found = cawn.compare(events, [CAWN, RATES], seeds=2, out=tmp_path / "c", jobs=0, quiet=True)
    assert found.failed == []
    assert not trace.exists()


def test_without_a_folder(events) -> None:
    found = cawn.compare(events, RATES, seeds=[4], task=cawn.Task(negatives=("random",)), quiet=True)
    assert found.about["seeds"] == [4]
    assert found.to_dict()["accuracy"][0]["half"] is None  # no interval from one seed


def test_other_links_or_settings_are_refused(events, folder: Path) -> None:
    with pytest.raises(cawn.QueryError, match="holds a comparison that differs in links"):
        cawn.compare(events[:400], "rates", out=folder, quiet=True)
    with pytest.raises(cawn.QueryError, match=r"is not empty \(it holds "):
        cawn.compare(events, "rates", out=folder / "transductive", quiet=True)
    with pytest.raises(cawn.QueryError, match="holds a comparison that differs in clock"):
        cawn.compare(events, "rates", out=folder, quiet=True, task=cawn.Task(clock="event"))
    found = cawn.compare(events, "rates", seeds=1, out=folder, quiet=True, jobs=0)
    assert "was started with different settings (batch_size, epochs)" in found.failed[0]["reason"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"systems": "frob"}, "system is 'frob'"),
        ({"systems": []}, "give a list of names, or 'all'"),
        ({"systems": ["rates", 3]}, "system is 3"),
        ({"seeds": 0}, "seeds is 0"),
        ({"seeds": [-1]}, "seed"),
        ({"systems": [RATES, RATES.with_(epochs=3)]}, "two settings of rates"),
        ({"systems": 3}, "give a list of names or settings"),
        ({"task": "both"}, "task is 'both'"),
        ({"task": [cawn.Task(), cawn.Task("inductive", clock="event")]}, "two tasks that differ only in their nodes"),
        ({"jobs": -1}, "jobs is -1"),
        ({"device": "tpu"}, "device is 'tpu'"),
        ({"threads": 0}, "threads"),
    ],
)
def test_bad_arguments(events, options, reason: str) -> None:
    with pytest.raises(cawn.QueryError, match=reason):
        cawn.compare(events, **{"systems": "rates", "quiet": True} | options)


def test_links_are_ranked_under_tgbs_protocol(events, tmp_path: Path) -> None:
    options = {"task": cawn.Task(protocol="tgb"), "seeds": 1, "jobs": 0, "quiet": True, "out": tmp_path}
    found = cawn.compare(events, ["recency", RatesSettings(epochs=1)], **options)
    assert found.tests() == [("transductive", "test"), ("transductive", "validation")]
    assert found.results.values("metric") == ["mrr", "hits@10"]
    headings, rows = found.accuracy_table("transductive", "test")
    assert headings == ["system", "MRR all destinations", "seeds"]
    assert rows[0][0] == "rates"
    shown = (tmp_path / "comparison.md").read_text()
    assert "## Accuracy: transductive, test links" in shown
    assert "MRR: among the candidates of TGB" in shown
    described = json.loads((tmp_path / "sweep.json").read_text())
    del described["checksum"]
    (tmp_path / "sweep.json").write_text(json.dumps(described | {"protocol": "strict"}))
    with pytest.raises(cawn.QueryError, match="differs in protocol"):
        cawn.compare(events, "recency", **options)


def test_all_systems_and_more() -> None:
    everything = plan("all", "default", {})
    assert {"rates", "cawn", "tgn"} <= set(everything)
    assert "recency" not in everything
    assert list(plan(["recency", "all"], "default", {})) == [*everything, "recency"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("rates", "default", {"tgnn": {}}), "system is 'tgnn'"),
        (("rates", "default", {"all": {"frob": 3}}), "none of the compared systems has it"),
        (("rates", "default", {"rates": {"frob": 3}}), "rates: setting 'frob' does not exist"),
        (("rates", "frob", {}), "preset is 'frob': the compared systems have default"),
    ],
)
def test_bad_settings(arguments: tuple, reason: str) -> None:
    with pytest.raises(cawn.QueryError, match=reason):
        plan(*arguments)


@pytest.mark.parametrize("text", ["{", "[]", "3", "[1]", "null"])
def test_a_damaged_description_of_a_comparison(events, tmp_path: Path, text: str) -> None:
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(cawn.CawnError, match=r"sweep\.json: damaged|a comparison that differs in"):
        cawn.compare(events, "rates", out=tmp_path, quiet=True)


def test_too_few_links(events) -> None:
    with pytest.raises(cawn.DataError, match="are too few"):
        cawn.compare(events[:3], "rates", quiet=True)
