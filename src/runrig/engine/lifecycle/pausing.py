"""Pools that start nothing new for a while (rule S8).

Their waiting gangs are not in the ledger, as with workflows on hold (`holds`): they cost a cycle nothing, and reserve, preempt
and block nothing, so other pools can borrow the quota.
"""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from itertools import islice

from runrig.domain.budgets import Owner, Scope
from runrig.domain.errors import At, Conflict, InvalidInput
from runrig.domain.plan import Action, Plan, PutPool, Queue, Unqueue
from runrig.domain.pools import Pool, PoolState, family, paused_through
from runrig.domain.value import at, utc
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import UNDER_WAY, Group, Status, Workflow
from runrig.engine.lifecycle import subpools
from runrig.engine.lifecycle.closing import check_reason
from runrig.engine.lifecycle.gangs import gang_of
from runrig.engine.state.state import State
from runrig.engine.state.upstream import ready_groups


def pause(state: State, name: str, *, user: str, now: float, reason: str = "", until: float | None = None) -> Plan:
    """Removes the waiting gangs of the pool and its subpools from the queue; running work continues. O(workflows).

    A pool that is paused stays paused, and only the end of its pause changes. *now*, *until*: in seconds since the epoch;
    *until* None: until a user resumes it. Raises NotFound, Conflict if it is ARCHIVED or is paused until then already,
    and InvalidInput for the reason and a time that has passed.
    """
    pool = _known(state, name)
    check_reason(reason)
    if until is not None and until <= now:
        raise InvalidInput.one(f"the pause would end at {utc(at(until))}, which has passed. Use a later time", "until")
    if pool.paused_by is not None and pool.paused_since is not None:
        if until == pool.paused_until:
            since, end = utc(at(pool.paused_since)), "" if until is None else f" until {utc(at(until))}"
            raise Conflict(
                f"pool {name} is paused already, by {pool.paused_by} since {since}{end}. Resume it with "
                f"`runrig pool resume {name}`"
            )
        again = replace(pool, paused_by=user, paused_reason=reason or pool.paused_reason, paused_until=until)
        return Plan((PutPool(again, pool),))
    marked = replace(pool, paused_by=user, paused_since=now, paused_reason=reason, paused_until=until)
    groups = (group for workflow in _workflows(state, name) for group in state.groups_of(workflow.id))
    waiting = (group.gang_id for group in groups if group.status is Status.SCHEDULING)
    return Plan((PutPool(marked, pool), *map(Unqueue, waiting)))


def resume(state: State, name: str) -> Plan:
    """Queues what waits in the pool and its subpools, with the original submit times (rule P4). O(workflows).

    Raises NotFound, and Conflict if it is ARCHIVED, not paused, or paused with its parent.
    """
    pool = _known(state, name)
    if pool.paused_by is None:
        parent = paused_through(state.pools, name)
        if parent is not None:
            raise Conflict(
                f"pool {name} is paused through its parent {parent.name}. Resume both with `runrig pool resume {parent.name}`"
            )
        raise Conflict(f"pool {name} is not paused")
    marked = replace(pool, paused_by=None, paused_since=None, paused_reason="", paused_until=None)
    pools = {**state.pools, name: marked}
    actions: list[Action] = [PutPool(marked, pool)]
    for workflow in _workflows(state, name):
        if workflow.held_by is None and not state.budgets.keep_back(pools, workflow):
            actions += queued(state, workflow)
    return Plan(tuple(actions))


def end_pauses(state: State, now: float, aside: Set[Scope] = frozenset()) -> Iterator[Action | None]:
    """Resumes the pools whose pause ends by *now*, earliest first, but those *aside*. O(pools that are paused for a time)."""
    due = sorted((end, name) for name, end in state.ledger.pause_ends.items() if end <= now)
    for _, name in due:
        if (owner := (Owner.POOL, name)) in aside:
            continue
        with At("", owner):
            actions = resume(state, name).actions
        yield from actions
        yield None


def touched(state: State, name: str) -> tuple[int, int]:
    """How many workflows of the pool and its subpools are PENDING, and how many RUNNING. O(workflows)."""
    found = Counter(each.status for each in _workflows(state, name))
    return found[WorkflowStatus.PENDING], found[WorkflowStatus.RUNNING]


def starts_nothing(state: State, workflow: Workflow) -> bool:
    """Whether groups of *workflow* stay outside the queue: it is on hold (rule W3), its pool is paused (rule S8), or a budget
    is reached (rule W7).
    """
    return workflow.held_by is not None or state.budgets.keep_back(state.pools, workflow)


def queued(state: State, workflow: Workflow, groups: Sequence[Group] | None = None) -> Iterator[Queue]:
    """Yields the actions that queue the groups of *workflow* that nothing keeps outside any more. Of an array, these are the
    waiting elements with the smallest indices, up to its limit (rule W4).

    *groups*: all of its groups as they will be; None: as they are. *workflow* may differ from the state's too.
    """
    if workflow.waits_for_others:
        return
    if groups is None:
        if not state.groups.number(workflow.id, Status.WAITING):
            return
        groups = state.groups_of(workflow.id)
    started = sum(group.status in UNDER_WAY for group in groups) if workflow.most is not None else 0
    for group in islice(
        ready_groups(state, groups), None if workflow.most is None else max(0, workflow.most - started)
    ):
        yield Queue(gang_of(workflow, state.group_spec((workflow.id, group.name)), group.attempt))


def _workflows(state: State, pool: str) -> list[Workflow]:
    """The workflows of *pool* and its subpools that have not ended, in the order of submission."""
    names = {each.name for each in family(state.pools, pool)}
    found = [each for each in state.workflows.values() if each.pool in names and not each.status.finished]
    return sorted(found, key=lambda each: (each.submit_time, each.id))


def _known(state: State, name: str) -> Pool:
    pool = subpools.existing(state.pools, name)
    if pool.state is PoolState.ARCHIVED:
        raise Conflict(f"pool {name} is ARCHIVED, so it cannot be paused or resumed")
    return pool
