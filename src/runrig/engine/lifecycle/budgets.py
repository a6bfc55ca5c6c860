"""Budgets that are reached keep work out of the queue until the month ends (rule W7).

As in a paused pool (`pausing`), the gangs are not in the ledger: they cost a cycle nothing, and reserve, preempt and block nothing.
"""

from collections.abc import Iterator, Set
from dataclasses import replace

from runrig.domain.budgets import (
    HOUR,
    HeldBefore,
    Owner,
    Scope,
    Spent,
    hours,
    left_in_hours,
    month_of,
    next_month,
    preview_in_words,
)
from runrig.domain.errors import At
from runrig.domain.plan import Action, SetSpent, Unqueue
from runrig.domain.pools import BudgetReached, paused_through, top_level
from runrig.domain.shown.limits import BudgetPreview
from runrig.domain.usage import microseconds
from runrig.domain.value import at
from runrig.domain.workflows import Status, Workflow
from runrig.engine.lifecycle.pausing import queued, starts_nothing
from runrig.engine.state.budgets import Budget, gpus_held, scopes_of
from runrig.engine.state.state import State


def follow_budgets(
    state: State, now: float, held: HeldBefore | None, aside: Set[Scope] = frozenset()
) -> Iterator[Action | None]:
    """Begins to count new budgets, and starts or stops work where a budget is reached, changed or renewed. O(budgets): a
    comparison of each, and the workflows where something begins or ends.

    *held*: what was held before; None: new budgets wait for a later cycle. *aside*: those that stay as they are.
    """
    budgets = state.budgets
    due = {scope for scope, at in budgets.due.items() if at <= now}
    for scope in sorted((due if held is None else due | budgets.uncounted) - aside):
        with At("", scope):
            before, action = budgets.spent.get(scope), _said(state, scope, now, held)
            if action is None:
                budgets.look_again(scope, now)
        if action is None:
            continue
        yield action
        yield None
        if action.spent.stops is not (before and before.stops):
            yield from _move(state, scope)


def preview(state: State, scope: Scope, budget: Budget, now: float, held: HeldBefore | None) -> BudgetPreview:
    """The effect that *budget* would have now. *held*: what was held before, for a budget that is not counted yet. O(workflows)."""
    most, reached = budget
    known = state.budgets.moved(scope, now).held if scope in state.budgets.spent else None
    amount = _until(state, scope, now, held) if known is None and held is not None else known
    stops = reached if amount is not None and amount >= most * HOUR else None
    found = _workflows(state, scope)
    waits = [each.id for each in found if _would_wait(state, each, stops)]
    held_now = (each for each in state.ledger.entries.values() if each.held and scope in scopes_of(each))
    running, renews = len({each.gang.workflow for each in held_now}), next_month(month_of(now))
    used, left = (None, None) if amount is None else (hours(amount), left_in_hours(most, amount))
    sentence = preview_in_words(most, amount, renews, stops, waits, running)
    return BudgetPreview(most, used, left, at(renews), stops, tuple(waits), running, sentence)


def _would_wait(state: State, workflow: Workflow, stops: BudgetReached | None) -> bool:
    """Whether *stops* would make groups of *workflow* wait that are in the queue, or that only a budget excludes from it."""
    if stops is None or (stops is BudgetReached.BORROW and workflow.priority.preemptible):
        return False
    if workflow.held_by is not None or paused_through(state.pools, workflow.pool) is not None:
        return False
    return state.groups.number(workflow.id, Status.SCHEDULING) > 0 or any(queued(state, workflow))


def _said(state: State, scope: Scope, now: float, held: HeldBefore | None) -> SetSpent | None:
    """The action that records a change of a budget; None: nothing has changed."""
    budgets, month = state.budgets, month_of(now)
    known, declared = budgets.spent.get(scope), budgets.declared.get(scope)
    if known is not None:
        spent = budgets.moved(scope, now)
    else:
        assert held is not None, f"{scope} is not counted yet"
        spent = Spent(*scope, month, _until(state, scope, now, held), now)
    if declared is None:
        return SetSpent(replace(spent, month=month, stops=None), None)
    after = replace(spent, month=month, stops=declared[1] if spent.held >= declared[0] * HOUR else None)
    if known is not None and (known.month, known.stops) == (after.month, after.stops):
        return None
    return SetSpent(after, declared[0])


def _until(state: State, scope: Scope, now: float, held: HeldBefore) -> int:
    """What is held in this month until *now*: what usage knows, and what has been held since then. O(gangs)."""
    month = month_of(now)
    amount = held.amounts.get(scope, 0) if held.until >= month else 0
    for entry in state.ledger.entries.values():
        if entry.admitted_at is not None and scope in scopes_of(entry):
            since = max(entry.admitted_at, held.until, month)
            amount += gpus_held(entry) * max(0, microseconds(now) - microseconds(since))
    return amount


def _move(state: State, scope: Scope) -> Iterator[Action | None]:
    """Queues what may start now, and takes what may not out of the queue. O(workflows)."""
    for workflow in _workflows(state, scope):
        if starts_nothing(state, workflow):
            groups = state.groups_of(workflow.id)
            yield from [Unqueue(group.gang_id) for group in groups if group.status is Status.SCHEDULING]
        else:
            yield from list(queued(state, workflow))
        yield None


def _workflows(state: State, scope: Scope) -> list[Workflow]:
    """The unfinished workflows of *scope*, in the order of submission."""
    of, name = scope
    there = (each for each in state.workflows.values() if not each.status.finished)
    found = (each for each in there if name == (top_level(each.pool) if of == Owner.POOL else each.submitted_by))
    return sorted(found, key=lambda each: (each.submit_time, each.id))
