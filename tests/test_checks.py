"""Checks of arguments: the value in its plain type, or one line that says what to give."""

import math
from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn import checks

POSITIVE = ("a positive number", lambda value: value > 0)


@pytest.mark.parametrize("value", [3, np.int32(3), np.uint64(3)])
def test_integers_become_plain(value: object) -> None:
    found = checks.check_integer(value, "k", 1, 3)
    assert (found, type(found)) == (3, int)


@pytest.mark.parametrize(
    ("value", "high", "message"),
    [
        (0, 9, "k is 0: give an integer from 1 to 9"),
        (10, 9, "k is 10: give an integer from 1 to 9"),
        (0, None, "k is 0: give an integer of 1 or more"),
        (True, None, "k is True"),
        (2.0, None, "k is 2.0"),
        ("2", None, "k is '2'"),
        (None, None, "k is None"),
    ],
)
def test_what_is_no_such_integer(value: object, high: int | None, message: str) -> None:
    with pytest.raises(cawn.QueryError, match=message):
        checks.check_integer(value, "k", 1, high)


def test_seeds() -> None:
    assert checks.check_seed(2**64 - 1) == np.uint64(2**64 - 1)
    for seed in (-1, 2**64, 1.0, None, True):
        with pytest.raises(cawn.QueryError, match=r"give an integer from 0 to 2\*\*64 - 1"):
            checks.check_seed(seed)


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int64(2)])
def test_numbers_become_plain(value: object) -> None:
    found = checks.check_number(value, "lr", *POSITIVE)
    assert (found, type(found)) == (2.0, float)


@pytest.mark.parametrize("value", [0, -1.5, math.nan, math.inf, 10**400, True, "1", None, [1.0]])
def test_what_is_no_such_number(value: object) -> None:
    with pytest.raises(cawn.QueryError, match=r"lr is .*: give a positive number"):
        checks.check_number(value, "lr", *POSITIVE)


def test_flags() -> None:
    checks.check_flags(quiet=True, resume=np.bool_(False))
    for value in (1, None, "yes"):
        with pytest.raises(cawn.QueryError, match=r"resume is .*: give True or False"):
            checks.check_flags(quiet=True, resume=value)


def test_words() -> None:
    checks.check_choice("a", "kind", ("a", "b"))
    assert checks.check_words(["b", "a"], "kinds", ("a", "b")) == ("b", "a")
    for value in ("c", None, ["a"]):
        with pytest.raises(cawn.QueryError, match=r"kind is .*: give one of a, b"):
            checks.check_choice(value, "kind", ("a", "b"))
    with pytest.raises(cawn.QueryError, match="kinds 'c': give one of a, b"):
        checks.check_words(("a", "c"), "kinds", ("a", "b"))
    with pytest.raises(cawn.QueryError, match="kinds is 'a': give a tuple of a, b"):
        checks.check_words("a", "kinds", ("a", "b"))


def test_paths(tmp_path: Path) -> None:
    assert checks.check_path(str(tmp_path / "new"), "out") == tmp_path / "new"
    assert checks.check_path(tmp_path, "out") == tmp_path
    for value in ("", None, 3, b"run", "a\0b", "x" * 5_000):
        with pytest.raises(cawn.QueryError, match=r"out is .*give a path"):
            checks.check_path(value, "out")


def test_arrays() -> None:
    assert checks.as_array([1, 2], "src").tolist() == [1, 2]
    with pytest.raises(cawn.DataError, match="src: some values are masked"):
        checks.as_array(np.ma.array([1, 2], mask=[True, False]), "src")
    with pytest.raises(cawn.DataError, match="src: cannot be read as an array"):
        checks.as_array([[1], [1, 2]], "src")


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("4GiB", 4 * 2**30),
        ("500MB", 500_000_000),
        ("1.5 GiB", 3 * 2**29),
        ("2g", 2**31),
        (" 64k ", 2**16),
        ("1TB", 10**12),
        ("100B", 100),
        ("4096", 4096),
        (np.int64(7), 7),
    ],
)
def test_amounts_of_memory(text: object, amount: int) -> None:
    found = checks.parse_bytes(text)
    assert (found, type(found)) == (amount, int)


@pytest.mark.parametrize(
    "text", ["", "GiB", "-1", "0", "4 bytes", "1e9", "9" * 400, "4GiBB", "٤GiB", 0, True, 1.5, None]
)
def test_other_amounts_are_refused_in_one_line(text: object) -> None:
    with pytest.raises(cawn.QueryError, match="limit is "):
        checks.parse_bytes(text, "limit")
