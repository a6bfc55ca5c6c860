"""Nomination: what could be given to a head as things stand at the start of the cycle (laws A1, A2).

The full counts, now or by preemption; else, where pod sets may be smaller, the largest counts for which either works.
"""

from collections.abc import Sequence

from runrig.engine.balance import CHARGED, Request, add, fits, take
from runrig.engine.kueue.book import Book, level_of
from runrig.engine.kueue.classical import find_classical
from runrig.engine.kueue.fair import find_fair
from runrig.engine.kueue.flavors import FindTargets, assign
from runrig.engine.kueue.order import Entry
from runrig.engine.kueue.work import FIT, NOFIT, Assigned, Item, Target
from runrig.engine.partial import bisected


def finder(book: Book) -> FindTargets:
    """The search for targets that the settings ask for."""
    return find_classical if book.strategies is None else find_fair


def nominate(book: Book, item: Item, *, after: tuple[int, ...] = ()) -> Entry:
    """The best for *item* in CHARGED; its `assigned` is FIT, or has targets, or is what stands in the way."""
    find = finder(book)

    def attempt(counts: tuple[int, ...]) -> Entry | None:
        entry = _attempt(book, find, item, counts, after)
        return entry if entry.assigned.mode == FIT or entry.targets else None

    entry = _attempt(book, find, item, item.shape.counts, after)
    if entry.assigned.mode == FIT or entry.targets:
        return entry
    if item.shape.variable and book.gates["PartialAdmission"]:
        return bisected(item.shape.ranges, attempt) or entry
    return entry


def _attempt(book: Book, find: FindTargets, item: Item, counts: tuple[int, ...], after: tuple[int, ...]) -> Entry:
    assigned = assign(book, find, item, counts, after=after)
    return Entry(item, assigned, _targets(book, find, item, assigned))


def _targets(book: Book, find: FindTargets, item: Item, assigned: Assigned) -> tuple[Target, ...]:
    if not NOFIT < assigned.mode < FIT:
        return ()
    found = _searched(book, item, assigned)
    return tuple(find(book, item, assigned.request, assigned.contested) if found is None else found)


def _searched(book: Book, item: Item, assigned: Assigned) -> Sequence[Target] | None:
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


def nominate_again(book: Book, entry: Entry) -> Entry:
    """*entry* in the flavors and counts that it was nominated with, as things stand now."""
    item, before = entry.item, entry.assigned
    find = finder(book)
    assigned = assign(book, find, item, before.counts, only=before.chosen)
    return Entry(item, assigned, _targets(book, find, item, assigned), promised=entry.promised)


def nominate_promised(book: Book, items: list[Item]) -> list[Entry]:
    """Preemptors whose targets have gone: each keeps what was freed for it, or gets better, at nobody's cost (law R5).

    What the others were promised, or now take instead, counts.
    """
    spoken_for: dict[str, Request] = {}
    for item in items:
        assert item.held is not None
        _charge(book, item, item.held.request, spoken_for)
    entries = []
    for item in items:
        assert item.held is not None
        _uncharge(book, item, spoken_for)
        entry = nominate(book, item)
        if entry.assigned.mode != FIT and fits(item.leaf, item.held.request):
            entry = Entry(item, _as_fit(item, item.held))
        entry.promised = True
        entries.append(entry)
        _charge(book, item, entry.assigned.request if entry.assigned.mode == FIT else item.held.request, spoken_for)
    for item in items:
        _uncharge(book, item, spoken_for)
    return entries


def _charge(book: Book, item: Item, request: Request, spoken_for: dict[str, Request]) -> None:
    spoken_for[item.workload.name] = request
    add(item.leaf, request, CHARGED)
    book.changed(item.leaf)


def _uncharge(book: Book, item: Item, spoken_for: dict[str, Request]) -> None:
    take(item.leaf, spoken_for.pop(item.workload.name), CHARGED)
    book.changed(item.leaf)


def _as_fit(item: Item, held: Assigned) -> Assigned:
    level = max((level_of(item.leaf, index, amount)[0] for index, amount in held.request), default=0)
    return Assigned(held.counts, FIT, level, held.chosen, held.request)
