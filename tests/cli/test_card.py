"""Model cards."""

from pathlib import Path

from cawn.cli.card import model_card
from cawn.learn.run_info import run_info
from command_line import assert_refused, call_cawn


def test_a_card_has_data_settings_accuracy_versions_and_digests(trained: Path) -> None:
    shown = call_cawn("info", trained / "run", "--markdown")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == model_card(run_info(trained / "run") | {"live": None})
    info = run_info(trained / "run")
    assert shown.out.startswith("# Model card: run\n")
    titles = [line[3:] for line in shown.out.splitlines() if line.startswith("## ")]
    assert titles == ["Data", "Model", "Training", "Accuracy", "Probabilities", "Limits"]
    for words in ("400 links, 30 nodes", "num\\_walks=4", "Against random negatives:", "baseline: recency"):
        assert words in shown.out
    for words in (info["weights"], info["data"]["digest"], f"{info['results'][0]['model']['ap']:.4f}"):
        assert words in shown.out
    rows = [line for line in shown.out.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in rows)


def test_names_cannot_break_a_table(trained: Path) -> None:
    info = run_info(trained / "run") | {"live": None}
    info["data"]["reading"] |= {"src": "a|b\n<script>"}
    line = next(line for line in model_card(info).splitlines() if line.startswith("| columns"))
    assert "a\\|b\\\\n\\<script\\>" in line


def test_a_live_state(trained: Path) -> None:
    sources = {"redis:s": "0-0:1-0,3-0:7-0", "kafka:k": "0:5,1:6"}
    live = {"folder": "live", "links": 1_234, "nodes": 56, "position": 5, "sources": sources, "rejected": 2}
    card = model_card(run_info(trained / "run") | {"live": live | {"bytes": 10**6}})
    assert "1,234 links, 56 nodes, redis:s read up to 7-0, kafka:k read up to 0:5,1:6, " in card
    assert "2 rejected entries; 1.0 MB" in card


def test_json_or_markdown(trained: Path) -> None:
    assert_refused(call_cawn("info", trained / "run", "--json", "--markdown"), "give one of them")
