"""Everything that keeps a gang from starting, by tier; each condition is judged as if all others were met.

Judged for the minimum size that the gang accepts (rule A1), per choice of flavors. For one choice, all conditions must hold, so
the list is complete; of several choices, one is enough.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from runrig.domain.blockers import Blocker, Tier
from runrig.domain.gangs import GangState, Placement
from runrig.domain.pools import Queueing
from runrig.domain.quantities import GPU, has_several_flavors
from runrig.domain.reasons import Code, Concerned, Part, Reason
from runrig.domain.steps import Steps
from runrig.engine.explain.quota_reasons import MOST_CONCERNED, name_of, never_allowed, quota_reasons
from runrig.engine.explain.shape_reasons import never_fits, shape_reasons
from runrig.engine.ledger.fit import counts_for, place_on_nodes
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import choices_left_out, flavor_choices
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.node_capacity import EMPTY
from runrig.engine.placement.partial import least_counts
from runrig.engine.preemption.candidates import Candidates
from runrig.engine.quota.quota_node import CHARGED, Request, headroom, within_promise
from runrig.engine.scheduling.queue_order import head_of, standing

MOST_CHOICES = 8
"""Maximum number of choices of flavors that are judged, in the order of the pool."""

BEST_CHOICES = 3
"""Maximum number of choices that are reported: those with the fewest blockers."""


def blockers(ledger: Ledger, entry: Entry) -> Steps[tuple[Blocker, ...]]:
    """Everything that blocks the waiting *entry*, sorted by tier; empty if nothing does. O(nodes) per choice.

    Counts what is decided: nominated gangs count as running, their targets as stopped.
    """
    counts = least_counts(entry.gang.pod_sets)
    of_user = list(_of_user(ledger, entry, counts))
    found = [*behind_head(ledger, entry), *_of_waiting(entry), *of_user]
    leaf = ledger.leaf(entry)
    if not leaf.active:
        found.append(Blocker(Tier.QUOTA, (), Reason(Code.COHORT_CYCLE, "Q5", where=name_of(leaf))))
    else:
        others = yield from _of_choices(ledger, entry, counts)
        found += [each for each in others if not of_user or each.reason.code is not Code.WAITS_FOR_TARGETS]
    tiers = list(Tier)
    return tuple(sorted(found, key=lambda blocker: tiers.index(blocker.tier)))


def blockers_in_full(ledger: Ledger, entry: Entry) -> Steps[tuple[Blocker, ...]]:
    """Everything that blocks *entry* with all of its pods; empty if it does not accept fewer (rule A1)."""
    counts = entry.bucket.counts
    if counts == least_counts(entry.gang.pod_sets) or not ledger.leaf(entry).active:
        return ()
    found = [*_of_user(ledger, entry, counts)] + (yield from _of_choices(ledger, entry, counts))
    return tuple(each for each in found if each.tier is not Tier.WAITING_FOR)


def first_reasons(found: Sequence[Blocker]) -> tuple[Reason, ...]:
    """The reason of the first of *found*. If that concerns only one choice of flavors, the first reason of each choice."""
    always = [blocker.reason for blocker in found if not blocker.flavors]
    if always:
        return (always[0],)
    first = {blocker.flavors: blocker.reason for blocker in reversed(found)}
    return tuple(dict.fromkeys(first[flavors] for flavors in dict.fromkeys(blocker.flavors for blocker in found)))


def strict_head(ledger: Ledger, pool: str) -> Entry | None:
    """The gang that no other of the pool can pass. Gangs that a limit of their user stops do not count (rule W6).

    None: no other gang waits, or the queue is not STRICT_FIFO.
    """
    if ledger.pools[pool].queueing is not Queueing.STRICT_FIFO:
        return None
    nominated = [entry for entry in ledger.nominated.values() if entry.gang.pool == pool]
    waiting = head_of(ledger, pool)
    heads = nominated if waiting is None else [*nominated, waiting]
    return min(heads, key=partial(standing, ledger), default=None)


def behind_head(ledger: Ledger, entry: Entry) -> tuple[Blocker, ...]:
    """The blocker of an *entry* behind the head of a STRICT_FIFO queue; empty for other gangs."""
    head = strict_head(ledger, entry.gang.pool)
    if head is None or head is entry or entry.state is GangState.NOMINATED:
        return ()
    if ledger.user_holds_too_much(entry.bucket) and standing(ledger, entry) < standing(ledger, head):
        return ()
    return (Blocker(Tier.ORDER, (), Reason(Code.BEHIND_HEAD, "P4", where=entry.gang.pool, holders=(head.gang.id,))),)


def beyond_user(ledger: Ledger, entry: Entry) -> tuple[Blocker, ...]:
    """The limits of its user that even the smallest *entry* exceeds alone; they come before its place in the queue."""
    found = _of_user(ledger, entry, least_counts(entry.gang.pod_sets))
    return tuple(each for each in found if each.tier is Tier.SUBMISSION)


def _of_user(ledger: Ledger, entry: Entry, counts: tuple[int, ...]) -> Iterator[Blocker]:
    """Yields the limits of its user that *counts* pods exceed (rule W6)."""
    need, users = entry.gang.gpus(counts), ledger.users
    for holder, limit in users.exceeded(ledger.pools[entry.gang.pool], entry.user, need):
        have, at_least = users.held[holder], counts != entry.bucket.counts
        reason = Reason(
            Code.USER_LIMIT, "W6", holder[0], GPU, have, need, own=limit, said=entry.user, at_least=at_least
        )
        yield Blocker(Tier.SUBMISSION if need > limit else Tier.QUOTA, (), reason)


def _of_waiting(entry: Entry) -> Iterator[Blocker]:
    if entry.gang.refused:
        yield Blocker(Tier.WAITING_FOR, (), Reason(Code.KAI_NOT_PLACED, "T7", where=entry.gang.refused))


# ---------------------------------------------------------------- per choice of flavors


def _of_choices(ledger: Ledger, entry: Entry, counts: tuple[int, ...]) -> Steps[list[Blocker]]:
    choices = list(islice(flavor_choices(ledger, entry, counts), MOST_CHOICES))
    if not choices:
        platforms = ", ".join(sorted({each.platform or "" for each in entry.gang.pod_sets}))
        none = Reason(Code.NO_MATCHING_FLAVOR, "P3", f"pool {entry.gang.pool}", platforms)
        return [Blocker(Tier.SUBMISSION, (), none)]
    judged = []
    for choice in choices:
        judged.append((yield from _of_choice(ledger, entry, choice)))
    best = sorted(judged, key=len)[:BEST_CHOICES]
    if not all(judged):
        return list(_of_stopping(ledger))
    found = [
        replace(
            blocker,
            flavors=tuple(each.flavor for each in choice),
            reason=_worded(ledger, entry, counts, blocker.reason),
        )
        for choice, each_found in zip(choices, judged, strict=True)
        if any(each_found is kept for kept in best)
        for blocker in each_found
    ]
    if choices_left_out(ledger, entry):
        found.append(Blocker(Tier.SHAPE, ("",), Reason(Code.PLACEMENT_NOT_PROVEN, "T1", need=sum(counts))))
    return found


def _worded(ledger: Ledger, entry: Entry, counts: tuple[int, ...], reason: Reason) -> Reason:
    """*reason* with what its sentence depends on: whether the smallest size is judged, and whether there are several flavors."""
    resource = reason.resource.partition("/")[2]
    return replace(
        reason, at_least=counts != entry.bucket.counts, named=has_several_flavors(ledger.tree.keys, resource)
    )


def _of_stopping(ledger: Ledger) -> Iterator[Blocker]:
    """Yields the blocker if only gangs that stop for others are in the way (rule R4)."""
    leaving = tuple(sorted(name for name, stopping in ledger.stopping.items() if not stopping.charged))
    if leaving:
        yield Blocker(Tier.WAITING_FOR, (), Reason(Code.WAITS_FOR_TARGETS, "R4", holders=leaving))


def _of_choice(ledger: Ledger, entry: Entry, choice: Placement) -> Steps[list[Blocker]]:
    leaf, request = ledger.leaf(entry), ledger.request_of(entry, choice)
    never = [never_allowed(ledger, leaf, index, amount) for index, amount in request]
    found = [Blocker(Tier.SUBMISSION, (), reason) for reason in never if reason is not None]
    refused = len(found)
    for index, amount in request:
        yield
        for reason in quota_reasons(ledger, leaf, index, amount):
            found.append(Blocker(Tier.QUOTA, (), reason))
            yield
    yield from counts_for(ledger, entry, choice)
    yield
    if place_on_nodes(ledger, entry, choice) is None:
        yield from counts_for(ledger, entry, choice, (EMPTY,))
        for reasons in (shape_reasons, never_fits):
            yield
            for reason in reasons(ledger, entry, choice):
                tier = Tier.SUBMISSION if reason.code is Code.KEYS_CHANGED else Tier.SHAPE
                found.append(Blocker(tier, (), reason))
    if len(found) > refused and request and entry.bucket.firm and within_promise(leaf, request):
        yield
        found.append(Blocker(Tier.PREEMPTION, (), _no_targets(ledger, entry, choice, request)))
    return found


def _no_targets(ledger: Ledger, entry: Entry, choice: Placement, request: Request) -> Reason:
    """Why it cannot preempt although it is within its guarantee: how much LOW work could be stopped, and how much is safe. O(pools)."""
    leaf = ledger.leaf(entry)
    short = [index for index, amount in request if amount > headroom(leaf, index)]
    index, amount = next(each for each in request if not short or each[0] in short)
    candidates = Candidates(ledger, entry, choice, request)
    goes, gangs, safe = 0, 0, []
    for pool, held in ledger.preemptible.items():
        holds = ledger.tree.low[pool].usage[CHARGED][index] if held else 0
        if holds and candidates.may_take(held[0][1]):
            goes += holds
            gangs += len(held)
        elif holds:
            safe.append((-holds, pool))
    concerned = tuple(Concerned(Part.PROTECTED, pool, -holds) for holds, pool in sorted(safe)[:MOST_CONCERNED])
    key = str(ledger.tree.keys[index])
    return Reason(Code.NO_TARGETS, "R2", f"pool {entry.gang.pool}", key, goes, amount, concerned=concerned, gangs=gangs)
