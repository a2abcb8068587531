"""Options of `cawn train` that name columns of links and a table of nodes."""

from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.cli import app
from cawn.learn.runs import read_events

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
        (["--node-column", "id"], "node='id': names a column of nodes, which are not given"),
    ],
)
def test_refused(files: Path, options: list[str], message: str) -> None:
    with pytest.raises(cawn.DataError, match=message):
        train(files, *options)
    assert not (files / "run").exists()


def test_options_that_would_do_nothing_are_refused(files: Path) -> None:
    with pytest.raises(cawn.QueryError, match="--weight describes a file, but uci is a dataset; leave it out"):
        app(["train", "uci", "--weight", "w", "-o", str(files / "run")], standalone_mode=False)
