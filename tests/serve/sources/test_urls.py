"""URLs of streams."""

import pytest

import cawn
from cawn.serve.sources.urls import SourceUrl


def test_options() -> None:
    url = SourceUrl.parse("redis://:pass%40word@host:1/0?stream=a%26b&claim=2.5&more=1")
    assert url.take("stream") == "a&b"
    assert url.take_seconds("claim", 60) == 2.5
    assert url.take_seconds("other", 60) == 60
    assert url.take("group", "cawn") == "cawn"
    with pytest.raises(cawn.QueryError, match="unknown option more=; known: stream"):
        url.refuse_others("stream")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://host:x/0", "not a URL"),
        ("redis://host/0?stream", "not a URL"),
        ("redis://host/0?a=1&a=2", "a= is given twice"),
    ],
)
def test_malformed(url: str, message: str) -> None:
    with pytest.raises(cawn.QueryError, match=message):
        SourceUrl.parse(url)


def test_what_is_missing_or_no_number() -> None:
    url = SourceUrl.parse("redis://:secret@host?claim=soon")
    with pytest.raises(cawn.QueryError, match=r"stream= is missing; write redis://...\?stream=") as error:
        url.take("stream")
    assert "secret" not in str(error.value)
    with pytest.raises(cawn.QueryError, match="claim=soon: give a number of seconds"):
        url.take_seconds("claim", 60)


def test_a_password_in_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("CAWN_SOURCE_PASSWORD", "hidden")
    assert SourceUrl.parse("redis://host").password == "hidden"
    assert SourceUrl.parse("redis://:other@host").password is None
