"""Entries as columns of links."""

import pytest

from cawn.serve.links import Links
from cawn.serve.sources.entries import Columns, from_fields, from_json, shown


def test_fields_and_json_give_the_same_link() -> None:
    fields = from_fields({b"src": b"a", b"dst": "\u00e9".encode(), b"t": b"5", b"id": b"x", b"attributes": b"[1, 2.5]"})
    assert fields == {"src": "a", "dst": "\u00e9", "t": 5, "id": "x", "attributes": [1, 2.5]}
    assert from_fields({b"json": b'{"src": "a", "dst": "b", "t": 5}'}) == from_json(b'{"src":"a","dst":"b","t":5}')


@pytest.mark.parametrize(
    ("text", "t"),
    [(b"7", 7), (b"-7", -7), (b"1.5", 1.5), (b"2e3", 2000.0), (b"2024-05-01", "2024-05-01"), (b"nan", "nan")],
)
def test_times(text: bytes, t: object) -> None:
    found = from_fields({b"src": b"1", b"dst": b"2", b"t": text})["t"]
    assert (found, type(found)) == (t, type(t))


def test_columns() -> None:
    columns = Columns()
    columns.add((1, 0), {"src": "a", "dst": 2, "t": 5})
    assert columns.links() == Links(["a"], [2], [5])
    columns.add((2, 0), {"src": "a", "dst": 2, "t": 6, "id": 7, "attributes": [1]})
    assert columns.links() == Links(["a", "a"], [2, 2], [5, 6], [None, [1]], [None, "7"])
    assert columns.positions == [(1, 0), (2, 0)]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "src is missing"),
        ({b"src": b"a", b"t": b"1"}, "dst is missing"),
        ({b"src": b"a", b"dst": b"b"}, "t is missing"),
        ({b"src": b"\xff", b"dst": b"b", b"t": b"1"}, "src is not UTF-8"),
        ({b"src": b"a", b"dst": b"b", b"t": b"1", b"attributes": b"2"}, "attributes is 2: give a list"),
        ({b"json": b"{"}, "the entry is not JSON"),
        ({b"json": b"[" * 100_000}, "the entry is not JSON"),
        ({b"json": b"[1]"}, r"\[1\] is not a JSON object"),
        ({b"json": b'{"src": 1.5, "dst": 2, "t": 3}'}, "src is 1.5: names are"),
        ({b"json": b'{"src": true, "dst": 2, "t": 3}'}, "src is True: names are"),
        ({b"json": b'{"src": 1, "dst": 2, "t": [3]}'}, r"t is \[3\]: give a number"),
        ({b"json": b'{"src": 1, "dst": 2, "t": 3, "id": {}}'}, "id is {}: ids are"),
    ],
)
def test_what_is_not_a_link(fields: dict, reason: str) -> None:
    columns = Columns()
    with pytest.raises(ValueError, match=reason):
        columns.add((1, 0), from_fields(fields))
    assert len(columns.links()) == 0
    assert columns.positions == []


def test_any_bytes_can_be_shown() -> None:
    assert shown({b"a\xff": b"b"}) == {"a\\xff": "b"}
