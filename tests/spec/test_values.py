"""Durations, sizes and exit codes."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.quantities import LARGEST, format_quantity, parse_quantity
from runrig.domain.spans import format_duration
from runrig.spec.values import LONGEST_DURATION_S, parse_duration, parse_exit_codes, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5", 1.5),
        ("2d", 172800),
        ("3h", 10800),
        ("4m", 240),
        ("5s", 5),
        ("6ms", 0.006),
        ("7us", 0.000007),
        ("PT1H", 3600),
        ("P1DT2H3M4.5S", 93784.5),
        ("P2W", 1209600),
        ("0", 0),
    ],
)
def test_durations_are_read_in_every_form(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "1h5m", "h", "1 h", "P", "PT", "1H", "five", "1e3", "٣s", "nan", "inf", "-", "-c"]
)
def test_invalid_duration_is_refused_with_a_valid_form(text: str) -> None:
    with pytest.raises(
        ValueError, match=re.escape(f"{text!r} is not a duration. Use one number with a unit of d, h, m")
    ):
        parse_duration(text)


def test_durations_have_a_minimum_and_a_maximum() -> None:
    with pytest.raises(ValueError, match="'-1h' is negative: durations start at 0"):
        parse_duration("-1h")
    with pytest.raises(ValueError, match=r"'3651d' is too long \(maximum 3650d"):
        parse_duration("3651d")


@given(st.integers(0, int(LONGEST_DURATION_S) * 1_000_000))
@settings(deadline=None)
def test_duration_is_read_back_to_the_microsecond(micros: int) -> None:
    text = format_duration(micros / 1_000_000)
    assert round(parse_duration(text) * 1_000_000) == micros


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1024", 1024),
        ("1K", 1024),
        ("1Ki", 1024),
        ("2MiB", 2 * 2**20),
        ("1G", 2**30),
        ("1Gi", 2**30),
        ("1.5Ti", 3 * 2**39),
        ("7B", 7),
        ("1500m", 2),
    ],
)
def test_sizes_round_up_to_bytes_and_g_is_gi(text: str, amount: int) -> None:
    assert parse_size(text) == amount


@pytest.mark.parametrize("text", ["", "1X", "Gi", "1 Gi", "1gi", ".5Gi", "1e9", "1GiBs", "-c"])
def test_invalid_size_is_refused_with_a_valid_form(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{text!r} is not a size. Use a number and a unit")):
        parse_size(text)


def test_sizes_have_a_minimum_and_a_maximum() -> None:
    with pytest.raises(ValueError, match="'-1Gi' is negative: sizes start at 0"):
        parse_size("-1Gi")
    with pytest.raises(ValueError, match="'999999999Ti' does not fit in 64 bits"):
        parse_size("999999999Ti")


@given(st.integers(1, 1023), st.sampled_from(["Ki", "Mi", "Gi", "Ti"]))
@settings(deadline=None)
def test_size_is_read_back_unchanged(number: int, unit: str) -> None:
    assert format_quantity("memory", parse_size(f"{number}{unit}")) == f"{number}{unit}"


@given(st.integers(0, 10**15))
@settings(deadline=None)
def test_quantity_is_read_back_unchanged(amount: int) -> None:
    assert parse_quantity("memory", str(amount)) == parse_size(str(amount)) == amount
    assert parse_quantity("cpu", f"{amount}m") == amount


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("memory", 0, "0"),
        ("memory", 1500, "1500"),
        ("memory", 2**30, "1Gi"),
        ("memory", 3 * 2**39, "1.5Ti"),
        ("storage", 9 * 2**37, "1.125Ti"),
        ("memory", 12_345 * 2**40, "12345Ti"),
        ("memory", 1_048_577 * 2**10, "1048577Ki"),
        ("memory", 2**30 + 1, "1073741825"),
        ("memory", -3 * 2**29, "-1.5Gi"),
        ("cpu", 500, "0.5"),
        ("cpu", 96_000, "96"),
        ("cpu", 1_234_567, "1234.567"),
        ("cpu", 1_000_000_000, "1000000"),
        ("cpu", -1, "-0.001"),
        ("gpu", 1_234_567, "1234567"),
    ],
)
def test_amounts_are_shown_in_short_exact_form(resource: str, amount: int, text: str) -> None:
    assert format_quantity(resource, amount) == text


_NEAR_A_UNIT = st.builds(
    lambda number, unit, off: max(0, min(number * unit // 1000 + off, LARGEST)),
    st.integers(0, 10**9),
    st.sampled_from([2**10, 2**20, 2**30, 2**40]),
    st.integers(-1, 1),
)


@given(
    st.sampled_from(["cpu", "memory", "storage", "gpu"]),
    st.sampled_from(["Ti", "Gi"]),
    st.integers(0, LARGEST) | _NEAR_A_UNIT,
)
@settings(deadline=None)
def test_shown_amount_is_read_back_unchanged_so_no_two_look_alike(resource: str, largest: str, amount: int) -> None:
    text = format_quantity(resource, amount, largest_unit=largest)
    assert parse_quantity(resource, text) == amount
    assert format_quantity(resource, -amount, largest_unit=largest) == (f"-{text}" if amount else "0")


def test_exit_codes_are_ranges_in_the_order_written() -> None:
    assert parse_exit_codes("42") == ((42, 42),)
    assert parse_exit_codes("9, 1-3,137") == ((9, 9), (1, 3), (137, 137))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a list of exit codes. Use for example 1,3-5,137."),
        ("1,,2", "'1,,2' is not a list of exit codes. Use for example 1,3-5,137."),
        ("-1", "'-1' is not a list of exit codes. Use for example 1,3-5,137."),
        ("5-2", "the range 5-2 is reversed. Use 2-5"),
        ("4001", "invalid exit code 4001: the maximum is 4000"),
    ],
)
def test_invalid_exit_codes_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_exit_codes(text)
