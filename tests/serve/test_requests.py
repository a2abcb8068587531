import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cawn.serve.links import Links
from cawn.serve.problems import Problem
from cawn.serve.requests import (
    MAX_LINKS,
    MAX_NAME,
    MAX_PAIRS,
    ExplainQuery,
    Pairs,
    RankQuery,
    check_name,
    parse_explain,
    parse_json,
    parse_links,
    parse_pairs,
    parse_rank,
)

KINDS = ("recent", "two hops", "popular")


def refusal(parse, body) -> Problem | None:
    try:
        parse(body)
    except Problem as problem:
        return problem
    return None


def refused(parse, body) -> Problem:
    problem = refusal(parse, body)
    assert problem is not None
    return problem


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_json_is_parsed_as_python_does(value) -> None:
    assert parse_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b'{"a": 1} x', 400),
        (b"[" * 100_000, 400),
        (b'{"a":' * 50_000, 400),
        (b"NaN", 422),
        (b'{"t": Infinity}', 422),
        (b'{"t": -Infinity}', 422),
        (b"9" * 5_000, 422),
    ],
)
def test_bad_json(body: bytes, status: int) -> None:
    assert refused(parse_json, body).status == status


def test_lone_surrogates_are_names() -> None:
    assert parse_json(b'"\\ud800"') == "\ud800"


def test_links_as_rows_columns_or_one() -> None:
    rows = {"links": [{"src": "a", "dst": 2, "t": 1.5, "id": "x"}, {"src": "c", "dst": "d", "t": 3}]}
    assert parse_links(rows) == Links(["a", "c"], [2, "d"], [1.5, 3], None, ["x", None])
    columns = {"src": ["a", "c"], "dst": [2, "d"], "t": [1.5, "2016-01-23"], "ids": None, "attributes": [[1], [2.5]]}
    assert parse_links(columns) == Links(["a", "c"], [2, "d"], [1.5, "2016-01-23"], [[1], [2.5]])
    assert parse_links({"src": "a", "dst": "b", "t": 1, "id": 7}) == Links(["a"], ["b"], [1], None, [7])
    assert len(parse_links({"links": []})) == 0


NAN, HUGE = math.nan, 2**63


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (None, "the body is None"),
        ([], "the body is []"),
        ({}, "has no src"),
        ({"links": 1}, "links is 1: give a list"),
        ({"links": [1]}, r"links[0] is 1: give an object"),
        ({"links": [], "src": 1}, "unknown field 'src'"),
        ({"links": [{"src": 1, "dst": 2}]}, "links[0] has no t"),
        ({"links": [{"src": 1, "dst": 2, "time": 3, "t": 3}]}, "links[0] has the unknown field 'time'"),
        ({"links": [{"src": 1, "dst": 2, "t": 1}, {"src": True, "dst": 2, "t": 1}]}, "links[1].src is True"),
        ({"src": 1, "dst": None, "t": 1}, "the body.dst is None"),
        ({"src": 1, "dst": 2, "t": None}, "the body.t is None"),
        ({"src": 1, "dst": 2.0, "t": 1}, "the body.dst is 2.0"),
        ({"src": HUGE, "dst": 2, "t": 1}, "integers are of 64 bits"),
        ({"src": 1, "dst": 2, "t": HUGE}, "give a finite number"),
        ({"src": 1, "dst": 2, "t": math.inf}, "give a finite number"),
        ({"src": 1, "dst": 2, "t": "x" * 65}, "give a finite number"),
        ({"src": "x" * (MAX_NAME + 1), "dst": 2, "t": 1}, "1,001 characters"),
        ({"src": 1, "dst": 2, "t": 1, "id": 1.5}, "the body.id is 1.5"),
        ({"src": 1, "dst": 2, "t": 1, "id": "x" * 1001}, "1,001 characters"),
        ({"src": 1, "dst": 2, "t": 1, "attributes": 5}, "give a list of values"),
        ({"src": 1, "dst": 2, "t": 1, "attributes": [math.inf]}, "attributes are finite numbers"),
        ({"src": [1], "dst": [2, 3], "t": [1]}, "1 src, 2 dst, 1 t"),
        ({"src": [1], "dst": 2, "t": [1]}, "dst is 2: give a list"),
        ({"src": [1], "dst": None, "t": [1]}, "dst is None: give a list"),
        ({"src": [1], "dst": [{}], "t": [1]}, "dst[0] is {}"),
        ({"src": [1], "dst": [2], "t": [[]]}, "t[0] is []"),
        ({"src": [1], "dst": [2], "t": [1], "ids": [[]]}, "ids[0] is []"),
        ({"src": [1, 2], "dst": [2, 3], "t": [1, 2], "attributes": [[1], [1, 2]]}, "as many for each link"),
        ({"links": [{}] * (MAX_LINKS + 1)}, "at most 100,000"),
    ],
)
def test_bad_links(body, message: str) -> None:
    problem = refused(parse_links, body)
    assert problem.status == 422
    assert message in problem.detail


def test_pairs_as_rows_or_columns() -> None:
    assert parse_pairs({"pairs": [{"src": "a", "dst": "b", "t": 1}]}) == Pairs(["a"], ["b"], [1])
    assert parse_pairs({"pairs": [{"src": "a", "dst": "b"}], "prior": 0.1}) == Pairs(["a"], ["b"], None, 0.1)
    assert parse_pairs({"src": "a", "dst": ["b", 3], "t": 5.0}) == Pairs(["a", "a"], ["b", 3], [5.0, 5.0])
    assert parse_pairs({"src": "a", "dst": "b", "t": None}) == Pairs(["a"], ["b"], None)
    assert parse_pairs({"pairs": []}) == Pairs([], [], None)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"pairs": [{"src": 1, "dst": 2, "t": 3}, {"src": 1, "dst": 2}]}, "pairs[1] has no t, but others have"),
        ({"pairs": [{"src": 1}]}, "pairs[0] has no dst"),
        ({"pairs": [], "t": 1}, "unknown field 't'"),
        ({"src": 1, "dst": None}, "must not be null"),
        ({"src": [1, 2], "dst": [1, 2, 3]}, "2 src, 3 dst"),
        ({"src": 1, "dst": 2, "t": {}}, "t[0] is {}"),
        ({"src": 1, "dst": 2, "prior": 0}, "prior is 0"),
        ({"src": 1, "dst": 2, "prior": True}, "prior is True"),
        ({"src": 1, "dst": 2, "prior": math.inf}, "prior is inf"),
        ({"src": 1, "dst": [2] * (MAX_PAIRS + 1)}, "at most 10,000"),
    ],
)
def test_bad_pairs(body, message: str) -> None:
    problem = refused(parse_pairs, body)
    assert problem.status == 422
    assert message in problem.detail


def test_rank_and_explain() -> None:
    assert parse_rank({"src": "a"}) == RankQuery("a", None, 10, None, KINDS, 0.5)
    body = {"src": 1, "t": "2016-01-23", "k": 3, "candidates": ["b", 2], "kinds": ["recent"], "prior": 0.2}
    assert parse_rank(body) == RankQuery(1, "2016-01-23", 3, ["b", 2], ("recent",), 0.2)
    assert parse_rank({"src": 1, "candidates": "all"}).candidates == "all"
    assert parse_explain({"src": 1, "dst": "b", "t": 5}) == ExplainQuery(1, "b", 5, 0.5)


@pytest.mark.parametrize(
    "change",
    [
        {"k": 0},
        {"k": 1_001},
        {"k": True},
        {"k": None},
        {"k": 1.0},
        {"src": None},
        {"src": [1]},
        {"t": []},
        {"candidates": []},
        {"candidates": "some"},
        {"candidates": [None]},
        {"candidates": {"a": 1}},
        {"kinds": []},
        {"kinds": ["none"]},
        {"kinds": [["recent"]]},
        {"kinds": "recent"},
        {"prior": "0.5"},
        {"n": 1},
    ],
)
def test_bad_rankings(change) -> None:
    assert refused(parse_rank, {"src": "a"} | change).status == 422


@pytest.mark.parametrize("parse", [parse_links, parse_pairs, parse_rank, parse_explain])
@given(body=VALUES | st.dictionaries(st.sampled_from(["src", "dst", "t", "pairs", "links", "k", "ids"]), VALUES))
def test_any_value_is_parsed_or_refused(parse, body) -> None:
    problem = refusal(parse, body)
    assert problem is None or (problem.status == 422 and "\n" not in problem.detail and len(problem.detail) <= 500)


def test_long_names_are_refused() -> None:
    check_name("x" * MAX_NAME)
    assert refused(check_name, "x" * (MAX_NAME + 1)).status == 422
