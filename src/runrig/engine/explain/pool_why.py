"""Why gangs of one pool are waiting: grouped by first blocker, most gangs first.

Gangs with the same answer are evaluated once. Computed on demand.
"""

from collections.abc import Iterator, Sequence
from itertools import starmap

from runrig.domain.pools import paused_through
from runrig.domain.quantities import GPU
from runrig.domain.reasons import Code, Reason
from runrig.domain.shown.why import PoolWhy, WaitingAlike, WaitingPlace, reason_paused
from runrig.domain.steps import Steps
from runrig.domain.workflows import Group
from runrig.engine.explain.blockers import strict_head
from runrig.engine.explain.why import explain, of_budgets
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry, asked, in_order
from runrig.engine.scheduling.queue_order import first_in
from runrig.engine.state.state import State
from runrig.engine.state.upstream import ready_groups

MOST_ASKED = 64
"""Maximum number of kinds of gangs that are evaluated, those at the front of the queue first."""

MOST_PLACES = 20
"""Maximum number of gangs whose place in the queue is listed."""

MOST_NAMED = 3
"""Maximum number of gangs named per blocker."""


Known = dict[str, Reason]
"""Gang → why it is waiting, as far as it has been computed."""


def pool_why(state: State, pool: str, known: Known | None = None) -> Steps[PoolWhy]:
    """What is waiting in *pool*, without its subpools, and why. O(MOST_ASKED × nodes + waiting gangs + those on hold).

    *known*: reasons that are used as they are; new ones are added.
    """
    sums: dict[tuple[Code, str, str, str], tuple[Reason, list[Entry]]] = {}
    unasked = total = gpus = 0
    reasons: dict[str, Reason] = {}
    kinds = yield from _kinds(state.ledger, pool, {} if known is None else known)
    front = first_in(state.ledger, pool, MOST_PLACES)
    for reason, gangs in kinds:
        total += len(gangs)
        gpus += _gpus(gangs)
        if reason is None:
            unasked += len(gangs)
        else:
            reasons |= dict.fromkeys({each.gang.id for each in gangs}.intersection(front), reason)
            sums.setdefault((reason.code, reason.where, reason.resource, reason.said), (reason, []))[1].extend(gangs)
    found = [*starmap(_alike, sums.values()), *_on_hold(state, pool), *_kept_back(state, pool)]
    found.sort(key=lambda held: (-held.gangs, held.reason.code.value, held.reason.where, held.reason.resource))
    places = (_place(entry, reasons.get(id)) for id, entry in front.items())
    return PoolWhy(pool, total, gpus, tuple(found), unasked, tuple(places))


def _place(entry: Entry, reason: Reason | None) -> WaitingPlace:
    return WaitingPlace(entry.gang.id, entry.gang.priority, asked(entry.gang), entry.gang.submitted_at, reason)


def _on_hold(state: State, pool: str) -> Iterator[WaitingAlike]:
    """Groups that would be in the queue if their workflows were not on hold, by the user who holds them (rule W3)."""
    found: dict[str, list[Group]] = {}
    for workflow in sorted((state.workflows[id] for id in state.on_hold), key=lambda each: (each.submit_time, each.id)):
        if workflow.pool == pool and workflow.held_by is not None:
            found.setdefault(workflow.held_by, []).extend(ready_groups(state, state.groups_of(workflow.id)))
    for by, groups in sorted(found.items()):
        if groups:
            yield _outside(state, Reason(Code.HELD, "W3", where=by), groups)


def _kept_back(state: State, pool: str) -> Iterator[WaitingAlike]:
    """Groups that would be in the queue if *pool* were not paused (rule S8), or no budget reached (rule W7), by the first of these
    reasons. O(workflows) if there is one.
    """
    paused = paused_through(state.pools, pool)
    if paused is None and not any(spent.stops for spent in state.budgets.spent.values()):
        return
    there = [each for each in state.workflows.values() if each.pool == pool and not each.held_by]
    found: dict[Reason, list[Group]] = {}
    for workflow in sorted(there, key=lambda each: (each.submit_time, each.id)):
        reached = of_budgets(state, pool, workflow.submitted_by, workflow.priority)
        reason = reason_paused(paused) if paused is not None else next(reached, None)
        if reason is not None and (groups := [*ready_groups(state, state.groups_of(workflow.id))]):
            found.setdefault(reason, []).extend(groups)
    yield from (_outside(state, reason, groups) for reason, groups in found.items())


def _outside(state: State, reason: Reason, groups: Sequence[Group]) -> WaitingAlike:
    gpus = sum(_asked(state, group) for group in groups)
    return WaitingAlike(reason, len(groups), gpus, tuple(group.gang_id for group in groups[:MOST_NAMED]))


def _asked(state: State, group: Group) -> int:
    """GPUs of the group at full size."""
    tasks = state.group_spec((group.workflow, group.name)).tasks
    return sum(task.pods * amount for task in tasks for kind, amount in task.requests if kind == GPU)


def _alike(reason: Reason, gangs: Sequence[Entry]) -> WaitingAlike:
    first = tuple(each.gang.id for each in sorted(gangs, key=in_order)[:MOST_NAMED])
    return WaitingAlike(reason, len(gangs), _gpus(gangs), first)


def _kinds(ledger: Ledger, pool: str, known: Known) -> Steps[list[tuple[Reason | None, Sequence[Entry]]]]:
    """Gangs with the reason that they share; None: not evaluated."""
    found: list[tuple[Reason | None, Sequence[Entry]]] = []
    for entry in ledger.nominated.values():
        if entry.gang.pool == pool:
            left = tuple(name for name in entry.waits_for if name in ledger.entries)
            found.append((Reason(Code.WAITS_FOR_TARGETS, "R4", holders=left), (entry,)))
    buckets = sorted(ledger.buckets_in(pool), key=lambda each: each.waiting[0].order)
    head = strict_head(ledger, pool)
    if head is not None:
        stopped = [bucket for bucket in buckets if ledger.user_holds_too_much(bucket)]
        others = [entry for bucket in buckets if bucket not in stopped for entry in bucket.waiting]
        behind = [entry for entry in others if entry is not head]
        if head in head.bucket.waiting:
            found.append(((yield from _explained(ledger, head, known)), (head,)))
        if behind:
            found.append((Reason(Code.BEHIND_HEAD, "P4", where=pool, holders=(head.gang.id,)), behind))
        buckets = stopped
    for at, bucket in enumerate(buckets):
        reason = (yield from _explained(ledger, bucket.waiting[0], known)) if at < MOST_ASKED else None
        found.append((reason, bucket.waiting))
    return found


def _explained(ledger: Ledger, entry: Entry, known: Known) -> Steps[Reason]:
    if entry.gang.id not in known:
        known[entry.gang.id] = (yield from explain(ledger, entry))[0]
    return known[entry.gang.id]


def _gpus(gangs: Sequence[Entry]) -> int:
    return sum(asked(each.gang) for each in gangs)
