"""How a workflow spends its time, updated by actions that change what it does (`domain.times`)."""

from collections.abc import Collection

from runrig.domain.plan import Abandon, Admit, EndHold, Hold, MoveGroup, MoveWorkflow, Queue, SetAside, Submit, Unqueue
from runrig.domain.replacing import replace
from runrig.domain.times import Moment, Times, as_far_as_known, moment_of
from runrig.domain.workflows import ExitCode, Status, Workflow

LOST = (ExitCode.BACKEND_ERROR, ExitCode.EVICTED, ExitCode.PREEMPTED)
"""Exit codes of attempts that did not end by themselves."""

MOVES = Submit | MoveGroup | MoveWorkflow | Hold | EndHold | SetAside | Abandon | Queue | Admit | Unqueue
"""Actions that may change the class of time of a workflow."""


def times_of(workflow: Workflow) -> Times:
    """Its times, computed for workflows of older releases."""
    kept = workflow.times
    return kept or as_far_as_known(workflow.submit_time, workflow.start_time, workflow.end_time, workflow.status)


def submitted(workflow: Workflow, *, paused: bool) -> Workflow:
    return replace(workflow, times=Times(workflow.submit_time, Moment.HELD if paused else Moment.BLOCKED))


def timed(workflow: Workflow, groups: Collection[Status], at: float, *, paused: bool) -> Workflow:
    """*workflow* with updated times; itself if its class does not change at *at*. *groups*: the statuses that its groups have.
    *paused*: its pool is (rule S8).
    """
    held, statuses = paused or workflow.held_by is not None, {status.value for status in groups}
    before = times_of(workflow)
    after = before.moved(at, None if workflow.status.finished else moment_of(statuses, held=held))
    return workflow if after is before and workflow.times is not None else replace(workflow, times=after)


def lost(workflow: Workflow, began: float | None, at: float) -> Workflow:
    """Marks an attempt that *began* then as lost at *at*; None: it was not on nodes."""
    return workflow if began is None else replace(workflow, times=times_of(workflow).losing(began, at))
