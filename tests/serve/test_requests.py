"""Bodies: what they ask, and what is refused."""

import json
import math
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cawn.serve.bodies import parse
from cawn.serve.links import SubmittedLinks
from cawn.serve.problems import Problem
from cawn.serve.requests import LINKS, MAX_LINKS, MAX_NAME, MAX_PAIRS, PAIRS, ExplainQuery, Kind, Pairs, RankQuery
from cawn.walks.candidates import KINDS

RANK, EXPLAIN = (RankQuery,), (ExplainQuery,)


def asked(forms: tuple, body: Any) -> Any:
    return parse(json.dumps(body).encode(), forms)


def refused(forms: tuple, body: bytes) -> Problem:
    with pytest.raises(Problem) as caught:
        parse(body, forms)
    return caught.value


def test_links_as_rows_columns_or_one() -> None:
    rows = {"links": [{"src": "a", "dst": 2, "t": 1.5, "id": "x"}, {"src": "c", "dst": "d", "t": 3}]}
    assert asked(LINKS, rows) == SubmittedLinks(["a", "c"], [2, "d"], [1.5, 3], None, ["x", None])
    columns = {"src": ["a", "c"], "dst": [2, "d"], "t": [1.5, "2016-01-23"], "ids": None, "attributes": [[1], [2.5]]}
    assert asked(LINKS, columns) == SubmittedLinks(["a", "c"], [2, "d"], [1.5, "2016-01-23"], [[1], [2.5]])
    assert asked(LINKS, {"src": "a", "dst": "b", "t": 1, "id": 7}) == SubmittedLinks(["a"], ["b"], [1], None, [7])
    assert len(asked(LINKS, {"links": []})) == len(asked(LINKS, {"src": [], "dst": [], "t": [], "attributes": {}})) == 0


def test_attributes_by_name() -> None:  # U1
    paid, sold = {"amount": 17.5, "currency": "EUR"}, {"amount": 3, "currency": "USD"}
    link = {"src": "a", "dst": "b", "t": 1}
    assert asked(LINKS, link | {"attributes": paid}).attributes == [paid]
    rows = {"links": [link | {"attributes": paid}, link | {"attributes": sold}]}
    columns = {"src": ["a", "a"], "dst": ["b", "b"], "t": [1, 1]}
    by_name = columns | {"attributes": {"amount": [17.5, 3], "currency": ["EUR", "USD"]}}
    by_link = columns | {"attributes": [paid, sold]}
    assert asked(LINKS, rows) == asked(LINKS, by_name) == asked(LINKS, by_link)


def test_pairs_as_rows_or_columns() -> None:
    assert asked(PAIRS, {"pairs": [{"src": "a", "dst": "b", "t": 1}]}) == Pairs(["a"], ["b"], [1])
    assert asked(PAIRS, {"pairs": [{"src": "a", "dst": "b"}], "prior": 0.1}) == Pairs(["a"], ["b"], None, 0.1)
    assert asked(PAIRS, {"src": "a", "dst": ["b", 3], "t": 5.0}) == Pairs(["a", "a"], ["b", 3], [5.0, 5.0])
    assert asked(PAIRS, {"src": "a", "dst": "b", "t": None, "strict": True}) == Pairs(["a"], ["b"], None, strict=True)
    assert asked(PAIRS, {"pairs": []}) == Pairs([], [], None)


def test_rankings_and_explanations() -> None:
    assert get_args(get_args(Kind)[0]) == KINDS
    assert asked(RANK, {"src": "a"}) == RankQuery("a", None, 10, None, KINDS, prior=0.5)
    body = {"src": 1, "t": "2016-01-23", "k": 3, "candidates": ["b", 2], "kinds": ["recent"], "prior": 0.2}
    assert asked(RANK, body) == RankQuery(1, "2016-01-23", 3, ["b", 2], ("recent",), prior=0.2)
    assert asked(RANK, {"src": 1, "candidates": "all"}).candidates == "all"
    assert asked(EXPLAIN, {"src": 1, "dst": "b", "t": 5}) == ExplainQuery(1, "b", 5, prior=0.5)


LINK = {"src": 1, "dst": 2, "t": 1}
COLUMNS = {"src": [1], "dst": [2], "t": [1]}
PAIR = {"src": 1, "dst": 2}
REFUSED = [  # forms, body, where and what
    (LINKS, None, "the body is null"),
    (LINKS, [], "the body is []"),
    (LINKS, {}, "the body has no src"),
    (LINKS, {"links": 1}, "links is 1: give a list"),
    (LINKS, {"links": [1]}, "links[0] is 1: give an object with src, dst, t"),
    (LINKS, {"links": [], "src": 1}, "the body has the unknown field 'src'; known fields: links"),
    (LINKS, {"links": [LINK, {"src": 1, "dst": 2}]}, "links[1] has no t"),
    (LINKS, {"links": [LINK | {"time": 3}]}, "links[0] has the unknown field 'time'; known fields: src, dst, t, id"),
    (LINKS, {"links": [LINK] * 3 + [LINK | {"src": None}]}, "links[3].src is null: names"),
    (LINKS, {"links": [LINK, LINK | {"src": True}]}, "links[1].src is true"),
    (LINKS, LINK | {"dst": None}, "dst is null"),
    (LINKS, LINK | {"dst": 2.0}, "dst is 2.0"),
    (LINKS, LINK | {"src": 2**63}, "src is 9223372036854775808"),
    (LINKS, LINK | {"src": "x" * (MAX_NAME + 1)}, "src has a length of 1,001"),
    (LINKS, LINK | {"t": None}, "t is null: a time"),
    (LINKS, LINK | {"t": -(2**63) - 1}, "t is -9223372036854775809"),
    (LINKS, LINK | {"t": "x" * 65}, "t has a length of 65"),
    (LINKS, LINK | {"id": 1.5}, "id is 1.5"),
    (LINKS, LINK | {"attributes": 5}, "attributes is 5"),
    (LINKS, LINK | {"attributes": [1, None]}, "attributes[1] is null"),
    (LINKS, LINK | {"attributes": {"amount": []}}, "attributes is {'amount': []}"),
    (LINKS, COLUMNS | {"dst": [2, 3]}, "1 src, 2 dst, 1 t"),
    (LINKS, COLUMNS | {"dst": 2}, "dst is 2: give a list"),
    (LINKS, COLUMNS | {"dst": [{}]}, "dst[0] is {}: names"),
    (LINKS, COLUMNS | {"t": [[]]}, "t[0] is []: a time"),
    (LINKS, COLUMNS | {"ids": [[]]}, "ids[0] is []"),
    (LINKS, COLUMNS | {"attributes": {"amount": [1, 2]}}, "1 src, 1 dst, 1 t, 2 attributes.amount"),
    (LINKS, {"links": [LINK | {"attributes": [1]}, LINK]}, "links[1] has no attributes"),
    (LINKS, {"links": [LINK | {"attributes": [1] * n} for n in (1, 2)]}, "the attributes of links 0 and 1 differ"),
    (LINKS, {"links": [LINK] * (MAX_LINKS + 1)}, "links has a length of 100,001: give at most 100,000"),
    (PAIRS, {"pairs": [PAIR | {"t": 3}, PAIR]}, "pairs[1] has no t"),
    (PAIRS, {"pairs": [{"src": 1}]}, "pairs[0] has no dst"),
    (PAIRS, {"pairs": [], "t": 1}, "the body has the unknown field 't'"),
    (PAIRS, PAIR | {"dst": None}, "dst is null"),
    (PAIRS, {"src": [1, 2], "dst": [1, 2, 3]}, "2 src, 3 dst"),
    (PAIRS, PAIR | {"t": {}}, "t is {}"),
    (PAIRS, PAIR | {"prior": 0}, "prior is 0"),
    (PAIRS, PAIR | {"prior": True}, "prior is true"),
    (PAIRS, PAIR | {"strict": 1}, "strict is 1"),
    (PAIRS, {"src": 1, "dst": [2] * (MAX_PAIRS + 1)}, "dst has a length of 10,001: give at most 10,000"),
    *((RANK, {"src": 1, "k": k}, f"k is {json.dumps(k)}: ") for k in (0, 1_001, True, None, 1.0)),
    (RANK, {"src": [1]}, "src is [1]"),
    (RANK, {"src": 1, "candidates": []}, "candidates has a length of 0: give at least 1"),
    (RANK, {"src": 1, "candidates": "some"}, "candidates is 'some'"),
    (RANK, {"src": 1, "candidates": [None]}, "candidates[0] is null"),
    (RANK, {"src": 1, "kinds": []}, "kinds has a length of 0"),
    (RANK, {"src": 1, "kinds": ["none"]}, "kinds[0] is 'none': kinds"),
    (RANK, {"src": 1, "kinds": "recent"}, "kinds is 'recent': give a list"),
    (EXPLAIN, {"src": 1, "dst": 2, "prior": "0.5"}, "prior is '0.5'"),
]


@pytest.mark.parametrize(("forms", "body", "where"), REFUSED, ids=[where for _, _, where in REFUSED])
def test_a_refusal_names_the_field(forms: tuple, body: Any, where: str) -> None:
    problem = refused(forms, json.dumps(body).encode())
    assert problem.status == 422
    assert problem.detail.startswith(where)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b'{"src": 1, "dst": 2, "t": 1} x', 400),
        (b"[" * 100_000, 400),
        (b'{"a":' * 50_000, 400),
        (b'{"links": [[' + b"[" * 100_000 + b"]" * 100_002 + b"}", 400),
        (b'{"src": "\xff", "dst": 2, "t": 1}', 400),
        (b'{"src": "\\ud800", "dst": 2, "t": 1}', 400),  # half of a character
        (json.dumps(LINK).encode("utf-16"), 400),
        (b'{"src": 1, "dst": 2, "t": NaN}', 422),
        (b'{"src": 1, "dst": 2, "t": -Infinity}', 422),
        (b'{"src": 1, "dst": 2, "t": 1e400}', 422),
        (b'{"src": 1, "dst": 2, "t": ' + b"9" * 5_000 + b"}", 422),
        (b'{"links": [{"src": null}], "links": []}', 422),
        (b'{"a` - at `$.links[7].src`": 1}', 422),
    ],
    ids=lambda value: value if isinstance(value, int) else value[:30].decode("latin-1"),
)
def test_what_is_not_json_in_utf_8(body: bytes, status: int) -> None:
    assert refused(LINKS, body).status == status


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
FIELDS = st.sampled_from(["src", "dst", "t", "pairs", "links", "k", "ids", "attributes", "candidates"])


@pytest.mark.parametrize("forms", [LINKS, PAIRS, RANK, EXPLAIN])
@given(body=VALUES | st.dictionaries(FIELDS, VALUES))
def test_any_value_is_parsed_or_refused(forms: tuple, body: Any) -> None:
    try:
        asked(forms, body)
        problem = Problem("invalid", "")
    except Problem as error:
        problem = error
    assert problem.status in (400, 422)
    assert "\n" not in problem.detail
    assert len(problem.detail) <= 500


@given(st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_keep_their_value_and_type(t: float) -> None:
    found = asked(LINKS, LINK | {"t": t}).t[0]
    assert (found, type(found)) == (t, type(t))
    assert math.copysign(1, found) == math.copysign(1, t)
