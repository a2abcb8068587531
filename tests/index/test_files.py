"""An index written in pieces has the files of one built in memory and the estimated size; damage to them is noticed."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import cawn
import index_damage
from cawn.data.array_folders import checksum, read_arrays, stamps_of, write_arrays
from cawn.index import files
from cawn.index.features import PairParts
from cawn.index.files import write_index
from cawn.index.index import Index
from cawn.index.sizes import LinkCounts, index_bytes, memory_to_build, temporary_bytes
from cawn.index.stored import array_names, index_of, named_arrays
from cawn.learn.indexing import build_index
from small_runs import TINY

WALKS_ALONE = PairParts(False, False, False, False, False)
PARTS = (PairParts(), WALKS_ALONE._replace(rates=True), WALKS_ALONE)
DECAYS = (0.0, 0.01, 3.0)


def links(size: int, nodes: int, kind: str) -> cawn.Events:
    """Links with self-loops, hubs, a pair with many links, and by kind, simultaneous ones."""
    rng = np.random.default_rng(size)
    src, dst = rng.integers(0, nodes, (2, size))
    src[rng.random(size) < 0.3] = 1
    dst[(rng.random(size) < 0.7) & (src == 1)] = 2
    dst[: size // 50] = src[: size // 50]
    t = {"tied": rng.integers(0, 5, size), "real": rng.integers(0, size, size) / 7, "distinct": np.arange(size)}[kind]
    attributes = {"msg": rng.integers(0, 3, (size, 2)), "x": rng.integers(0, 3, (nodes + 3, 1))}
    return cawn.Events(src, dst, t, num_nodes=nodes + 3, **(attributes if kind == "tied" else {}))


def written(folder: Path, events: cawn.Events, parts: PairParts, memory: int, **options) -> dict[str, bytes]:
    folder.mkdir()
    names = write_index(events, DECAYS, 0.001, parts, folder, memory=memory, **options)
    assert {path.name for path in folder.iterdir()} == {f"{name}.npy" for name in names}
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("kind", ["tied", "real", "distinct"])
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize(("size", "nodes"), [(5000, 400), (3000, 20), (40, 2000)])
def test_files_are_those_of_an_index_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, parts: PairParts, size: int, nodes: int
) -> None:
    """Every stage reports its total; attributes order simultaneous links only where they are wanted."""
    for name, smaller in (("_RUN", 700), ("_GROUP", 300), ("_LEAST", 64)):
        monkeypatch.setattr(files, name, smaller)
    monkeypatch.setattr(files, "memory_to_build", lambda *_: 2**39)
    events, last, found = links(size, nodes, kind), dict[str, tuple[float, float]](), []

    @contextmanager
    def report(title: str, total: float, *, unit: str = "") -> Iterator[Callable[[float], None]]:
        yield lambda done: last.update({title: (done, total)})

    for attributes in (True, False) if kind == "tied" else (True,):
        how = {"attributes": attributes, "report": report}
        theirs = written(tmp_path / f"memory, {attributes}", events, parts, 2**40, **how)
        found.append(written(tmp_path / f"pieces, {attributes}", events, parts, 2**17 + 40 * nodes, **how))
        assert [name for name in theirs | found[-1] if found[-1].get(name) != theirs.get(name)] == []
    if parts.sequences and size > 40:
        assert all(done == total for done, total in last.values())
        assert last.keys() > {"dividing nodes", "sorting next", "numbering pairs"}
        assert kind != "tied" or found[0] != found[1]


def test_arrays_are_written_linked_and_read_back(tmp_path: Path) -> None:
    arrays = {"some": np.arange(3), "other": np.ones((2, 2))}
    name, manifest = write_arrays(tmp_path, "index", arrays)
    held = tmp_path / name / "some.npy"
    again, linked = write_arrays(tmp_path, "index", arrays, lambda array: None if array.ndim > 1 else (held, [7]))
    assert linked == manifest | {"some.npy": [7]}
    assert held.samefile(tmp_path / again / "some.npy")
    for folder in (name, again):
        found = read_arrays(tmp_path / folder, manifest)
        assert {key: array.tolist() for key, array in found.items()} == {"some": [0, 1, 2], "other": [[1, 1], [1, 1]]}


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(cawn.QueryError, match=r"an index of 403 nodes needs 0\.\d MiB more than the memory limit"):
        write_index(links(5000, 400, "real"), DECAYS, 1.0, WALKS_ALONE, tmp_path, memory=2**18)
    with pytest.raises(cawn.StorageError, match=r"index-\w+: cannot be written \(No such file or directory\)$"):
        write_arrays(tmp_path, "index", {"some": np.arange(3), "missing/folder": np.arange(3)})
    assert not list(tmp_path.iterdir())


FORMULA = [(PARTS[0], 219_200, 104_000), (PARTS[1], 147_200, 96_000), (PARTS[2], 139_200, 96_000)]


@pytest.mark.parametrize(("parts", "building", "temporary"), FORMULA)
@pytest.mark.parametrize("num_decays", [1, 8])
def test_the_formula_gives_the_bytes_of_an_index(
    parts: PairParts, building: int, temporary: int, num_decays: int
) -> None:
    rng, size, nodes = np.random.default_rng(0), 2_000, 200
    src = rng.integers(0, nodes, size)
    events = cawn.Events(src, (src + rng.integers(1, nodes, size)) % nodes, np.arange(size), num_nodes=nodes)
    index = Index.of(events, np.linspace(0, 1, num_decays), parts.kinds, parts.decay(1.0))
    keys = [len(index.kinds[kind]["keys"]) if kind in index.kinds else 0 for kind in ("pairs", "next")]
    followed = 2 * 8 * nodes if parts.sequences else 0  # entries of the last links of nodes, in two kinds
    assert index_bytes(LinkCounts(size, nodes, *keys), num_decays, parts) == index.nbytes + followed
    most = LinkCounts.at_most(size, nodes)
    assert most == LinkCounts(size, nodes, pairs=size, transitions=2 * size)
    assert memory_to_build(most, num_decays, parts) - building == index_bytes(most, num_decays, parts) >= index.nbytes
    assert temporary_bytes(most, parts) == temporary


def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    """A flipped bit, a file cut short or edited: one line that names the file and the remedy, whatever the file."""
    events = links(600, 30, "tied")
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
    events, parts = cawn.Events([0, 1, 2, 0], [1, 2, 0, 1], [1, 2, 3, 4]), PairParts()
    arrays = named_arrays(Index.of(events, np.array(DECAYS[:2]), parts.kinds, parts.decay(1.0)))
    assert list(arrays) == array_names(parts.kinds)
    index_of(events, DECAYS[:2], 1.0, parts, arrays)
    changed = arrays[name].copy()
    changed[at] = value
    missing = {other: array for other, array in arrays.items() if other != name}
    for wrong, message in ((arrays | {name: changed}, problem), (missing, f"{name} is missing")):
        with pytest.raises(cawn.DataError, match=message):
            index_of(events, DECAYS[:2], 1.0, parts, wrong)
