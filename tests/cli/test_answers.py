"""`cawn update`, `cawn rank --nodes` and `cawn predict` on a run whose links had unusual columns."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cawn
from cawn import cli
from cawn.cli import answers as scoring
from cawn.data import laws
from cawn.data.readers.chunks import NodeFile
from cawn.learn.runs import read_description
from cawn.predictor import LinkPredictor
from cawn.systems.cawn.config import Config

SMALL = Config(alpha=0.01, num_walks=4, length=1, dim=4, frequencies=2, epochs=1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    links = laws.triadic_closure(30, 400, seed=0).events
    rows = [f"{i},n{u},n{v},{t}" for i, (u, v, t) in enumerate(zip(links.src, links.dst, links.t, strict=True))]
    (folder / "links.csv").write_text("number,rater,ratee,when\n" + "\n".join(rows) + "\n")
    events = cawn.read(folder / "links.csv", src="rater", dst="ratee", time="when", link_id="number")
    cawn.train(events, SMALL, out=folder / "run", quiet=True, kinds=("random",))
    (folder / "now").write_text(str(int(links.t[-1]) + 1))
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained / "run", tmp_path / "run"))


@pytest.fixture
def now(trained: Path) -> int:
    return int((trained / "now").read_text())


@pytest.fixture
def call(monkeypatch, capsys):
    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["cawn", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return call


def test_update_adds_links_once(call, run: Path, tmp_path: Path, now: int) -> None:
    new = tmp_path / "new.csv"
    new.write_text(f"number,rater,ratee,when\n900,n1,n2,{now}\n901,n1,newcomer,{now + 1}\n")
    before = LinkPredictor.load(run).score("n1", ["n2", "newcomer"], now + 5)
    assert call("update", run, new) == (0, "", f"2 links and 1 nodes added: {run}\n")
    predictor = LinkPredictor.load(run)
    assert predictor.num_links == 402
    assert predictor.knows("newcomer")
    assert (predictor.score("n1", ["n2", "newcomer"], now + 5) != before).all()
    code, shown, _ = call("update", run, new, "--json")
    assert code == 0
    found = json.loads(shown)
    assert (found["added"], found["skipped"], found["nodes_added"], found["links"]) == (0, 2, 0, 402)
    more = tmp_path / "more.csv"
    more.write_text(f"number,rater,ratee,when\n901,n1,newcomer,{now + 1}\n902,n3,n2,{now + 2}\n")
    assert "1 links and 0 nodes added, 1 known ones skipped" in call("update", run, more)[2]


@pytest.mark.filterwarnings("always::UserWarning")
def test_once_needs_no_ids(call, run: Path, tmp_path: Path, now: int) -> None:
    new = tmp_path / "new.csv"
    new.write_text(f"rater,ratee,when\nn1,n2,{now}\nn1,n3,{now}\n")
    assert call("update", run, new, "--once")[0] == 0
    assert "0 links and 0 nodes added, 2 known ones skipped" in call("update", run, new, "--once")[2]
    code, _, said = call("update", run, new)
    assert code == 0
    assert "were added before" in said
    assert LinkPredictor.load(run).num_links == 404
    assert len(read_description(run)["updates"]) == 2, "the links of training, and the batch"


def test_saving_keeps_what_was_added(run: Path, tmp_path: Path, now: int) -> None:
    predictor, batch = LinkPredictor.load(run), cawn.Events([0], [1], [now], labels=["n1", "n2"])
    predictor.update(batch)
    predictor.save(tmp_path / "later")
    assert LinkPredictor.load(tmp_path / "later").update(batch, once=True).added == 0
    assert LinkPredictor.load(run).update(batch, once=True).added == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("rater,ratee,when\nn1,,5\n", "found nothing"),
        ("a,b,c\nn1,n2,5\n", "--src and --dst"),
        ("src,dst,price\nn1,n2,5\n", "--time"),
        ("rater,ratee,when\nn1,n2,soon\n", "'soon'"),
        ("", "is empty"),
    ],
)
def test_bad_links_change_nothing(call, run: Path, tmp_path: Path, content: str, reason: str) -> None:
    new = tmp_path / "new.csv"
    new.write_text(content)
    before = (run / "run.json").read_bytes()
    code, shown, said = call("update", run, new)
    assert (code, shown) == (2, "")
    assert said.count("\n") == 1
    assert reason in said
    assert (run / "run.json").read_bytes() == before


def test_predict_knows_the_columns_of_the_run(call, trained: Path, tmp_path: Path, now: int) -> None:
    pairs, untimed = tmp_path / "pairs.csv", tmp_path / "untimed.csv"
    pairs.write_text(f"when,ratee,rater\n{now},n2,n1\n")
    code, shown, _ = call("predict", trained / "run", pairs, "-o", tmp_path / "out.csv", "-q")
    assert (code, shown) == (0, "")
    score = float((tmp_path / "out.csv").read_text().split(",")[-1])
    predictor = LinkPredictor.load(trained / "run")
    assert score == pytest.approx(predictor.score("n1", "n2", now)[0], rel=1e-5)
    untimed.write_text("rater,ratee\nn1,n2\n")
    assert call("predict", trained / "run", untimed, "--at", now, "-o", tmp_path / "at.csv")[0] == 0
    assert float((tmp_path / "at.csv").read_text().split(",")[-1]) == pytest.approx(score, rel=1e-5)
    assert "--time" in call("predict", trained / "run", untimed)[2]
    assert "has a column of times" in call("predict", trained / "run", pairs, "--at", now)[2]


def test_rank_for_a_file_of_nodes(call, trained: Path, tmp_path: Path, now: int) -> None:
    nodes, out = tmp_path / "nodes.csv", tmp_path / "top.parquet"
    nodes.write_text("note,node\na,n1\nb,stranger\nc,n2\n")
    code, shown, said = call("rank", trained / "run", "--nodes", nodes, "--time", now, "-k", 3, "-o", out)
    assert (code, shown) == (0, "")
    assert said == f"3 nodes ranked: {out}\n1 of 3 nodes are not in the network: no history\n"
    table = pq.read_table(out)
    assert table.column_names == ["node", "rank", "candidate", "probability", "found"]
    assert table["node"].to_pylist() == ["n1"] * 3 + ["stranger"] * 3 + ["n2"] * 3
    expected = LinkPredictor.load(trained / "run").rank("n2", now, k=3)
    assert table["candidate"].to_pylist()[6:] == [ranked.name for ranked in expected]
    assert [path.name for path in tmp_path.iterdir() if "parts" in path.name] == []
    code, shown, _ = call("rank", trained / "run", "--nodes", "all", "--time", now, "-k", 1, "--all-candidates")
    assert code == 0
    lines = shown.splitlines()
    assert lines[0] == "node,rank,candidate,probability,found"
    assert len(lines) == 31
    assert {line.split(",")[-1] for line in lines[1:]} == {"all"}


@pytest.mark.parametrize("content", ["n1\nn2\n", "node\nn1\nn2\n", "n1\tx\nn2\ty\n", "user_id\nn1\nn2", "name\nn1\nn2"])
def test_files_of_nodes_with_and_without_header(call, trained: Path, tmp_path: Path, now: int, content: str) -> None:
    nodes = tmp_path / "nodes.txt"
    nodes.write_text(content)
    code, shown, _ = call("rank", trained / "run", "--nodes", nodes, "--time", now, "-k", 1)
    assert code == 0
    assert [line.split(",")[0] for line in shown.splitlines()[1:]] == ["n1", "n2"]


def test_names_with_blanks_in_a_file_of_nodes(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.txt"
    nodes.write_text("Finn G\nAnn B\n")
    assert list(NodeFile.open(str(nodes)).chunks(10)) == [["Finn G", "Ann B"]]
    pq.write_table(pa.table({"other": ["a"], "node": ["b"]}), tmp_path / "nodes.parquet")
    assert list(NodeFile.open(str(tmp_path / "nodes.parquet")).chunks(10)) == [["b"]]


@pytest.mark.parametrize("command", ["predict", "rank"])
def test_ctrl_c_keeps_what_is_done_and_says_so(call, trained: Path, tmp_path: Path, now: int, monkeypatch, command):
    monkeypatch.setattr(scoring, "ROWS", 4)
    monkeypatch.setattr(scoring, "NODES", 4)
    asked, out = tmp_path / "asked.csv", tmp_path / "out.csv"
    names = ["n1", "stranger", "n2", "n3", "n4", "other", "n5", "n6", "n7", "n8"]
    asked.write_text("rater,ratee,when\n" + "".join(f"{name},n9,{now}\n" for name in names))
    arguments = ["predict", trained / "run", asked, "-o", out]
    if command == "rank":
        arguments = ["rank", trained / "run", "--nodes", asked, "--time", now, "-k", 2, "-o", out]
        asked.write_text("node\n" + "".join(f"{name}\n" for name in names))
    checks = iter([False, True])

    def stop(self) -> None:
        if next(checks, False):
            raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr("cawn.interrupt.Interrupt.check", stop)
        code, shown, said = call(*arguments)
    what = "pairs" if command == "predict" else "nodes"
    assert (code, shown) == (130, "")
    assert said == f"interrupted: 8 {what} are done and kept beside {out}; the same command goes on\n"
    assert not out.exists()
    code, _, said = call(*arguments)
    assert code == 0
    assert f"2 of 10 {what}" in said, "also those that were counted before"
    assert list(tmp_path.glob("*.parts")) == []
    kept = out.read_bytes()
    assert call(*arguments, "--force")[0] == 0
    again = out.read_bytes()
    assert np.isclose(len(kept), len(again), atol=60)
    assert kept.splitlines()[0] == again.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "give --node NAME"),
        (("--node", "n1", "--nodes", "all"), "give --node NAME"),
        (("--node", "n1", "-o", "x.csv"), "belong to --nodes"),
        (("--nodes", "all", "--candidate", "n1", "--all-candidates"), "give one of them"),
        (("--nodes", "nowhere.csv"), "no such file"),
        (("--nodes", "all", "-o", "x.xlsx"), "written as .csv or .parquet"),
        (("--nodes", "all", "--json"), "--json needs -o"),
    ],
)
def test_what_rank_refuses(call, trained: Path, arguments, reason: str) -> None:
    code, shown, said = call("rank", trained / "run", "--time", 5, *arguments)
    assert (code, shown) == (2, "")
    assert reason in said
    assert said.count("\n") == 1
