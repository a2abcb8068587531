"""The time axis: true to scale, in order, readable."""

import itertools
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cawn.explain.drawing import text_width, wrap
from cawn.explain.time_axis import SIZE, better_axis, move_apart, seconds_per_unit, time_axis

NOW = 1_700_000_000  # 2023-11-14T22:13:20
TEXT = "2023-11-14T22:13:20"
ENDS = (100.0, 500.0)
positions = st.lists(st.floats(0, 400), max_size=40).map(sorted)


@given(positions)
def test_moved_apart(x: list[float]) -> None:
    """In the same order, within the ends and at least the gap apart; far neighbours stay where they are."""
    found = move_apart(x, 10, (0, 400))
    gap = min(10, 400 / max(len(x) - 1, 1))
    assert all(b - a > gap - 1e-6 for a, b in itertools.pairwise(found))
    assert all(-1e-6 <= value <= 400 + 1e-6 for value in found)
    if all(b - a >= 10 for a, b in itertools.pairwise(x)):
        assert found == pytest.approx(x)


def test_links_at_one_time_are_centred_on_it() -> None:
    assert move_apart([50, 50, 50], 10, (0, 100)) == pytest.approx([40, 50, 60])


def test_both_axes_are_true_to_scale() -> None:
    times = [NOW - age for age in (86_400, 3_600, 60)]
    logarithmic, linear = (time_axis(kind, times, NOW, TEXT, ENDS) for kind in ("logarithmic", "linear"))
    a, b, c = logarithmic.true
    assert (b - a) / (c - b) == pytest.approx(math.log(24) / math.log(60))
    assert [round((500 - x) / 400, 4) for x in linear.true] == [1.0, 0.0417, 0.0007]
    assert "logarithmic" in logarithmic.label
    assert "linear" in linear.label
    assert dict(map(reversed, logarithmic.ticks))["1 hour"] == pytest.approx(b)


@pytest.mark.parametrize(
    ("ages", "kind"),
    [([10**6, 10**5, 10**4, 10**3, 100], "logarithmic"), (range(5_000, 0, -500), "linear")],
)
def test_the_better_axis(ages: Sequence[int], kind: str) -> None:
    axes = [time_axis(kind, [NOW - age for age in ages], NOW, TEXT, ENDS) for kind in ("logarithmic", "linear")]
    assert better_axis(axes).kind == kind


@given(
    st.sampled_from(["logarithmic", "linear"]),
    st.lists(st.integers(1, 10**9), min_size=1, max_size=20),
    st.sampled_from([TEXT, "1700000000"]),
)
def test_ticks_do_not_touch(kind: str, ages: list[int], text: str) -> None:
    axis = time_axis(kind, sorted(NOW - age for age in ages), NOW, text, ENDS)
    ticks = sorted(axis.ticks)
    boxes = [(x - text_width(label, SIZE) / 2, x + text_width(label, SIZE) / 2) for x, label in ticks]
    assert all(a[1] < b[0] for a, b in itertools.pairwise(boxes))
    assert all(ENDS[0] - 1 <= x <= ENDS[1] + 1 for x, _ in ticks)


@pytest.mark.parametrize(
    ("age", "expected"),
    [(10 * 31_557_600, "2020"), (300 * 86_400, "2023-07"), (3 * 86_400, "2023-11-13"), (7_200, "11-14 21:00")],
)
def test_ticks_of_a_linear_axis_are_dates(age: int, expected: str) -> None:
    assert expected in [text for _, text in time_axis("linear", [NOW - age], NOW, TEXT, ENDS).ticks]


def test_units_of_time() -> None:
    assert seconds_per_unit(NOW, TEXT) == 1
    assert seconds_per_unit(NOW * 10**9 + 1, f"{TEXT}.000000001") == 1e-9
    assert seconds_per_unit(1_700_000_000.5, f"{TEXT}.5") == 1
    assert seconds_per_unit(NOW, str(NOW)) is None
    assert "1,000" in [text for _, text in time_axis("logarithmic", [0, 9_990, 9_999], 10_000, "10000", ENDS).ticks]
    axis = time_axis("logarithmic", [(NOW - 60) * 10**9, NOW * 10**9 - 1], NOW * 10**9, TEXT, ENDS)
    assert {"1 minute", "1 ms", "1 µs"} <= {text for _, text in axis.ticks}


@given(st.text("ab 日", max_size=60), st.integers(30, 200))
def test_wrapped_text_fits(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(text_width(line) <= width or len(line) == 1 for line in lines)
