"""The last line of `runrig status`."""

import pytest

from runrig.cli.rendering.nearest_limit import left_s, nearest_limit
from tests.cli.canned_server import entry, pool

START = "2026-01-31T12:00:00"


def running(id: str, *, ran: float, limit: float | None) -> dict[str, object]:
    """Submitted at 12:00:00, it waited 10 s and has been running for *ran* seconds."""
    moment = None if limit is None else f"2026-01-31T12:{int((limit + 10) // 60):02}:{int((limit + 10) % 60):02}Z"
    found = entry(id, submit_time=START, ends_by=moment)
    return found | {"times": found["times"] | {"running_s": ran, "waited_s": 10.0, "total_s": ran + 10}}


QUARTER = pool("vision", used=6, available=2)
SHARED = pool("a", quota=4, used=4, available=0, drawn=2, shared_left=2)


@pytest.mark.parametrize(
    ("pools", "work", "found"),
    [
        ([], [], None),
        ([pool("none", quota=0, available=0)], [running("t-1", ran=60, limit=None)], None),
        ([QUARTER], [], "pool vision has 2 of 8 GPUs of quota left"),
        ([pool("over", quota=1, used=3, available=-2)], [], "pool over has 0 of 1 GPU of quota left"),
        ([QUARTER, SHARED], [], "pool a has 2 of 8 GPUs of quota left"),
        ([SHARED], [], "pool a has 2 of 8 GPUs of quota left"),
        ([QUARTER], [running("t-1", ran=60, limit=600)], "pool vision has 2 of 8 GPUs of quota left"),
        ([QUARTER], [running("t-1", ran=480, limit=600)], "t-1 reaches its run time limit in 2m00s"),
        (
            [],
            [running("t-1", ran=60, limit=600), running("t-2", ran=60, limit=90)],
            "t-2 reaches its run time limit in 30s",
        ),
        ([QUARTER], [running("late-1", ran=700, limit=600)], "late-1 reaches its run time limit in 0.0s"),
    ],
)
def test_nearest_limit_is_the_one_with_the_smallest_share_left(
    pools: list[dict[str, object]], work: list[dict[str, object]], found: str | None
) -> None:
    assert nearest_limit(pools, work) == found


def test_time_left_is_by_the_clock_of_the_server() -> None:
    assert [left_s(running("t-1", ran=60, limit=limit)) for limit in (90, 30, None)] == [30.0, 0.0, None]
