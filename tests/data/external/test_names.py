"""Names numbered piece by piece get the numbers of `number_nodes`."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cawn.data.external import names as external
from cawn.data.external.files import ColumnFile
from cawn.data.external.names import DESTINATION, SOURCE, NameTable, write_names
from cawn.data.names import NameIndex, number_nodes

TEXTS = st.text("ab0é", min_size=1, max_size=20) | st.integers(0, 3_000).map(str)
PIECES = {
    "integers": st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9), max_size=30),
    "strings": st.lists(TEXTS, max_size=30),
}


def chunked(names: list) -> pa.ChunkedArray:
    return pa.chunked_array([names], pa.int64() if not names or isinstance(names[0], int) else pa.large_string())


@settings(max_examples=40, deadline=None)
@given(data=st.data(), kind=st.sampled_from(["integers", "strings", "both"]), size=st.sampled_from([1, 7, 1 << 18]))
def test_any_names(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, kind: str, size: int) -> None:
    strategy = st.one_of(*PIECES.values()) if kind == "both" else PIECES[kind]
    pieces = data.draw(st.lists(st.tuples(strategy, strategy), min_size=1, max_size=5))
    sides = [[name for piece in pieces for name in piece[side]] for side in (0, 1)]
    given_names = [name for side in sides for name in side]
    strings = any(isinstance(name, str) for name in given_names)
    spelled = [[str(name) if strings else name for name in side] for side in sides]
    kinds = pa.large_string() if strings else pa.int64()
    src, dst, labels = number_nodes(*(pa.chunked_array([side], kinds) for side in spelled))

    table = NameTable(lambda _: None)
    added = [(table.add(chunked(a), SOURCE), table.add(chunked(b), DESTINATION)) for a, b in pieces]
    folder = tmp_path_factory.mktemp("names")
    written: dict[str, ColumnFile] = {}

    def create(name: str, dtype) -> ColumnFile:
        written[name] = ColumnFile(folder / name, dtype)
        return written[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(external, "_BLOCK", size)
        (finals,) = write_names([table], None, create)
    assert np.array_equal(finals[np.concatenate([a for a, _ in added])], src)
    assert np.array_equal(finals[np.concatenate([b for _, b in added])], dst)
    expected = NameIndex.of(labels).arrays
    assert set(written) == set(expected)
    for name, array in expected.items():
        assert np.array_equal(written[name].read(0, written[name].rows), array), name


@pytest.mark.parametrize("strings", [False, True])
def test_many_names(strings: bool) -> None:
    """Tables grow; names that are seen again keep their numbers."""
    numbers = np.random.default_rng(0).permutation(20_000)
    names = pa.chunked_array([[f"name-{i}" for i in numbers.tolist()] if strings else numbers])
    names = names.cast(pa.large_string() if strings else pa.int64())
    used: list[int] = []
    table = NameTable(used.append)
    first = table.add(names, SOURCE)
    assert np.array_equal(first, np.arange(20_000))
    assert np.array_equal(table.add(names.slice(1_000), DESTINATION), first[1_000:])
    assert len(table) == 20_000
    assert 20_000 * (13 + 11) < sum(used) < 20_000 * (3 * 13 + 2 * 23 + 3 * 10)
