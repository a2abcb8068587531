"""Columns of links."""

import json

import pytest

import cawn
from cawn.serve.links import Links


def test_columns_and_slices() -> None:
    links = Links(["a", "b", "c"], [1, 2, 3], [1, 2, 3], None, ["x", "y", None])
    assert links[1:] == Links(["b", "c"], [2, 3], [2, 3], None, ["y", None])
    assert len(links[:0]) == 0
    assert Links.from_columns(links.to_columns() | {"other": 1}) == links
    assert list(Links(["a"], ["b"], [1]).to_columns()) == ["src", "dst", "t"]


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (lambda: Links(["a"], ["b", "c"], [1]), r"1 src, 2 dst, 1 t: give as many of each"),
        (lambda: Links("a", ["b"], [1]), r"src is 'a': give a list"),
        (lambda: Links(["a"], ["b"], [1], None, "x"), r"ids is 'x': give a list"),
        (lambda: Links.from_columns({"src": ["a"], "t": [1]}), r"column dst is missing"),
        (lambda: Links(["a"], ["b"], [1], None, [1.5]).id_hashes(), r"ids hold 1.5"),
    ],
)
def test_malformed_links_are_refused(links, message: str) -> None:
    with pytest.raises(cawn.DataError, match=message):
        links()


def test_the_size_is_estimated() -> None:
    for attributes in (None, [[1.5, 20.0]] * 1000, [{"amount": 17.5, "currency": "EUR"}] * 1000, ["text"] * 1000):
        numbers = list(range(1000))
        links = Links([f"node {i}" for i in numbers], numbers, [0.5] * 1000, attributes, ["id"] * 1000)
        assert 0.5 < links.num_bytes / len(json.dumps(links.to_columns())) < 2
