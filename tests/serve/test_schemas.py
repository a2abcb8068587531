import pytest

from cawn.serve import requests, schemas
from cawn.serve.problems import KINDS

PARSERS = {
    "links": requests.parse_links,
    "columns": requests.parse_links,
    "one": requests.parse_links,
    "pairs": requests.parse_pairs,
    "now": requests.parse_pairs,
    "rank": requests.parse_rank,
    "explain": requests.parse_explain,
}
ANSWERS = {"receipt": schemas.RECEIPT, "scores": schemas.SCORES, "ranking": schemas.RANKING, "node": schemas.NODE}


@pytest.mark.parametrize("name", PARSERS)
def test_examples_of_bodies_are_accepted(name: str) -> None:
    assert PARSERS[name](schemas.EXAMPLES[name]) is not None


@pytest.mark.parametrize("name", ANSWERS)
def test_examples_of_answers_have_every_field(name: str) -> None:
    assert list(schemas.EXAMPLES[name]) == ANSWERS[name]["required"]


def test_every_example_is_checked() -> None:
    assert {*PARSERS, *ANSWERS} == set(schemas.EXAMPLES)


def test_errors_are_described_by_their_status() -> None:
    found = schemas.problems("late", "invalid")
    assert list(found) == [KINDS["late"].status, KINDS["invalid"].status] == [409, 422]
    assert "application/problem+json" in found[409]["content"]
