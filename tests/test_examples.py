"""The examples run as they are, and show what they say."""

import re
import subprocess
import sys
from itertools import islice

import pytest

import cawn
from cawn.testing import PROMISES
from example_files import EXAMPLES, example
from systems.small_settings import small


def output_of(name: str) -> str:
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(pattern: str, text: str) -> tuple[float, ...]:
    """What the groups of a pattern hold; it must occur."""
    found = re.search(pattern, text)
    assert found is not None, text
    return tuple(map(float, found.groups()))


def test_own_csv() -> None:
    out = output_of("own_csv.py")
    model, recency = numbers(r"AP ([\d.]+), recency baseline ([\d.]+)", out)
    assert model > recency + 0.1
    (linked,), (stranger,) = numbers(r"before that:\n +([\d.]+)", out), numbers(r"([\d.]+)  .*who is new", out)
    assert stranger < 0.5 < linked
    assert "1. Ada J" in out  # to whom the sender did write


def test_walks_only() -> None:
    out = output_of("walks_only.py")
    (closing,), (strangers,) = (numbers(rf"(\d+) of 128   u and {other}", out) for other in ("v", "a stranger"))
    assert closing > 1.5 * strangers
    (same,), (dropped,) = numbers(r"from the history: (\d+)%", out), numbers(r"dropped link: ([\d.]+)%", out)
    assert same > 80
    assert 0 < dropped < 10


def test_pyg_embeddings() -> None:
    pytest.importorskip("torch_geometric")
    out = output_of("pyg_embeddings.py")
    accuracy, majority = numbers(r"accuracy (\d+)% on 450 links; always answering no: (\d+)%", out)
    assert "embeddings: (900, 96)" in out
    assert accuracy > majority + 5


def test_train_loop() -> None:
    out = output_of("train_loop.py")
    first, second = (numbers(rf"epoch {epoch}: validation AP ([\d.]+)", out)[0] for epoch in (1, 2))
    (tested,) = numbers(r"historical negatives ([\d.]+)", out)
    assert min(first, second, tested) > 0.6
    assert len((EXAMPLES / "train_loop.py").read_text(encoding="utf-8").splitlines()) < 60


@pytest.mark.parametrize("name", ["cawn", "tgn", "graphmixer"])
def test_the_loop_trains_as_the_package_does(name: str) -> None:
    events, config = cawn.laws.triadic_closure(30, 500, seed=3).events, small(name)
    options = {"device": "cpu", "threads": 1, "quiet": True}
    expected = [row["val_ap"] for row in cawn.Trainer(events, config, seed=4, **options).fit_untested()]
    found = [ap for ap, _ in islice(example("train_loop").train(events, config, seed=4), len(expected))]
    assert found == pytest.approx(expected, abs=1e-6)


def test_own_system() -> None:
    out = output_of("own_system.py")
    (kept,), (accuracy,) = numbers(r"all (\d+) promises", out), numbers(r"AP ([\d.]+) against random", out)
    assert kept == len(PROMISES)
    assert accuracy > 0.65
    assert len((EXAMPLES / "own_system.py").read_text(encoding="utf-8").splitlines()) <= 60
