"""How the status of workflows changes: by what the backend reports, by time, and by their owner (rule W1; statuses as in osmo).

Generators of actions. The caller applies each action before requesting the next, so that every rule sees the current state.
`digest` and `time_out` yield None where everything so far is complete, so that a cycle may be split there (`engine.cycle`).
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from heapq import heappop
from itertools import repeat

from runrig.domain.budgets import Owner, Scope
from runrig.domain.errors import At
from runrig.domain.gangs import GangState
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.plan import (
    Action,
    MoveGroup,
    MoveTask,
    MoveWorkflow,
    Plan,
    Queue,
    Refuse,
    Release,
    RestartTask,
    RetryTask,
    TryAgain,
    Unqueue,
)
from runrig.domain.spans import format_duration
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import (
    UNDER_WAY,
    ExitAction,
    ExitCode,
    Group,
    GroupKey,
    Status,
    Task,
    TaskKey,
    WorkflowSpec,
)
from runrig.engine.explain.cause import after
from runrig.engine.lifecycle.exit_codes import (
    after_preemption,
    concerns_all,
    exit_action,
    limit_reached,
    requeued_if_evicted,
    starts_again,
)
from runrig.engine.lifecycle.finished_groups import go_on, holds_nodes, stop_groups, stop_or_end, stop_pods
from runrig.engine.lifecycle.gangs import gang_of
from runrig.engine.lifecycle.living import living
from runrig.engine.lifecycle.lost_nodes import Lost, fact_of, find_new_nodes, in_turn, lost_in, never_begun, unsettled
from runrig.engine.lifecycle.outcomes import BY_OTHERS, FOR_OTHERS, first_failure, group_status, stop_was_late
from runrig.engine.lifecycle.pausing import starts_nothing
from runrig.engine.lifecycle.setting_aside import abandon
from runrig.engine.state.deadlines import RETRY, deadlines_of
from runrig.engine.state.rejections import place_is_free
from runrig.engine.state.state import State

_OWN_FAILURES = {
    ExitCode.BACKEND_ERROR: Status.FAILED_BACKEND_ERROR,
    ExitCode.START_ERROR: Status.FAILED_START_ERROR,
    ExitCode.EVICTED: Status.FAILED_EVICTED,
    ExitCode.START_TIMEOUT: Status.FAILED_START_TIMEOUT,
    ExitCode.IMAGE_PULL: Status.FAILED_IMAGE_PULL,
    ExitCode.IMAGE_PULL_BACK_OFF: Status.FAILED_IMAGE_PULL,
    ExitCode.SERVER_ERROR: Status.FAILED_SERVER_ERROR,
}

_QUEUED_AGAIN = {Status.FAILED_BACKEND_ERROR: ExitCode.BACKEND_ERROR, Status.FAILED_EVICTED: ExitCode.EVICTED}
"""Causes of stopping after which a group is always queued again: its nodes were lost (rule T1) or drained (rule N2)."""

_SILENT = "no reason given"

LOOKS_PER_STEP = 10
"""Checking an attempt takes a tenth of the time that changing it does."""

PODS_PER_STEP = 8
"""Releasing a pod takes an eighth of that. Counted before the last pod changes, so that a large gang is released in a part of its own."""


# ---------------------------------------------------------------- what the backend saw


def digest(state: State, observed: Observation) -> Iterator[Action | None]:
    """Yields the changes since the last cycle: tasks that started or ended, in the order of their keys."""
    turn, lost, refused = _looked_at(state, observed)
    yield from repeat(None, len(turn) // LOOKS_PER_STEP)
    yield from _refused(state, {**refused, **observed.refused})
    for key in turn:
        if key not in state.active:
            continue
        with At(key.workflow):
            task = state.tasks.records[key]
            fact = lost.get(key) or fact_of(key, task, observed)
            if fact is None or fact.phase is Phase.STARTING:
                continue
            if task.status is Status.INITIALIZING and (fact.phase is Phase.RUNNING or _ran(fact)):
                yield from _started(state, task, by_itself=fact.by_itself)
            if fact.phase is Phase.ENDED:
                if state.on_nodes((task.workflow, task.group)) == 1:
                    placement = state.ledger.entries[f"{task.workflow}/{task.group}"].placement
                    yield from repeat(None, sum(each.count for each in placement) // PODS_PER_STEP)
                yield from _ended(state, task, fact, lost)
        yield None


_Look = tuple[list[TaskKey], Lost, Mapping[str, str]]
"""The attempts that may require changes, in order; those of them that are lost; gangs that lost a node before anything ran, and why."""


def _looked_at(state: State, observed: Observation) -> _Look:
    """Examines all attempts together; if that fails, one after the other, to find the workflow that causes the error."""
    try:
        return _look(state, observed, unsettled(state, observed))
    except Exception:
        for key in sorted(state.active):
            with At(key.workflow):
                _look(state, observed, unsettled(state, observed, {key}))
        raise


def _look(state: State, observed: Observation, attempts: list[TaskKey]) -> _Look:
    lost = lost_in(state, observed, attempts)
    return in_turn(state, attempts, lost), lost, never_begun(state, observed, lost)


def _refused(state: State, refused: Mapping[str, str]) -> Iterator[Action | None]:
    for gang, said in sorted(refused.items()):
        entry = state.ledger.entries.get(gang)
        if entry is not None and entry.state is GangState.ADMITTED and entry.gang.workflow not in state.aside:
            yield Refuse(gang, said or _SILENT, Status.FAILED_BACKEND_ERROR)
            yield None


def _ran(fact: TaskFact) -> bool:
    return fact.phase is Phase.ENDED and fact.exit_code is not None and fact.exit_code < 256


def _started(state: State, task: Task, *, by_itself: bool) -> Iterator[Action]:
    group = state.groups[task.workflow, task.group]
    if group.stopping is not None and not by_itself:
        return
    yield MoveTask(task.key, Status.RUNNING)
    if group.status is Status.INITIALIZING:
        yield MoveGroup(task.workflow, task.group, Status.RUNNING, stopping=group.stopping)
    if state.workflows[task.workflow].status is not WorkflowStatus.RUNNING:
        yield MoveWorkflow(task.workflow, WorkflowStatus.RUNNING)


def _ended(state: State, task: Task, fact: TaskFact, lost: Lost) -> Iterator[Action]:
    key = (task.workflow, task.group)
    code = ExitCode.UNKNOWN if fact.exit_code is None else fact.exit_code
    group = state.groups[key]
    if group.stopping is None and (cause := _thrown_out(state, task, fact, code)):
        yield Refuse(group.gang_id, fact.message or _SILENT, cause)
        group = state.groups[key]
    if group.stopping in BY_OTHERS and fact.by_itself and not starts_again(state, task, code):
        yield from _end_before_stop(state, task, code, fact.message)
    elif group.stopping is Status.FAILED_PREEMPTED:
        by = state.ledger.entries[group.gang_id].preempted_by
        message = f"preempted by {by}" if by else group.failure_message
        yield MoveTask(task.key, Status.FAILED_PREEMPTED, ExitCode.PREEMPTED, message)
    elif group.stopping in _QUEUED_AGAIN:
        yield MoveTask(task.key, group.stopping, _QUEUED_AGAIN[group.stopping], group.failure_message)
    elif group.stopping is not None:
        yield MoveTask(task.key, group.stopping, code, group.failure_message)
    elif not starts_again(state, task, code):
        yield from _end(state, task, code, fact.message)
    elif (yield from find_new_nodes(state, task, lost)):
        yield from _start_again(state, task, code, fact.message)
    elif fact.evicted or group.attempt == group.preemptions + group.refusals + group.drains:
        yield from _leave(state, task, fact.message)
    else:
        code = ExitCode.BACKEND_ERROR if task.restarting else code
        yield from _end(state, task, code, f"{_no_place(fact.message)}, and its group had already been requeued once")
    if not state.on_nodes(key):
        yield from _finish_group(state, key)


def _thrown_out(state: State, task: Task, fact: TaskFact, code: int) -> Status | None:
    """The status that its gang gets if the cluster evicted *task*; None if it did not, or if an exit action decides."""
    if code == ExitCode.PREEMPTED:
        return Status.FAILED_PREEMPTED
    return Status.FAILED_EVICTED if fact.evicted and requeued_if_evicted(state, task, code) else None


def _start_again(state: State, task: Task, code: int, message: str) -> Iterator[Action]:
    if task.restarting:
        message = "restarted with its group"
    yield MoveTask(task.key, Status.RESCHEDULED, code, message or f"exit code {code}: restarted")
    yield RetryTask(task.key)
    if not task.restarting and concerns_all(state, task):
        yield from (RestartTask(each.key) for each in _live_siblings(state, task))


def _end_before_stop(state: State, task: Task, code: int, message: str) -> Iterator[Action]:
    """Keeps the end of *task*, which ended before the stop of its group. If a lead has completed, so has the group (rule R6)."""
    failed = exit_action(state, task, code) is not ExitAction.COMPLETE
    yield _own_end(task, code, message, failed=failed)
    key = (task.workflow, task.group)
    if not failed and task.lead and state.groups[key].stopping in FOR_OTHERS and _live_siblings(state, task):
        yield from _stop_group(state, key, failed=False, by=task)


def _own_end(task: Task, code: int, message: str, *, failed: bool) -> MoveTask:
    if not failed:
        return MoveTask(task.key, Status.COMPLETED, code, message)
    return MoveTask(task.key, _OWN_FAILURES.get(code, Status.FAILED), code, message or f"exit code {code}")


def _end(state: State, task: Task, code: int, message: str) -> Iterator[Action]:
    action = exit_action(state, task, code)
    if action is ExitAction.RESCHEDULE and (limit := limit_reached(state, task, code)):
        message = f"{message} exit code {code}: not restarted, because {limit}".strip()
    failed = action is not ExitAction.COMPLETE
    yield _own_end(task, code, message, failed=failed)
    if (task.lead or (failed and concerns_all(state, task))) and _live_siblings(state, task):
        yield from _stop_group(state, (task.workflow, task.group), failed=failed, by=task)


def _stop_group(state: State, key: GroupKey, *, failed: bool, by: Task) -> Iterator[Action]:
    who = "the lead task" if by.lead else "task"
    return stop_pods(state.groups[key], Status.FAILED if failed else Status.COMPLETED, after(f"{who} {by.name}"))


def _live_siblings(state: State, task: Task) -> list[Task]:
    mates = state.current_tasks((task.workflow, task.group))
    return [each for each in mates if each.name != task.name and not each.status.finished]


# ---------------------------------------------------------------- lost nodes


def _leave(state: State, task: Task, cause: str) -> Iterator[Action]:
    """Stops the whole gang, to be queued again, because its lost pods do not fit next to the remaining ones."""
    message = _no_place(cause)
    yield MoveTask(task.key, Status.FAILED_BACKEND_ERROR, ExitCode.BACKEND_ERROR, message)
    yield from stop_pods(state.groups[task.workflow, task.group], Status.FAILED_BACKEND_ERROR, message)


def _no_place(cause: str) -> str:
    return f"{cause or 'lost with its node'}; no other node has room for it"


# ---------------------------------------------------------------- groups and workflows from their parts


def _finish_group(state: State, key: GroupKey) -> Iterator[Action]:
    group, refused = state.groups[key], _still_refused(state, key)
    yield Release(group.gang_id)
    if stop_was_late(state, key):
        status = group_status(state, key)
    elif group.stopping is Status.FAILED_PREEMPTED:
        after = after_preemption(state, key)
        if after is ExitAction.RESCHEDULE:
            yield from _queue_again(state, group, group.stopping, refused)
            return
        status = Status.COMPLETED if after is ExitAction.COMPLETE else Status.FAILED_PREEMPTED
    elif group.stopping in _QUEUED_AGAIN:
        yield from _queue_again(state, group, group.stopping, refused)
        return
    elif group.stopping in (None, Status.COMPLETED, Status.FAILED):
        status = group_status(state, key)
    else:
        status = group.stopping
    yield MoveGroup(*key, status, message="" if status is Status.COMPLETED else first_failure(state, key))
    yield from go_on(state, key)


def _still_refused(state: State, key: GroupKey) -> str:
    """Why its gang is not retried immediately; "" if, by runrig's own count, its nodes have changed since (rule T7)."""
    entry = state.ledger.entries[state.groups[key].gang_id]
    return entry.gang.refused if entry.gang.refused and place_is_free(state.ledger, entry) else ""


def _queue_again(state: State, group: Group, status: Status, refused: str) -> Iterator[Action]:
    key = (group.workflow, group.name)
    yield MoveGroup(*key, status, message=first_failure(state, key))
    gang = gang_of(state.workflows[group.workflow], state.group_spec(key), group.attempt + 1)
    yield Queue(replace(gang, refused=refused))
    workflow = state.workflows[group.workflow]
    too_many = workflow.most is not None and state.groups.number(workflow.id, *UNDER_WAY) > workflow.most
    if too_many or starts_nothing(state, workflow):
        yield Unqueue(gang.id)
    if not state.groups.number(group.workflow, Status.RUNNING):
        yield MoveWorkflow(group.workflow, WorkflowStatus.PENDING, message=f"{first_failure(state, key)}, queued again")


# ---------------------------------------------------------------- time and the owner


def time_out(state: State, now: float) -> Iterator[Action | None]:
    """Ends groups whose time in the queue or on nodes is up, and retries gangs that were refused long enough ago."""
    while state.deadlines and state.deadlines[0].at <= now:
        deadline = heappop(state.deadlines)
        with At(deadline.workflow):
            group = state.groups.get((deadline.workflow, deadline.group))
            if group is None or deadline not in deadlines_of(state.spec_of(group.workflow), group):
                continue
            if group.workflow in state.aside:
                continue
            if deadline.cause == RETRY:
                if state.ledger.entries[group.gang_id].gang.refused:
                    yield TryAgain(group.gang_id)
            else:
                cause = Status(deadline.cause)
                yield from stop_or_end(state, group, cause, _too_long(state.spec_of(group.workflow), cause))
                if state.groups[group.workflow, group.name].status.finished:
                    yield from go_on(state, (group.workflow, group.name))
        yield None


def _too_long(spec: WorkflowSpec, cause: Status) -> str:
    if cause is Status.FAILED_QUEUE_TIMEOUT:
        return f"waited longer than its time limit of {format_duration(spec.queue_timeout_s or 0.0)} (queue_timeout)"
    return f"ran longer than its time limit of {format_duration(spec.exec_timeout_s or 0.0)} (--time, or exec_timeout)"


def next_deadline(state: State, aside: Set[Scope] = frozenset()) -> float | None:
    """The earliest time at which a group may time out, a refused gang is retried, a pause ends, or a budget is reached or renews, but
    of those *aside*, or None.

    It may be too early, never too late. O(pools that are paused for a time, budgets).
    """
    groups = (each.at for each in state.deadlines[:1])
    ends = (at for name, at in state.ledger.pause_ends.items() if (Owner.POOL, name) not in aside)
    due = (at for scope, at in state.budgets.due.items() if scope not in aside)
    return min((*groups, *ends, *due), default=None)


def cancel(state: State, workflow_id: str, *, user: str, message: str = "") -> Plan:
    """Stops the workflow. Waiting groups end immediately, as does everything of a workflow that is set aside (rule W8).

    Raises NotFound, and Conflict if the workflow has finished.
    """
    message = f"cancelled by {user}" + (f": {message}" if message else "")
    workflow = living(state, workflow_id)
    if workflow.set_aside:
        return abandon(state, workflow_id, user=user, message=message)
    live = [group for group in state.groups_of(workflow_id) if not group.status.finished]
    on_nodes = any(holds_nodes(state, group) for group in live)
    status = workflow.status if on_nodes else WorkflowStatus.FAILED_CANCELED
    end = MoveWorkflow(workflow_id, status, message=message, cancelled_by=user)
    return Plan((*stop_groups(state, live, message), end))
