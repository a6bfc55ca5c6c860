"""Nomination: what could be given to a head as things stand at the start of the cycle (laws A1, A2).

The full counts, now or by preemption; else, where pod sets may be smaller, the largest counts for which either works.
"""

from collections.abc import Sequence

from runrig.engine.kueue.classical import find_classical
from runrig.engine.kueue.fair import find_fair
from runrig.engine.kueue.flavors import FindTargets, assign
from runrig.engine.kueue.head_order import Nomination
from runrig.engine.kueue.node_tree import Reservation, can_reserve, release, reserve
from runrig.engine.kueue.podset_placement import Misfit
from runrig.engine.kueue.scheduler_context import SchedulerContext, level_of
from runrig.engine.kueue.workload import FIT, NOFIT, FlavorAssignment, WorkloadState, WorkloadTarget
from runrig.engine.kueue.workload_placement import NOWHERE, WorkloadPlacement
from runrig.engine.placement.partial import bisected
from runrig.engine.quota.quota_node import CHARGED, Request, add, fits, take


def finder(book: SchedulerContext) -> FindTargets:
    """The search for targets that the settings ask for."""
    return find_classical if book.strategies is None else find_fair


def nominate(book: SchedulerContext, item: WorkloadState, *, after: tuple[int, ...] = ()) -> Nomination:
    """The best for *item* in CHARGED; its `assigned` is FIT, or has targets, or is what stands in the way."""
    find = finder(book)

    def attempt(counts: tuple[int, ...]) -> Nomination | None:
        entry = _attempt(book, find, item, counts, after)
        return entry if entry.assigned.mode == FIT or entry.targets else None

    entry = _attempt(book, find, item, item.shape.counts, after)
    if entry.assigned.mode == FIT or entry.targets:
        return entry
    if item.shape.variable and book.gates["PartialAdmission"]:
        return bisected(item.shape.ranges, attempt) or entry
    return entry


def _attempt(
    book: SchedulerContext, find: FindTargets, item: WorkloadState, counts: tuple[int, ...], after: tuple[int, ...]
) -> Nomination:
    assigned = assign(book, find, item, counts, after=after)
    return Nomination(item, assigned, _targets(book, find, item, assigned))


def _targets(
    book: SchedulerContext, find: FindTargets, item: WorkloadState, assigned: FlavorAssignment
) -> tuple[WorkloadTarget, ...]:
    if not NOFIT < assigned.mode < FIT:
        return ()
    if item.shape.placed:
        return _targets_with_places(book, find, item, assigned)
    found = _searched(book, item, assigned)
    return tuple(find(book, item, assigned.request, assigned.contested) if found is None else found)


def _targets_with_places(
    book: SchedulerContext, find: FindTargets, item: WorkloadState, assigned: FlavorAssignment
) -> tuple[WorkloadTarget, ...]:
    """The same, where pods also need nodes; *assigned* then says where they go once the targets are gone."""

    def found() -> WorkloadPlacement | Misfit:
        return places_now(book, item, assigned)

    targets = tuple(
        find(book, item, assigned.request, assigned.contested, lambda: isinstance(found(), WorkloadPlacement))
    )
    if targets:
        for each in targets:
            release(each.item.spots)
        places = found()
        for each in targets:
            reserve(each.item.spots)
        assert isinstance(places, WorkloadPlacement), "the search has seen that it has a place without its targets"
        assigned.places = places
    return targets


def places_now(book: SchedulerContext, item: WorkloadState, assigned: FlavorAssignment) -> WorkloadPlacement | Misfit:
    """Where the pods of *item* go as rooms stand now, in the flavors and counts of *assigned*."""
    places = NOWHERE
    for need, option in zip(item.shape.needs, assigned.chosen, strict=True):
        if option is not None:
            members = item.shape.members(need, assigned.counts)
            found = book.nodes.place(option.flavor, members, places)
            if isinstance(found, Misfit):
                return found
            places = places.and_also(found)
    return places


def _searched(
    book: SchedulerContext, item: WorkloadState, assigned: FlavorAssignment
) -> Sequence[WorkloadTarget] | None:
    """What the scan found, if one of its searches was the search for the whole request as well; None if none was.

    One was if nothing else is asked; or, classical, if nothing else is contested and all is within the queue's own nominal:
    then the preemptor is entitled at every level, with the whole request as with that part of it.
    """
    if len(assigned.contested) > 1:
        return None
    (index,) = assigned.contested
    part = next(each for each in assigned.request if each[0] == index)
    usage, nominal = item.leaf.usage[CHARGED], item.leaf.nominal
    if len(assigned.request) > 1 and (
        book.strategies is not None or any(usage[index] + amount > nominal[index] for index, amount in assigned.request)
    ):
        return None
    return next((targets for request, targets in assigned.searched if request == (part,)), None)


def nominate_again(book: SchedulerContext, entry: Nomination) -> Nomination:
    """*entry* in the flavors and counts that it was nominated with, as things stand now."""
    item, before = entry.item, entry.assigned
    find = finder(book)
    assigned = assign(book, find, item, before.counts, only=before.chosen)
    return Nomination(item, assigned, _targets(book, find, item, assigned), promised=entry.promised)


def nominate_promised(book: SchedulerContext, items: list[WorkloadState]) -> list[Nomination]:
    """Preemptors whose targets have gone: each keeps what was freed for it, or gets better, at nobody's cost (law R5).

    What the others were promised, or now take instead, counts.
    """
    reserved: Reserved = {}
    for item in items:
        assert item.held is not None
        _charge(book, item, item.held, reserved)
    entries = []
    for item in items:
        assert item.held is not None
        _uncharge(book, item, reserved)
        entry = nominate(book, item)
        if entry.assigned.mode != FIT and fits(item.leaf, item.held.request) and can_reserve(item.held.places.spots):
            entry = Nomination(item, _as_fit(item, item.held))
        entry.promised = True
        entries.append(entry)
        _charge(book, item, entry.assigned if entry.assigned.mode == FIT else item.held, reserved)
    for item in items:
        _uncharge(book, item, reserved)
    return entries


Reserved = dict[str, tuple[Request, tuple[Reservation, ...]]]
"""What counts for a workload while others are nominated: quota and nodes, by its name."""


def _charge(book: SchedulerContext, item: WorkloadState, assigned: FlavorAssignment, reserved: Reserved) -> None:
    reserved[item.workload.name] = assigned.request, assigned.places.spots
    add(item.leaf, assigned.request, CHARGED)
    reserve(assigned.places.spots)
    book.changed(item.leaf)


def _uncharge(book: SchedulerContext, item: WorkloadState, reserved: Reserved) -> None:
    request, spots = reserved.pop(item.workload.name)
    take(item.leaf, request, CHARGED)
    release(spots)
    book.changed(item.leaf)


def _as_fit(item: WorkloadState, held: FlavorAssignment) -> FlavorAssignment:
    level = max((level_of(item.leaf, index, amount)[0] for index, amount in held.request), default=0)
    return FlavorAssignment(held.counts, FIT, level, held.chosen, held.request, places=held.places)
