"""Damage of an index folder is noticed when it is opened, before compiled code follows it."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cawn
import index_damage
from cawn.data.array_folders import checksum, stamps_of
from cawn.index.features import PairParts
from cawn.index.index import Index
from cawn.index.stored import array_names, index_of, named_arrays
from cawn.learn.indexing import build_index
from networks import random_events
from small_runs import TINY

ALPHAS = (0.0, 0.5)
EVENTS = cawn.Events([0, 1, 2, 0], [1, 2, 0, 1], [1, 2, 3, 4])


def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    """A flipped bit, a file cut short or edited: one line that names the file and the remedy, whatever the file."""
    events = random_events(0, num_nodes=30, num_links=600, span=200)
    rows = [f"node{u},node{v},{t}" for u, v, t in zip(events.src, events.dst, events.t, strict=True)]
    (tmp_path / "log.csv").write_text("\n".join(["src,dst,t", *rows]))
    build_index(tmp_path / "log.csv", tmp_path / "index", TINY, memory=2**33)
    command = [sys.executable, index_damage.__file__, str(tmp_path / "index"), "200"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    outcomes = done.stdout.splitlines()
    assert (done.returncode, len(outcomes)) == (0, 200), done.stderr[-2000:]
    refused = re.compile(r"error: \S+(\.npy|\.json): .*(damaged|another version).*build the index again \(cawn index\)")
    assert [found for found in outcomes if not refused.fullmatch(found)] == []


def test_every_changed_word_changes_the_checksum(tmp_path: Path) -> None:
    words = np.arange(1, 1030, dtype=np.uint64)
    expected = checksum(words)
    for at in range(len(words)):
        changed = words.copy()
        changed[at] ^= np.uint64(1 << at % 64)
        assert checksum(changed) != expected
    path = tmp_path / "file"
    path.write_bytes(b"some")
    some, missing = stamps_of([path, tmp_path / "missing"])
    path.write_bytes(b"some\0")
    assert missing is None
    assert stamps_of([path]) != [some]


@pytest.mark.parametrize(
    ("name", "at", "value", "problem"),
    [
        ("nodes.hop", (0, 0), 3, "nodes.hop and nodes.time are not those"),
        ("nodes.hop", (0, 1), 8, "nodes.hop and nodes.time are not those"),
        ("nodes.hop", (0, 2), 9, "nodes.hop and nodes.time are not those"),
        ("nodes.span", (1,), 7 << 32, "nodes.span points outside the lists"),
        ("pairs.link", (0,), 8, "pairs.link has a value outside 0 to 7"),
        ("pairs.slots", (0,), 3, "pairs.slots are damaged"),
        ("ways.span", (0,), 1, "ways.span points outside the lists"),
        ("partners.partner", (0,), 3, "partners.partner has a value outside 0 to 2"),
        ("all.firsts", (0,), 9, "firsts are not sorted"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name: str, at: tuple[int, ...], value: int, problem: str) -> None:
    """Even with right checksums."""
    parts = PairParts()
    arrays = named_arrays(Index.of(EVENTS, np.array(ALPHAS), parts.kinds, parts.decay(1.0)))
    assert list(arrays) == array_names(parts.kinds)
    index_of(EVENTS, ALPHAS, 1.0, parts, arrays)
    arrays[name] = arrays[name].copy()
    arrays[name][at] = value
    with pytest.raises(cawn.DataError, match=problem):
        index_of(EVENTS, ALPHAS, 1.0, parts, arrays)
    del arrays[name]
    with pytest.raises(cawn.DataError, match=f"{name} is missing"):
        index_of(EVENTS, ALPHAS, 1.0, parts, arrays)
