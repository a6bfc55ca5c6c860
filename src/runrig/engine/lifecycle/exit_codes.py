"""The meaning of an exit code for a task: by its own rules, then its pool's (rule W1; exit codes as in osmo)."""

from collections.abc import Iterable, Iterator

from runrig.domain.quantities import counted
from runrig.domain.workflows import ExitAction, ExitCode, ExitRule, GroupKey, Status, Task
from runrig.engine.state.state import State

MOST_PREEMPTIONS = 100
"""How often a gang may be preempted and queued again, counted separately (rule R6)."""

MOST_MOVES = 100
"""How often a pod may restart because its node was lost, counted separately from its retries."""


def exit_action(state: State, task: Task, code: int) -> ExitAction:
    """The action for *code* by the task's own rules, then its pool's; by default, 0 completes and everything else fails."""
    rule = _rule(state, task, code)
    if rule is not None:
        return rule.action
    return ExitAction.COMPLETE if code == 0 else ExitAction.FAIL


def _rule(state: State, task: Task, code: int) -> ExitRule | None:
    spec = state.task_spec(task)
    return _matching(spec.exit_rules, code) or _matching(_pool_rules(state, task.workflow), code)


def requeued_if_evicted(state: State, task: Task, code: int) -> bool:
    """Whether the rules leave it to runrig what follows an eviction: the whole gang is requeued (rule T7)."""
    if task.restarting:
        return False
    rule = _rule(state, task, code)
    return rule is None or (rule.action is ExitAction.RESCHEDULE and limit_reached(state, task, code) is not None)


def starts_again(state: State, task: Task, code: int) -> bool:
    """Whether a task that ends with *code* restarts: because its siblings do, or by its rules, within its limit."""
    if task.restarting:
        return True
    return exit_action(state, task, code) is ExitAction.RESCHEDULE and limit_reached(state, task, code) is None


def concerns_all(state: State, task: Task) -> bool:
    """Whether the end of this task decides about the whole group."""
    return task.lead or not state.group_spec((task.workflow, task.group)).ignore_nonlead_status


def limit_reached(state: State, task: Task, code: int) -> str | None:
    """Why a task that ends with *code* cannot restart again, in words; None if it can.

    Restarts after a lost node do not use up the retries of the task.
    """
    lost = code == ExitCode.BACKEND_ERROR
    most = MOST_MOVES if lost else state.task_spec(task).retries
    alike = [
        each
        for each in state.attempts(task.workflow, task.name)
        if each.status is Status.RESCHEDULED
        and not each.restarting
        and (each.exit_code == ExitCode.BACKEND_ERROR) is lost
    ]
    if len(alike) < most:
        return None
    return f"{most} of its nodes were lost" if lost else f"the limit of {counted(most, 'retry', 'retries')} is reached"


def after_preemption(state: State, key: GroupKey) -> ExitAction:
    """The status of a preempted group: it is requeued (rule R6) unless a rule for 3006 or the limit prevents that."""
    if state.groups[key].preemptions > MOST_PREEMPTIONS:
        return ExitAction.FAIL
    specs = sorted(state.group_spec(key).tasks, key=lambda each: not each.lead)
    rules = [rule for spec in specs for rule in spec.exit_rules] + list(_pool_rules(state, key[0]))
    rule = _matching(rules, ExitCode.PREEMPTED)
    return ExitAction.RESCHEDULE if rule is None else rule.action


def _matching(rules: Iterable[ExitRule], code: int) -> ExitRule | None:
    return next((rule for rule in rules if rule.first <= code <= rule.last), None)


def _pool_rules(state: State, workflow: str) -> Iterator[ExitRule]:
    pool = state.pools[state.workflows[workflow].pool]
    return (ExitRule(ExitAction(action), first, last) for action, first, last in pool.default_exit_actions)
