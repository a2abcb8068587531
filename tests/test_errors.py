"""Messages: one printable line of bounded length, whatever they quote."""

import numpy as np
import pytest

import cawn
from cawn.errors import MAX_MESSAGE, brief, enough_memory, one_line, printable


class Unprintable:
    def __repr__(self) -> str:
        raise ValueError("no repr")


def nested(depth: int) -> list:
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        3,
        10**6000,
        "x" * 10_000,
        "two\nlines\x1b[31m\ud800",
        b"\x00" * 500,
        np.zeros((40, 40)),
        Unprintable(),
        nested(50_000),
        {"a": {"b": [1] * 100}},
    ],
    ids=lambda value: type(value).__name__,
)
def test_quoted_values_are_short_lines(value: object) -> None:
    text = brief(value)
    assert text.isprintable()
    assert 0 < len(text) <= 80


def test_what_is_quoted_stays_readable() -> None:
    assert brief("alice") == "'alice'"
    assert brief((1.5, None)) == "(1.5, None)"
    assert printable("naïve 東京 \x1b[2J") == "naïve 東京 \\x1b[2J"


def test_every_error_is_one_printable_line() -> None:
    error = cawn.DataError("row 3:\nfound \x1b]0;title\x07" + "y" * 5_000 + "; give numbers")
    assert str(error).isprintable()
    assert len(str(error)) == MAX_MESSAGE
    assert str(error).startswith("row 3: found \\x1b]0;title\\x07yyy")
    assert str(error).endswith("yyy; give numbers")
    assert str(cawn.QueryError("k is 0")) == "k is 0"
    assert len(one_line("\x1b" * 100_000)) == MAX_MESSAGE


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you ...")])
def test_running_out_of_memory_names_what_to_lower(error: Exception) -> None:
    remedy = "out of memory while scoring; lower num_walks, batch_size or dim"
    with pytest.raises(cawn.QueryError, match=remedy), enough_memory("scoring", "lower num_walks, batch_size or dim"):
        raise error
    with pytest.raises(RuntimeError, match="another"), enough_memory("scoring", "ask less"):
        raise RuntimeError("another")
