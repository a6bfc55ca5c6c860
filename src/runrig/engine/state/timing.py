"""Where the time of a workflow goes: moved on by the actions that change what it does (`domain.times`)."""

from collections.abc import Iterable
from dataclasses import replace

from runrig.domain.plan import (
    Abandon,
    Action,
    Admit,
    EndHold,
    Hold,
    MoveGroup,
    MoveWorkflow,
    Queue,
    SetAside,
    Submit,
    Unqueue,
)
from runrig.domain.times import Moment, Times, as_far_as_known, moment_of
from runrig.domain.workflows import ExitCode, Group, Task, Workflow

LOST = (ExitCode.BACKEND_ERROR, ExitCode.EVICTED, ExitCode.PREEMPTED)
"""Codes of attempts that did not end by their own program."""


def times_of(workflow: Workflow) -> Times:
    """Its times, also of a workflow of an older release."""
    kept = workflow.times
    return kept or as_far_as_known(workflow.submit_time, workflow.start_time, workflow.end_time, workflow.status)


def timed_by(action: Action) -> str | None:
    """The workflow whose class of time *action* may change; None if it changes none."""
    match action:
        case Submit(workflow):
            return workflow.id
        case MoveGroup(workflow) | MoveWorkflow(workflow) | Hold(workflow) | EndHold(workflow):
            return workflow
        case SetAside(workflow) | Abandon(workflow):
            return workflow
        case Queue(gang):
            return gang.id.partition("/")[0]
        case Admit(gang) | Unqueue(gang):
            return gang.partition("/")[0]
    return None


def submitted(workflow: Workflow) -> Workflow:
    return replace(workflow, times=Times(workflow.submit_time, Moment.BLOCKED))


def timed(workflow: Workflow, groups: Iterable[Group], at: float) -> Workflow:
    """*workflow* itself if it does the same from *at* on as before."""
    held, statuses = workflow.held_by is not None, {group.status.value for group in groups}
    before = times_of(workflow)
    after = before.moved(at, None if workflow.status.finished else moment_of(statuses, held=held))
    return workflow if after is before and workflow.times is not None else replace(workflow, times=after)


def lost(workflow: Workflow, admitted_at: float | None, before: Task | None, at: float) -> Workflow:
    """An attempt of it, which began when its gang was admitted or the attempt *before* it ended, was lost at *at*."""
    if admitted_at is None:
        return workflow
    begin = max(admitted_at, (before and before.end_time) or 0.0)
    return replace(workflow, times=times_of(workflow).losing(begin, at))
