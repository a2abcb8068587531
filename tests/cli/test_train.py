"""`cawn train` and `cawn evaluate`: what they print, and the options that name columns."""

import json
from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.cli import app
from cawn.learn.runs import read_events
from command_line import assert_refused, call_cawn


def test_train_says_what_it_understood_and_how_good_it_is(workshop: Path) -> None:
    shown = (workshop / "trained.txt").read_text()
    for words in (
        "from 'sender' to 'receiver' at 'date'",
        "30 nodes, 1,200 links",
        "repeat an earlier pair",
        "2024-01-01",
        "tau",
        "epoch 1",
        "AUC",
        "recency",
        "Next:",
    ):
        assert words in shown
    assert f"cawn rank {workshop / 'run'} --node" in shown


def figures(value: object, path: str = "") -> dict[str, object]:
    """Everything a nested result holds, by its path."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None:
        return {path: value}
    return {key: found for name, part in parts for key, found in figures(part, f"{path}/{name}").items()}


def test_evaluate_gives_the_results_of_training(workshop: Path) -> None:
    found = json.loads(call_cawn("evaluate", str(workshop / "run"), "--device", "cpu", "--json").out)
    written = json.loads((workshop / "run" / "results.json").read_text())
    assert figures(found["results"]) == pytest.approx(figures(written), abs=1e-5)  # sums in another order, no more
    table = call_cawn("evaluate", str(workshop / "run"), "--negatives", "historical", "--batch-metrics").out
    assert "historical" in table
    assert "against random" not in table
    assert "batches of 30" in table


def test_clocks_and_protocols_are_named_and_kept(workshop: Path, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    options = ["--system", "recency", "--protocol", "dyglib", "--clock", "batch:20", "-o", run]
    shown = call_cawn("train", str(workshop / "edges.csv"), *options)
    assert shown.code == 0, shown.err
    for words in ("against historical pairs negatives, batch:20 clock, protocol dyglib", "batches of 200"):
        assert words in shown.out
    for links in ("transductive links", "inductive links"):
        assert links in shown.out
    assert "random negatives, event clock" in call_cawn("evaluate", run, "--clock", "event").out
    assert call_cawn("train", "--resume", "-o", run).code == 0
    assert_refused(call_cawn("train", "--resume", "-o", run, "--clock", "event"), "leave out")
    assert_refused(call_cawn("train", workshop / "edges.csv", "-o", tmp_path / "x", "--clock", ""), "clock is ''")
    assert_refused(call_cawn("evaluate", run, "--clock", "batch"), "clock is 'batch': give strict, event or batch:N")
    both = ["--protocol", "dyglib", "--task", "inductive", "-o", str(tmp_path / "other"), "-q"]
    wrong = call_cawn("train", str(workshop / "edges.csv"), *both)
    assert_refused(wrong, "leave out the task")


def test_several_seeds_and_resume(workshop: Path, tmp_path: Path) -> None:
    options = ["--set", "alpha=ladder", "--set", "epochs=1", "--set", "num_walks=4", "--set", "dim=4", "--json", "-q"]
    both = call_cawn("train", str(workshop / "edges.csv"), "-o", str(tmp_path / "runs"), "--seeds", "2", *options)
    assert {row["seeds"] for row in json.loads(both.out)["seeds"]} == {2}
    assert both.err == ""
    again = call_cawn("train", "--resume", "-o", str(tmp_path / "runs" / "seed-1"), "--json", "-q")
    assert again.code == 0, again.err
    stored = json.loads((tmp_path / "runs" / "seed-1" / "results.json").read_text())
    assert json.loads(again.out)["results"] == stored


SETTINGS = ["alpha=ladder", "epochs=1", "num_walks=4", "length=1", "dim=4", "frequencies=2"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = [
        f"n{u},n{v},{t},{rng.normal():.3f},{'ab'[u % 2]},{t % 3},{t % 2},n{w},id {t}"
        for t, (u, v, w) in enumerate(rng.integers(0, 12, (80, 3)))
    ]
    (tmp_path / "edges.csv").write_text("src,dst,t,amount,word,code,w,no,key\n" + "\n".join(rows) + "\n")
    (tmp_path / "nodes.csv").write_text("id,size\n" + "".join(f"n{i},{i}\n" for i in range(11)))
    return tmp_path


def train(files: Path, *options: str) -> None:
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    arguments = ["train", str(files / "edges.csv"), "-o", str(files / "run"), *settings, *options]
    app(arguments, standalone_mode=False)


def test_columns_reach_the_run(files: Path, capsys) -> None:
    columns = ["--msg", "amount", "--msg", "word", "--categorical", "code", "--weight", "w", "--negative", "no"]
    train(files, *columns, "--nodes-table", str(files / "nodes.csv"))
    shown = capsys.readouterr().err
    assert "link attributes 'amount', 'word' (2 categories), 'code' (3 categories); node attributes 'size'" in shown
    events = read_events(files / "run")
    assert events.encoder.widths == (1 + 3 + 4, 2)
    assert events.weight.tolist() == [t % 2 for t in range(80)]
    assert (events.negative >= 0).all()
    assert events.reading.msg == ("amount", "word", "code")
    assert events.reading.categorical == ("word", "code")
    predictor = cawn.LinkPredictor.load(files / "run", device="cpu")
    (files / "more.csv").write_text("src,dst,t,amount,word,code\nn1,new,90,0.5,c,0\n")
    predictor.update(files / "more.csv")
    assert predictor.score("n1", "new", 95).shape == (1,)
    app(["train", "--resume", "-q", "-o", str(files / "run")], standalone_mode=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--weight", "cost"], "weight='cost', but there is no such column"),
        (["--weight", "word"], "column 'word': found '[ab]'; link weights are finite numbers"),
        (["--negative", "who"], "negative='who', but there is no such column"),
        (["--categorical", "who"], "categorical='who', but there is no such column"),
        (["--msg", "99"], "msg=99, but there are 9 columns"),
        (["--nodes-table", "nowhere.csv"], "nowhere.csv: no such file"),
        (["--node-column", "id"], "node='id': is a column of nodes, but nodes is not given"),
    ],
)
def test_refused(files: Path, options: list[str], message: str) -> None:
    with pytest.raises(cawn.DataError, match=message):
        train(files, *options)
    assert not (files / "run").exists()


def test_options_that_would_do_nothing_are_refused(files: Path) -> None:
    with pytest.raises(cawn.QueryError, match="--weight describes a file, but uci is a dataset; leave it out"):
        app(["train", "uci", "--weight", "w", "-o", str(files / "run")], standalone_mode=False)


def test_another_system(tmp_path: Path) -> None:
    law = cawn.laws.triadic_closure(30, 600, seed=0).events
    edges = tmp_path / "edges.csv"
    edges.write_text("src,dst,t\n" + "".join(f"{u},{v},{t}\n" for u, v, t in zip(law.src, law.dst, law.t, strict=True)))
    run = tmp_path / "run"
    code, _, said = call_cawn("train", edges, "--system", "rates", "--set", "epochs=1", "-o", run)
    assert code == 0, said
    assert "cawn rank" in said
    assert "cawn explain" not in said
    code, _, said = call_cawn(
        "explain", run, "--src", 0, "--dst", 1, "--time", int(law.t[-1]) + 1, "-o", tmp_path / "x.html"
    )
    assert (code, said.count("\n")) == (2, 1)
    assert "uses no walks" in said
    code, _, said = call_cawn("train", edges, "--system", "tgx", "-o", tmp_path / "other")
    assert code == 2
    assert "system is 'tgx': there are cawn, rates" in said
    code, _, said = call_cawn("train", edges, "--system", "rates", "--resume", "-o", run)
    assert code == 2
    assert "leave out --system" in said


def test_refit(tmp_path: Path) -> None:
    edges, run = tmp_path / "edges.csv", tmp_path / "run"
    edges.write_text("src,dst,t\n" + "".join(f"{i % 7},{7 + i * i % 11},{i}\n" for i in range(300)))
    code, _, said = call_cawn("train", edges, "--system", "rates", "--set", "epochs=1", "-o", run, "--refit")
    assert code == 0
    assert "training on all 300 links" in said
    assert "refit epoch 1/1  loss" in said
    shown = call_cawn("info", run).out
    assert "weights trained on all links (300) for 1 epochs" in " ".join(shown.split())
    tested = call_cawn("evaluate", run, "--json", "-q")
    assert json.loads(tested.out)["results"] == json.loads((run / "results.json").read_text())
    (run / "served.safetensors").write_bytes(b"")
    assert_refused(call_cawn("rank", run, "--node", "1", "--time", "301"), "served.safetensors: damaged")
