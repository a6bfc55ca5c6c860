"""`replace` against the one of the standard library, for every record that the engine makes anew."""

import dataclasses

import pytest

from runrig.domain.gangs import Priority
from runrig.domain.limits import Limits
from runrig.domain.replacing import replace
from runrig.domain.times import Moment, Times
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Group, Status, Task, Workflow, WorkflowSpec

WORKFLOW = Workflow("w-1", "u", "w", 1, "team", Priority.LOW, "ann", 1.5, "h")


@pytest.mark.parametrize(
    ("record", "changes"),
    [
        (WORKFLOW, {"status": WorkflowStatus.RUNNING, "start_time": 2.5, "labels": {"a": "b"}}),
        (WORKFLOW, {}),
        (Group("w-1", "g"), {"stopping": Status.FAILED_PREEMPTED, "preemptions": 1}),
        (Task("w-1", "t", 0, "g", "t", 0, True), {"gpus": (1, 2), "restarting": True}),
        (Times(1.5, Moment.WAITED), {"since": 2.5, "now": None}),
        (WorkflowSpec("w"), {"name": "other"}),
    ],
)
def test_it_returns_what_the_standard_library_does(record: object, changes: dict[str, object]) -> None:
    before = repr(record)
    assert replace(record, **changes) == dataclasses.replace(record, **changes)  # type: ignore[type-var]
    assert repr(record) == before


def test_records_that_it_cannot_make_are_named() -> None:
    with pytest.raises(AssertionError, match="Limits takes its values by name"):
        replace(Limits(user="ann"), user="bob")
    with pytest.raises(KeyError, match="colour"):
        replace(Group("w-1", "g"), colour="red")  # type: ignore[call-arg]
