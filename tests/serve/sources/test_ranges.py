"""Sets of entry ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cawn.serve.sources.ranges import Ranges, parse_id

IDS = st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(lambda entry: entry > (0, 0))


def test_ids_as_text() -> None:
    assert parse_id("1700-3") == parse_id(b"1700-3") == (1700, 3)
    assert parse_id("1700") == (1700, 0)
    assert str(Ranges([((5, 0), (7, 2))])) == "0-0:0-0,5-0:7-2"
    assert Ranges.parse("").last == (0, 0)
    with pytest.raises(ValueError, match="invalid literal"):
        Ranges.parse("x")


def test_a_gap_is_closed() -> None:
    written = Ranges([((1, 0), (3, 0)), ((7, 0), (9, 0))])
    assert written.gaps() == [((0, 0), (1, 0)), ((3, 0), (7, 0))]
    assert (written.head, written.last) == ((0, 0), (9, 0))
    written.add((3, 0), (7, 0))
    written.add((0, 0), (1, 0))
    assert str(written) == "0-0:9-0"
    assert written.head == (9, 0)


@given(st.lists(st.tuples(IDS, IDS).map(sorted), max_size=8))
def test_equals_a_set_of_ids(pairs: list) -> None:
    written = Ranges(map(tuple, pairs))
    every = [(ms, seq) for ms in range(5) for seq in range(5)]
    assert {e for e in every if e in written} == {(0, 0)} | {e for e in every for a, b in pairs if a <= e <= b}
    ranges = list(written)
    assert ranges == sorted(ranges)
    assert all(before < after for before, after in written.gaps())
    assert list(Ranges.parse(str(written))) == ranges
    copied = written.copy()
    copied.add((9, 9), (9, 9))
    assert list(written) == ranges
