"""What is measured of asking ahead is what it says, and the answers are those that the next cycle gives."""

import pytest

from bench import foresight

pytestmark = pytest.mark.slow


def test_each_query_is_run_and_its_suggestions_are_applied() -> None:
    found = list(foresight.measured(1, nodes=125, many=300))
    assert [each.what for each in found] == [
        "why: headline, position, all blockers",
        "why, and the owner's dials",
        "all twelve dials",
        "a trial of a cohort's quota",
        "a trial of a cohort's borrowing limit",
        "a trial of its pool's quota",
        "a trial of a node that is back",
        "the owner's dials, 1,000 submitted since the last cycle",
        "a plan of one pool, the longer branch",
        "a dry run of a submission",
    ]
    assert all(min(each.seconds) > 0 for each in found)
    assert [each.what for each in found if not each.checked] == [found[0].what, found[-3].what]


def test_slow_fork_is_cut_off_and_a_failing_one_is_reported() -> None:
    def forever() -> None:
        while True:
            """On and on."""

    assert foresight.in_fork(forever, 0) is None
    answer = foresight.in_fork(lambda: 7)
    assert answer is not None
    assert answer[1] == 7
    with pytest.raises(RuntimeError):
        foresight.in_fork(lambda: 1 // 0)
