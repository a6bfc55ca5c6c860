"""What is measured of declarations is what they do to a busy ledger."""

import pytest

from bench import edits

pytestmark = pytest.mark.slow


def test_declarations_are_applied_and_removed_again() -> None:
    found = list(edits.measured(1, gangs=100, sizes=(100,)))
    assert [each.what for each in found] == [
        "a pool's quota",
        "a pool's cohort",
        "a new pool",
        "a cohort's numbers",
        "a cohort's first limits",
        "a cohort's first quota",
        "one node",
        "50 nodes",
        "the next place, after one",
        "the next place, after 50",
    ]
    assert all(each.times.least > 0 for each in found)
