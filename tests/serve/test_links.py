"""Columns of links, and their JSON."""

import json

import pytest

import cawn
from cawn.serve.links import Links


def test_columns_become_json_and_back() -> None:
    links = Links(
        ["a", 7, "ß\n\ud800"], [2**70, "b", ""], [1, 0.1, "2016-01-23"], [[1.0], [None], "x"], ["e1", None, 3]
    )
    content = links.to_json()
    assert content.isascii()
    assert b"\n" not in content
    assert Links.from_json(content) == links
    assert [type(t) for t in Links.from_json(content).t] == [int, float, str]


def test_absent_columns_are_not_written() -> None:
    assert json.loads(Links(["a"], ["b"], [1]).to_json()) == {"src": ["a"], "dst": ["b"], "t": [1]}


def test_slices_selections_and_joins() -> None:
    links = Links(["a", "b", "c"], [1, 2, 3], [1, 2, 3], None, ["x", "y", None])
    assert links[1:] == Links(["b", "c"], [2, 3], [2, 3], None, ["y", None])
    assert links.select([True, False, True]) == Links(["a", "c"], [1, 3], [1, 3], None, ["x", None])
    assert len(links[:0]) == 0
    joined = Links.join([links[:1], Links(["d"], [4], [4], [[0.5]])])
    assert joined == Links(["a", "d"], [1, 4], [1, 4], [None, [0.5]], ["x", None])
    assert Links.join([]) == Links([], [], [])


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (lambda: Links(["a"], ["b", "c"], [1]), r"1 src, 2 dst, 1 t: give as many of each"),
        (lambda: Links("a", ["b"], [1]), r"src is 'a': give a list"),
        (lambda: Links(["a"], ["b"], [1], None, "x"), r"ids is 'x': give a list"),
        (lambda: Links.from_columns({"src": ["a"], "t": [1]}), r"column dst is missing"),
        (lambda: Links.from_json(b"{"), r"not JSON"),
        (lambda: Links.from_json(b"[]"), r"give an object"),
        (lambda: Links(["a"], ["b"], [float("nan")]).to_json(), r"finite numbers"),
        (lambda: Links([b"a"], ["b"], [1]).to_json(), r"cannot be written as JSON"),
    ],
)
def test_malformed_links_are_refused(links, message: str) -> None:
    with pytest.raises(cawn.DataError, match=message):
        links()


def test_the_size_is_estimated() -> None:
    links = Links([f"node {i}" for i in range(1000)], list(range(1000)), [0.5] * 1000, None, ["id"] * 1000)
    assert 0.5 < links.num_bytes / len(links.to_json()) < 2
    assert Links(["a", 1], ["b", "c"], [1, 2], [[1.0, 2.0], None]).num_bytes > 0
