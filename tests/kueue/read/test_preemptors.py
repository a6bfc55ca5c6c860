"""A workload that waits for its targets has a condition in its status."""

import pytest

from tests.worlds.manifests import home, only, read, workload

SECOND = 1767225607.0
WAITS = {"type": "QuotaReserved", "status": "False", "reason": "WaitingForPreemptedWorkloads"}
AT = {"lastTransitionTime": "2026-01-01T00:00:07Z"}


@pytest.mark.parametrize(
    ("conditions", "since"),
    [
        ([WAITS | AT], SECOND),
        ([WAITS], 0.0),
        ([WAITS | AT | {"status": "True"}], None),
        ([WAITS | AT | {"reason": "WaitingForQuota"}], None),
        ([WAITS | AT | {"type": "Admitted"}], None),
        ([], None),
    ],
)
def test_the_wait_of_a_preemptor_starts_with_its_condition(
    conditions: list[dict[str, str]], since: float | None
) -> None:
    assert only(read(*home(), workload(status={"conditions": conditions}))).preempting_since == since
