"""A stored index that does not fit its links is refused before kernels follow it."""

import numpy as np
import pytest
from cawn.walks.rates import Rates
from cawn.walks.sequences import Sequences
from cawn.walks.validation import check_history, check_rates, check_sequences

import cawn

ALPHA = (0.0, 0.5)
EVENTS = cawn.Events([0, 1, 2], [1, 2, 0], [1, 2, 3])


@pytest.fixture(scope="module")
def history() -> cawn.History:
    return cawn.History(EVENTS, ALPHA)


def with_entry(array: np.ndarray, at: tuple[int, ...], value: float) -> np.ndarray:
    changed = np.array(array)
    changed[at] = value
    return changed


@pytest.mark.parametrize(
    ("name", "at", "value", "problem"),
    [
        ("hop", (0, 0), 3, "hop has a value outside 0 to 2"),
        ("hop", (0, 1), 6, "hop has a value outside 0 to 5"),
        ("hop", (0, 2), 9, "hop points outside a node's list"),
        ("starts", (1,), 7, "starts do not divide 6 into 3 lists"),
        ("time", (0,), 4, "time is not that of the links"),
        ("alphas", (1,), 0.6, "alphas are not those of the run"),
        ("logsum", (0, 0), np.nan, "logsum is out of range"),
    ],
)
def test_a_damaged_history(history: cawn.History, name: str, at: tuple, value: float, problem: str) -> None:
    check_history(history.arrays, EVENTS.t, 3, ALPHA)
    with pytest.raises(cawn.DataError, match=problem):
        check_history(history.arrays | {name: with_entry(history.arrays[name], at, value)}, EVENTS.t, 3, ALPHA)


def test_damaged_rates(history: cawn.History) -> None:
    arrays = Rates(EVENTS, history, directed=True).arrays
    check_rates(arrays, EVENTS.t, ALPHA, directed=True)
    with pytest.raises(cawn.DataError, match="the rates do not match the settings"):
        check_rates(arrays, EVENTS.t, ALPHA, directed=False)
    with pytest.raises(cawn.DataError, match=r"pairs\.keys are not sorted"):
        check_rates(arrays | {"pairs.keys": arrays["pairs.keys"][::-1].copy()}, EVENTS.t, ALPHA, directed=True)


@pytest.mark.parametrize(
    ("name", "at", "value", "problem"),
    [
        ("starts", (1,), 7, "starts do not divide 6 into 3 lists"),
        ("time", (0,), 4, "time is not that of the links"),
        ("partner", (0,), 3, "partner has a value outside 0 to 2"),
        ("next_keys", (0,), 3 << 32, "next_keys are not sorted"),
        ("next_keys", (-1,), 3 << 32, "next_keys has a value outside 0 to 2"),
        ("next_sum", (0,), np.nan, "next_sum is out of range"),
        ("activity", (0,), 0.5, "activity is out of range"),
        ("first_time", (0,), 9, "first_time is not sorted"),
    ],
)
def test_damaged_sequences(history: cawn.History, name: str, at: tuple, value: float, problem: str) -> None:
    arrays = Sequences.of(EVENTS, Rates(EVENTS, history, directed=False).pairs, 1.0).arrays
    check_sequences(arrays, EVENTS.t, 3)
    with pytest.raises(cawn.DataError, match=problem):
        check_sequences(arrays | {name: with_entry(arrays[name], at, value)}, EVENTS.t, 3)


def test_missing_sequences(history: cawn.History) -> None:
    arrays = Sequences.of(EVENTS, Rates(EVENTS, history, directed=False).pairs, 1.0).arrays
    del arrays["next_sum"]
    with pytest.raises(cawn.DataError, match="incomplete"):
        check_sequences(arrays, EVENTS.t, 3)
