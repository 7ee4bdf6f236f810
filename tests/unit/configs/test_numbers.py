"""Numbers as they are formatted for people: durations, percentages and figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.numbers import ago, compact, digits, duration, exact, figure, of_target, percent, span


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0.0, "0 ms"),
        (0.001, "<0.01 ms"),
        (0.27, "0.27 ms"),
        (0.996, "1 ms"),
        (1.23, "1.2 ms"),
        (8.1, "8.1 ms"),
        (9.96, "10 ms"),
        (300.0, "300 ms"),
        (999.6, "1 s"),
        (1500.0, "1.5 s"),
        (16_200.0, "16 s"),
        (54_400.0, "54 s"),
        (432_000.0, "7.2 min"),
        (3 * 3600e3, "3 h"),
        (80 * 3600e3, "3.33 days"),
    ],
)
def test_a_duration_is_shown_in_the_unit_that_keeps_it_short(ms: float, text: str) -> None:
    assert duration(ms) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.0, "0% of target"),
        (0.001, "<1% of target"),
        (0.31, "31% of target"),
        (9.99, "999% of target"),
        (9.996, "10 x target"),
        (108.93, "109 x target"),
        (1e6, "1,000,000 x target"),
    ],
)
def test_a_response_far_above_its_target_is_shown_as_a_multiple(ratio: float, text: str) -> None:
    assert of_target(ratio) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.00001, "<0.0001"),
        (0.0001, "0.0001"),
        (0.012345, "0.0123"),
        (1.0, "1"),
        (12.345, "12.3"),
        (999.6, "1,000"),
        (19_040.4, "19,040"),
        (5e9, "5G"),
        (-2.5, "-2.5"),
    ],
)
def test_a_measured_number_is_shown_with_three_significant_digits_but_all_integer_digits(
    value: float, text: str
) -> None:
    assert figure(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(6.0, "6"), (0.05, "0.05"), (1e6, "1,000,000"), (1e-5, "0.00001"), (10, "10")]
)
def test_a_declared_number_has_all_its_digits(value: float, text: str) -> None:
    assert exact(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s ago"), (59.9, "59s ago"), (200, "3m ago"), (7300, "2h ago"), (1e6, "11d ago"), (-7200, "in 2h")],
)
def test_a_moment_is_shown_by_its_distance_from_now(seconds: float, text: str) -> None:
    assert ago(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.855e7, "38,550,000"),
        (1 / 3, "0.333333"),
        (1.2e-7, "0.00000012"),
        (1e300, "1e+300"),
        (0.0, "0"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_a_value_of_a_row_is_shown_with_an_exponent_only_if_the_value_is_huge(
    value: float, text: str
) -> None:
    assert digits(value, 6) == text


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=0))
def test_no_number_is_shown_in_scientific_notation_or_with_24_or_more_characters(value: float) -> None:
    for text in (duration(value), percent(value), of_target(value), figure(value), compact(value)):
        assert "e" not in text.replace("target", "").replace("days", ""), text
        assert len(text) < 24, text
    assert float(exact(value).replace(",", "")) == value
    assert span(min(value, 1e9))


@given(st.floats(min_value=0.01, max_value=1e9))
def test_a_shown_duration_is_within_six_percent_of_the_value(ms: float) -> None:
    number, unit = duration(ms).split()
    unit_ms = {"ms": 1, "s": 1e3, "min": 60e3, "h": 3600e3, "days": 86_400e3}[unit]
    assert float(number.replace(",", "")) * unit_ms == pytest.approx(ms, rel=0.06, abs=0.0051)
