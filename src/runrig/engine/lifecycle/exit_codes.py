"""What an exit code means for a task: by its own rules, then its pool's (law W1; reference exit codes)."""

from collections.abc import Iterable, Iterator

from runrig.domain.workflows import ExitAction, ExitCode, ExitRule, GroupKey, Status, Task, TaskSpec
from runrig.engine.state.state import State

MOST_RETRIES = 10
"""How often exit actions may start one pod again (RESCHEDULE)."""

MOST_PREEMPTIONS = 100
"""How often a gang may be preempted and queued again: a budget of its own (law R6)."""


def exit_action(state: State, task: Task, code: int) -> ExitAction:
    """What the task's own rules, then its pool's, say of *code*; without a word, 0 completes and all else fails."""
    spec = _task_spec(state, task)
    rule = _matching(spec.exit_rules, code) or _matching(_pool_rules(state, task.workflow), code)
    if rule is not None:
        return rule.action
    return ExitAction.COMPLETE if code == 0 else ExitAction.FAIL


def starts_again(state: State, task: Task, code: int) -> bool:
    """A task that ends with *code* is to start again: for its siblings, or for its exit code, which is bounded."""
    if task.restarting:
        return True
    return exit_action(state, task, code) is ExitAction.RESCHEDULE and not retries_used_up(state, task)


def concerns_all(state: State, task: Task) -> bool:
    """How the task ends is how its whole group goes on."""
    return task.lead or not state.group_spec((task.workflow, task.group)).ignore_nonlead_status


def retries_used_up(state: State, task: Task) -> bool:
    """The pod was started again for its own exit codes as often as it may be."""
    former = state.attempts(task.workflow, task.name)
    return sum(each.status is Status.RESCHEDULED and not each.restarting for each in former) >= MOST_RETRIES


def after_preemption(state: State, key: GroupKey) -> ExitAction:
    """Queued again by default (law R6), unless the rules say otherwise of 3006 or the budget is used up."""
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


def _task_spec(state: State, task: Task) -> TaskSpec:
    group = state.group_spec((task.workflow, task.group))
    return next(each for each in group.tasks if each.name == task.spec)
