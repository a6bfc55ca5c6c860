"""Failed logins are limited; good tokens are not."""

import logging
import tracemalloc
from pathlib import Path

import pytest

from runrig.domain.errors import NotLoggedIn, TooMany
from runrig.service.access.logins import ALL_SOURCES, MOST_SOURCES, ONE_SOURCE, FailedLogins, network_of
from tests.service.access.people import ELSEWHERE, people
from tests.worlds.service import T0


def test_one_address_fails_ten_times_and_then_once_in_six_seconds() -> None:
    logins = FailedLogins()
    assert [logins.count("a", T0) for _ in range(ONE_SOURCE.at_once + 2)] == [None] * 10 + [6, 6]
    assert logins.count("b", T0) is None
    assert [logins.count("a", T0 + 5.9), logins.count("a", T0 + 6), logins.count("a", T0 + 6)] == [1, None, 6]
    assert [logins.count("a", T0 + 3600) for _ in range(11)] == [None] * 10 + [6]


def test_all_addresses_together_are_limited_too() -> None:
    logins = FailedLogins()
    answers = [logins.count(f"10.0.{at // 256}.{at % 256}", T0) for at in range(1000)]
    assert answers == [None] * ALL_SOURCES.at_once + [1] * (1000 - ALL_SOURCES.at_once)
    assert logins.count("192.0.2.1", T0 + 1) is None


def test_clock_that_is_set_back_does_not_change_the_login_limit() -> None:
    logins = FailedLogins()
    for _ in range(10):
        logins.count("a", T0)
    assert logins.count("a", T0 - 1000) == 6
    assert logins.count("a", T0 - 990) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
    ],
)
def test_ipv6_network_counts_as_one_source(one: str, other: str, same: bool) -> None:
    assert (network_of(one) == network_of(other)) is same


def test_ten_thousand_failures_are_answered_fast_and_need_little_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with people(str(tmp_path / "runrig.db")) as it, caplog.at_level(logging.WARNING):
        good = it.token("bob")
        refused = {NotLoggedIn: 0, TooMany: 0}
        for number in range(10_000):
            with pytest.raises((NotLoggedIn, TooMany)) as answer:
                it.access.authentication.authenticate(f"{number:043}", ELSEWHERE)
            refused[type(answer.value)] += 1
        assert refused == {NotLoggedIn: 10, TooMany: 9_990}
        assert answer.value.details == {"retry_after_s": 6}
        assert str(answer.value) == "too many failed logins. Try again in 6 s"
        assert it.ask(good).user == "bob"
        assert len(caplog.records) == 10


def test_any_number_of_addresses_takes_bounded_memory() -> None:
    logins = FailedLogins()
    tracemalloc.start()
    for number in range(MOST_SOURCES):
        logins.count(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", T0)
    full = tracemalloc.get_traced_memory()[0]
    for number in range(MOST_SOURCES):
        logins.count(f"11.{number >> 16}.{number >> 8 & 255}.{number & 255}", T0)
    later = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert full < 4_000_000
    assert later < 1.5 * full  # the same number arrived again


def test_request_without_a_token_is_not_a_failed_login(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with people(str(tmp_path / "runrig.db")) as it:
        for _ in range(100):
            with pytest.raises(NotLoggedIn):
                it.ask(None)
        assert caplog.records == []
