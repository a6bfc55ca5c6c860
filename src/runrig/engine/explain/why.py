"""Why a workflow is waiting: what the next cycle does with it, its position, and what blocks each choice of flavors.

Computed on demand from the live state, never stored.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from runrig.domain.blockers import Blocker, QuotaLeft, Tier, Verdict
from runrig.domain.budgets import Owner
from runrig.domain.gangs import IN_QUEUE, GangState, Priority
from runrig.domain.pools import paused_through, top_level
from runrig.domain.reasons import Code, Reason
from runrig.domain.shown.why import GroupWhy, reason_budget, reason_paused, reason_set_aside
from runrig.domain.steps import Steps, drained
from runrig.domain.workflows import UNDER_WAY, Group, Status, Workflow
from runrig.engine.explain.blockers import blockers, blockers_in_full, first_reasons
from runrig.engine.explain.quota_reasons import quota_left
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import flavor_choices
from runrig.engine.ledger.queue import Entry
from runrig.engine.placement.partial import least_counts
from runrig.engine.preemption.targets import Targets
from runrig.engine.scheduling.admission import look_at
from runrig.engine.scheduling.queue_order import ahead_of
from runrig.engine.scheduling.verdicts import next_turn
from runrig.engine.state.state import State
from runrig.engine.state.upstream import groups_before


def why(state: State, workflow: str) -> tuple[GroupWhy, ...]:
    """The reasons of each group of a live workflow. O(buckets × log pending + nodes)."""
    return drained(why_in_steps(state, workflow))


def why_in_steps(state: State, workflow: str, element: str | None = None) -> Steps[tuple[GroupWhy, ...]]:
    """`why` in steps of a few milliseconds each in a large cluster. *element*: only this one of an array."""
    found = []
    for group in groups_to_explain(state, workflow, element):
        found.append((yield from _group(state, group)))
    return tuple(found)


def groups_to_explain(state: State, workflow: str, element: str | None = None) -> list[Group]:
    """The groups of *workflow*; of an array only *element*, or if None the first in each status, because elements are alike."""
    groups = state.groups_of(workflow)
    if state.spec_of(workflow).array is None:
        return groups
    if element is not None:
        return [group for group in groups if group.name == element]
    firsts: dict[Status, Group] = {}
    for group in groups:
        firsts.setdefault(group.status, group)
    return list(firsts.values())


def _group(state: State, group: Group) -> Steps[GroupWhy]:
    found = yield from why_of(state, group, blockers)
    entry = state.ledger.entries.get(group.gang_id)
    if entry is None or entry.state is not GangState.PENDING:
        return found
    everywhere, in_pool = yield from ahead_of(state.ledger, entry)
    found = replace(found, position=in_pool + 1, ahead=everywhere, queued_time=group.queued_time)
    if not found.blockers:
        return found
    left = () if any(each.tier is Tier.QUOTA for each in found.blockers) else tuple(_left(state.ledger, entry))
    in_full = yield from blockers_in_full(state.ledger, entry)
    return replace(found, in_full=in_full, left=left)


def _left(ledger: Ledger, entry: Entry) -> Iterator[QuotaLeft]:
    leaf = ledger.leaf(entry)
    for choice in islice(flavor_choices(ledger, entry, least_counts(entry.gang.pod_sets)), 1):
        for index, _ in ledger.request_of(entry, choice):
            yield from quota_left(ledger, leaf, index)


def why_of(
    state: State, group: Group, blockers_of: Callable[[Ledger, Entry], Steps[tuple[Blocker, ...]]]
) -> Steps[GroupWhy]:
    """Why *group* is waiting, without its position, which would need all buckets. *blockers_of*: `blockers` or a substitute."""
    if group.status is Status.WAITING:
        return _waits_for(GroupWhy(group.name, group.status), *outside(state, group))
    entry = state.ledger.entries.get(group.gang_id)
    if entry is None:
        return GroupWhy(group.name, group.status)
    if entry.state not in IN_QUEUE:
        stopping = None if group.stopping is None else group.failure_message
        return GroupWhy(group.name, group.status, preempted_by=entry.preempted_by, stopping=stopping)
    turn = yield from next_turn(state.ledger, entry)
    if entry.state is GangState.NOMINATED:
        left = tuple(name for name in entry.waits_for if name in state.ledger.entries)
        nominated = GroupWhy(group.name, group.status, 0, 0, waits_for=left, verdict=turn.verdict)
        if turn.start is not None:
            return nominated
        return replace(_waits_for(nominated, Reason(Code.WAITS_FOR_TARGETS, "R4", holders=left)), verdict=turn.verdict)
    found = GroupWhy(group.name, group.status, verdict=turn.verdict)
    if turn.verdict is None:
        return replace(found, reasons=(Reason(Code.NOT_CONSIDERED, "P5"),))
    if turn.start is not None:
        return replace(found, stops=turn.start.gangs if isinstance(turn.start, Targets) else ())
    blocked = yield from blockers_of(state.ledger, entry)
    return replace(found, reasons=first_reasons(blocked), blockers=blocked)


def outside(state: State, group: Group) -> Iterator[Reason]:
    """Yields why *group* is not in the queue."""
    workflow = state.workflows[group.workflow]
    if workflow.set_aside:
        yield reason_set_aside(workflow)
    else:
        if workflow.held_by is not None:
            yield Reason(Code.HELD, "W3", where=workflow.held_by, since=workflow.held_since)
        yield from _owners_aside(state, workflow)
        if (paused := paused_through(state.pools, workflow.pool)) is not None:
            yield reason_paused(paused)
        yield from of_budgets(state, workflow.pool, workflow.submitted_by, workflow.priority)
    yield from (
        Reason(Code.AFTER, "W5", where=each.when.value, holders=(each.what,)) for each in workflow.after if not each.met
    )
    if before := groups_before(state, group):
        yield Reason(Code.UPSTREAM, "W1", holders=before)
    started = 0 if workflow.most is None else state.groups.number(workflow.id, *UNDER_WAY)
    if workflow.most is not None and started >= workflow.most:
        elements = len(state.spec_of(workflow.id).groups)
        yield Reason(Code.ARRAY, "W4", have=started, need=workflow.most, gangs=elements)


def _owners_aside(state: State, workflow: Workflow) -> Iterator[Reason]:
    """Yields that a pause or budget that keeps *workflow* waiting cannot be changed, and so does not end (rule W8)."""
    aside = state.budgets.aside
    if aside and state.budgets.keep_back(state.pools, workflow):
        pool, user = workflow.pool, workflow.submitted_by
        for scope in dict.fromkeys(((Owner.POOL, pool), (Owner.POOL, top_level(pool)), (Owner.USER, user))):
            if scope in aside:
                yield Reason(Code.SET_ASIDE, "W8", where=scope[1], stopped=scope[0])


def of_budgets(state: State, pool: str, user: str, priority: Priority) -> Iterator[Reason]:
    """Yields the reached budgets that keep such work from starting (rule W7)."""
    for spent in state.budgets.that_stop(pool, user, priority):
        if (declared := state.budgets.declared.get(spent.scope)) is not None:
            yield reason_budget(spent, declared[0])


def _waits_for(group: GroupWhy, *reasons: Reason) -> GroupWhy:
    blockers = tuple(Blocker(Tier.WAITING_FOR, (), reason) for reason in reasons)
    return replace(group, verdict=Verdict.WAITS, reasons=reasons[:1], blockers=blockers)


def explain(ledger: Ledger, entry: Entry) -> Steps[tuple[Reason, ...]]:
    """The first blocker of *entry*, per choice of flavors; if nothing blocks it, that it has not been evaluated."""
    found = yield from blockers(ledger, entry)
    yield
    open_to_it = not any(blocker.tier in (Tier.ORDER, Tier.WAITING_FOR) for blocker in found)
    if not found or (open_to_it and look_at(ledger, entry) is not None):
        return (Reason(Code.NOT_CONSIDERED, "P5"),)
    return first_reasons(found)
